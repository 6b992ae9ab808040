"""Applications that a stack carries: how a file names one, what is refused, and what pages take over quinn and noq."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import dumbbell
import window_stack
from conftest import Command
from dumbbell import InputError
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Failed
from dumbbell.experiment import json_schema
from dumbbell.experiment.plugins import trust
from dumbbell.stacks import build as building

CRATE = window_stack.CRATE


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in C of a stack with streams; next to it lies one without."""
    folder = tmp_path_factory.mktemp("courier")
    window_stack.built(folder)
    source, made = CRATE / "examples" / "courier.c", folder / "courier.so"
    line = ["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-I", str(CRATE / "include"), str(source), "-o", str(made)]
    subprocess.run(line, check=True)
    return made


pytestmark = pytest.mark.usefixtures("own_folders", "trusted")


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setenv(trust.VARIABLE, str(library.parent))


def table(kind: Any = "pages", **app: Any) -> dict[str, Any]:
    bottleneck = {"rate": "8Mbit", "aqm": {"name": "pfifo", "limit": 1000}}
    return {"duration": "2s", "bottleneck": bottleneck, "app": [{"kind": kind, "base_rtt": "20ms"} | app]}


PAGE = {"name": "pages", "objects": 1, "size": "10kB", "connections": 1}


def list_loads_us(run: Any) -> list[int]:
    return [round(time * 1e6) for time in run.app_loads.sort("start_s")["load_s"]]


@pytest.mark.slow
def test_an_application_names_a_stack_as_a_flow_does(library: Path) -> None:
    named = [table(PAGE, stack=str(library)), table(PAGE, stack={"plugin": str(library)}, cc="none")]
    first, second = (dumbbell.run(one) for one in named)
    assert first.runs["hash"][0] == second.runs["hash"][0]
    assert first.apps["cc"].to_list() == ["courier-none"]
    assert first.classes["cc"].to_list() == ["pages over courier-none"] * 2
    # a handshake with 242 B and a request take 20 ms each, 10,000 B in seven datagrams 10,434 us: tests/streams.rs
    assert list_loads_us(first)[:2] == [50_676, 30_434]
    swept = dumbbell.run(table(PAGE, stack=str(library)) | {"matrix": {"app[0].kind.objects": [1, 2]}})
    assert swept.apps.height == 2


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        ({"stack": "OTHER"}, "app[0].stack: window has no streams, which applications need"),
        ({"stack": "SELF", "kind": "call"}, "app[0].stack: call sends datagrams, which no stack carries"),
        ({"stack": "SELF", "kind": "responsiveness"}, "app[0].stack: responsiveness measures what waits behind data"),
        ({"stack": "SELF", "ecn_echo": "dctcp"}, "app[0].ecn_echo: a flow with a stack is not TCP"),
        ({"stack": "SELF", "cc": "bbr"}, 'app[0].cc is "bbr"; it must be none'),
        ({"stack": {"plugin": "SELF", "initial": 3}}, "unknown key app[0].stack.initial"),
        ({"stack": 3}, "app[0].stack is 3; it must be the name of a stack"),
        ({"stack": "nobody"}, "unknown stack nobody"),
    ],
)
def test_what_a_stack_cannot_carry_is_refused_by_name(app: dict[str, Any], expected: str, library: Path) -> None:
    files = {"SELF": str(library), "OTHER": str(library.with_name("window.so"))}

    def place(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: place(one) for key, one in value.items()}
        return files.get(value, value) if isinstance(value, str) else value

    with pytest.raises(InputError) as refused:
        dumbbell.run(table(**place(app)))
    assert expected in str(refused.value), refused.value


def test_keys_of_tcp_have_no_effect_where_all_is_carried_by_a_stack(library: Path) -> None:
    with pytest.raises(InputError, match=r"hosts\.pacing: it sets the hosts' TCP, and nothing here uses TCP"):
        dumbbell.run(table(PAGE, stack=str(library)) | {"hosts": {"pacing": "fq"}})


def test_the_schema_for_editors_knows_stacks_of_applications() -> None:
    check = jsonschema.Draft202012Validator(json_schema.make_schema())
    good = [table(stack="quinn", cc="newreno"), table(stack={"name": "quinn", "send_window": "1MB"}), table(cc="reno")]
    good += [table(stack="quinn") | {"matrix": {"app[0].cc": ["newreno", "cubic"]}}, table("call")]
    good += [table() | {"matrix": {"app[0].stack": ["quinn-0.11.16", "quinn"]}}]
    for one in good:
        assert not list(check.iter_errors(one)), one
    bad = [table(stack=3), table(stack={}), table(stack="quinn", cc=3), table(cc="newreno")]
    bad += [table(cc="reno") | {"matrix": {"app[0].cc": ["newreno"]}}]
    for one in bad:
        assert list(check.iter_errors(one)), one


def test_describe_says_that_applications_take_a_stack(command: Command) -> None:
    assert "QUIC stack" in command("describe", "app.stack").stdout


@pytest.mark.slow
def test_a_capture_has_the_bytes_of_the_datagrams(library: Path, tmp_path: Path, command: Command) -> None:
    file, to = tmp_path / "page.toml", tmp_path / "page.pcapng"
    file.write_text(f"""
duration = "100ms"
[bottleneck]
rate = "8Mbit"
aqm = "pfifo"
[[app]]
kind = {{ name = "pages", objects = 1, size = "10kB", connections = 1 }}
stack = "{library}"
""")
    done = command("trace", file, "-o", to, "--snap", "0")
    assert done.returncode == 0, done.stderr
    content = to.read_bytes()
    # pieces of exchanges 0 and 1, each with its kind and its stream: a request and seven datagrams, and what follows
    found = [len(re.findall((1).to_bytes(8, "little") + n.to_bytes(8, "little"), content)) for n in (0, 1)]
    assert found[0] >= 8 and found[1] >= 1, found


# --- with cargo and a registry --------------------------------------------------------------------------------------

long = pytest.mark.long
patient = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    if shutil.which("cargo") is None:
        pytest.skip("Rust is not installed")
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place))
        try:
            wanted = [
                building.StackRequest("quinn", "0.11.19", logs=False),
                building.StackRequest("noq", "1.4.0", logs=False),
            ]
            yield {one.stack: building.build(one, StepProgress())[0].library for one in wanted}
        except Failed as error:
            if "no versions can be chosen" in error.found and "failed to" in error.found:
                pytest.skip("the registry of crates cannot be reached")
            raise


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch, stacks: dict[str, Path]) -> dict[str, Path]:
    monkeypatch.setenv(trust.VARIABLE, ":".join(str(one.parent) for one in stacks.values()))
    return stacks


@long
@patient
def test_a_page_over_quinn_takes_what_its_packets_take(trusting: dict[str, Path]) -> None:
    """Packet by packet, at 1 us a byte down and at once up, 10 ms each way.

    The first page: the client's first datagram has 1200 B, and so has the server's flight. The client's next one
    finishes the handshake and has the request. The server confirms the handshake in a small frame and sends seven full
    ones, not one more: together with its flight of 1200 B, which is not acknowledged, another full one would exceed the
    initial window of 12,000 B. The ACK of the small frame lets the server send the last one, which finds an idle link.

    Afterwards a page is a request and eight frames that leave together.
    """
    frame = 42  # Ethernet, IPv4 and UDP
    packet = 1 + 8 + 1 + 16  # flags, ID, number, tag: RFC 9000 section 17.3.1
    full = 1452  # bytes of a datagram
    # a stream frame has its type, its stream, an offset of 2 B unless that is 0, and a length if another frame follows
    first, others, rest_head, ack = full - packet - 2, full - packet - 4, 5, 5
    rest = 10_000 - first - 6 * others
    assert rest == 44
    last = frame + packet + rest_head + rest + ack
    confirmation = frame + packet + 8  # PING, HANDSHAKE_DONE, RETIRE_CONNECTION_ID of 2 B, padding of 4 B
    library = str(trusting["quinn"])
    loads = list_loads_us(dumbbell.run(table(PAGE, stack=library, cc="newreno")))
    handshake = 10_000 + 10_000 + frame + 1_200
    assert loads[0] == handshake + 10_000 + (10_000 + confirmation) + (10_000 + 10_000 + last)
    later = 20_000 + 7 * (frame + full) + last
    assert loads[1] == later
    # numbers of packets and streams get longer by a byte each, and some datagrams allow more streams
    assert all(later <= time <= later + 100 for time in loads[1:]), loads


@long
@patient
def test_pages_over_streams_survive_losses_and_repeat_to_the_last_bit(trusting: dict[str, Path]) -> None:
    lossy = [{"name": "loss", "probability": 0.02}]
    for stack, library in trusting.items():
        for connections, multiplexed in ((1, True), (6, False)):
            kind = {
                "name": "pages",
                "connections": connections,
                "multiplexed": multiplexed,
                "objects": 120,
                "size": "3kB",
            }
            app = table(kind, stack=str(library), path=lossy, ack_path=lossy, count=2)
            app |= {"duration": "10s", "seeds": [1, 2], "reverse": {"rate": "2Mbit", "aqm": "fq_codel"}}
            app["bottleneck"]["aqm"] = "fq_codel"
            app |= {"flows": [{"stack": str(library), "base_rtt": "20ms"}, {"cc": "cubic", "base_rtt": "20ms"}]}
            first, second = dumbbell.run(app), dumbbell.run(app)
            assert first.runs["hash"].to_list() == second.runs["hash"].to_list(), stack
            assert len(set(first.runs["hash"])) == 2
            assert min(first.apps["loads"]) >= 2 and min(first.apps["retransmissions"]) > 0, (stack, first.apps)
            # more than 100 streams at once have to be allowed by the other end
            assert first.app_loads["size_bytes"].unique().to_list() == [120 * 3000]


@long
@patient
def test_other_applications_run_over_quinn_and_noq(trusting: dict[str, Path]) -> None:
    kinds: list[dict[str, Any]] = [
        {"name": "request", "size": "10kB", "fresh": True},
        {"name": "onoff", "connections": 4, "idle": "100ms"},
        {"name": "backup", "rate": "2Mbit"},
        {"name": "dash", "segment": "1s", "level": 1},
    ]
    for stack, library in trusting.items():
        runs = [dumbbell.run(table(kind, stack=str(library)) | {"duration": "10s"}).apps for kind in kinds]
        request, onoff, backup, dash = (run.row(0, named=True) for run in runs)
        # a new connection for each: as long as the first page above, and closed behind it
        assert request["loads"] >= 10 / 0.0715 and request["load_p95_s"] < 0.0715, (stack, request)
        assert onoff["loads"] > 10, (stack, onoff)
        assert backup["rate_mbit"] == pytest.approx(2, rel=0.02), (stack, backup)
        assert dash["loads"] >= 10 and dash["stalls"] == 0, (stack, dash)


@long
@patient
def test_turns_of_streams_decide_which_objects_are_there_first(trusting: dict[str, Path]) -> None:
    """With turns all objects of a page end together, without them one after the other: the median is half as long."""
    kind = {"name": "pages", "objects": 41, "size": "20kB", "connections": 1, "multiplexed": True}
    found = {}
    for fair in (True, False):
        stack = {"plugin": str(trusting["quinn"]), "send_fairness": fair}
        run = dumbbell.run(table(kind, stack=stack) | {"duration": "20s"})
        found[fair] = run.apps.row(0, named=True)
    assert found[False]["object_p50_s"] < 0.65 * found[True]["object_p50_s"], found
    assert found[False]["load_mean_s"] == pytest.approx(found[True]["load_mean_s"], rel=0.1), found
