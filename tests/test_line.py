"""`dumbbell line`: an experiment from two rates, and an answer from its runs."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from conftest import Command
from dumbbell.errors import InputError
from dumbbell.experiment.file import load
from dumbbell.line.access import LINKS, OTHER_NAMES, find_kind
from dumbbell.line.answer import choose_setting
from dumbbell.line.home import OLD_MODEM, QUEUES, UNSHAPED, AccessLine, list_settings, write_experiment
from dumbbell.line.measured import read_line
from dumbbell.line.subscribers import read_subscribers
from dumbbell.report.verdict import RankedSettings
from dumbbell.results.felt import Felt, SettingComparison

MBIT = 1_000_000
QUICK = ("--seeds", "4", "--duration", "8s")
SAMPLES = Path(__file__).parent / "imports"


@pytest.mark.parametrize("kind", LINKS)
def test_every_kind_of_line_is_an_experiment_that_checks(kind: str, tmp_path: Path) -> None:
    line = AccessLine(50 * MBIT, 10 * MBIT, kind, queues=tuple(QUEUES))
    path = tmp_path / "line.toml"
    path.write_text(write_experiment(line))
    experiment = load(str(path))
    settings = list_settings(line)
    others = bool(LINKS[kind].modem_queue) + LINKS[kind].varies
    assert len(settings) == 1 + others + len(QUEUES) * len(line.tried_margins)
    cells = [experiment.make_cell(index * line.seeds) for index in range(len(settings))]
    assert [cell.matrix["setting"] for cell in cells] == [setting.name for setting in settings]
    assert all(cell.groups["bottleneck"]["rate"] == 50 * MBIT for cell in cells)
    assert all(cell.groups["reverse"]["rate"] == 10 * MBIT for cell in cells)
    for cell, setting in zip(cells, settings, strict=True):
        if setting.follows:
            assert [hop["aqm"]["bandwidth"] for hop in cell.groups["hop"]] == [12_500_000, 2_500_000]
            kinds = [one["kind"]["name"] for one in cell.groups["app"]]
            assert kinds == ["pages", "call", "autorate"]
        elif setting.queue:
            down, up = (hop["rate"] for hop in cell.groups["hop"])
            assert (down, up) == (setting.margin * 50 * MBIT // 100, setting.margin * 10 * MBIT // 100)


def test_a_queue_at_the_line_holds_its_time_in_full_frames() -> None:
    # 50 Mbit/s for 200 ms are 1 250 000 B, 825.6 frames of 1514 B
    assert AccessLine(50 * MBIT, 10 * MBIT).count_packets(50 * MBIT) == 825
    assert AccessLine(50 * MBIT, 10 * MBIT, modem_buffer=1_000_000).count_packets(10 * MBIT) == 10  # at least


def test_a_cable_modem_has_its_own_pie_behind_the_shaper() -> None:
    line = AccessLine(50 * MBIT, 10 * MBIT, "docsis")
    assert line.make_queues() == ('{ name = "pfifo", limit = 825 }', '{ name = "docsis_pie" }')
    unshaped, fifo, *shaped = list_settings(line)
    assert [one.values[-1] for one in (unshaped, *shaped)] == ['{ name = "docsis_pie" }'] * (1 + len(shaped))
    assert fifo.name == OLD_MODEM and fifo.values[-1] == '{ name = "pfifo", limit = 165 }'
    # 50 ms of 10 Mbit/s are 62 500 B
    longer = AccessLine(50 * MBIT, 10 * MBIT, "docsis", modem_buffer=50_000_000)
    assert longer.make_queues()[1] == '{ name = "docsis_pie", limit = "62500B" }'
    assert "a queue of 50 ms at the provider's end of the line" in longer.assumptions


@pytest.mark.parametrize(("kind", "slot"), [("lte", 1_000_000), ("5g", 500_000)])
def test_a_cellular_line_has_deep_queues_that_a_router_cannot_change(kind: str, slot: int, tmp_path: Path) -> None:
    line = AccessLine(100 * MBIT, 20 * MBIT, kind)
    path = tmp_path / "line.toml"
    path.write_text(write_experiment(line))
    experiment = load(str(path))
    for index in range(len(list_settings(line))):
        cell = experiment.make_cell(index * line.seeds)
        down, up = (cell.groups[name] for name in ("bottleneck", "reverse"))
        assert (down["aqm"]["name"], down["aqm"]["limit"]) == ("bfifo", 10_000_000)
        assert (up["aqm"]["name"], up["aqm"]["limit"]) == ("pfifo", 1000)
        assert down["link"]["request"] == 0 < up["link"]["request"]
        assert [hop["behind"][0]["slot"] for hop in (down, up)] == [slot] * 2
    assert any(text.startswith("a queue of 10 MB at the base station") for text in line.assumptions)
    assert any("between a tenth and the whole of those given" in text for text in line.assumptions)
    # 50 ms of 20 Mbit/s are 82.6 frames
    shorter = AccessLine(100 * MBIT, 20 * MBIT, kind, modem_buffer=50_000_000)
    assert shorter.make_queues()[1] == '{ name = "pfifo", limit = 82 }'
    assert "queues of 50 ms at both ends of the line" in shorter.assumptions


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["docsis", "vdsl", "leo", "lte", "5g"])
def test_lines_that_people_have_get_an_answer(kind: str, tmp_path: Path, command: Command) -> None:
    """Whatever the line, the call is better with the answer than without, and the assumptions are said."""
    place = tmp_path / "home"
    words = ("--down", "60Mbit", "--up", "15Mbit", "--link", kind, "--seeds", "3", "--duration", "10s")
    out = command("line", *words, "-o", str(place)).stdout
    sentences = out.partition("\n\n")[0].splitlines()
    assert sentences[-1].startswith("Assumed: servers at a round-trip time of 20 ms; ")
    varies = LINKS[kind].varies
    assert ("cake-autorate" in sentences[0] or "varies" in sentences[0]) == varies
    before, after = _find_waits(out)
    assert after < before
    scores = re.search(r"A call down has a MOS of ([\d.]+) \(([\d.]+) without a shaper\)", out)
    assert scores and float(scores[1]) >= float(scores[2])
    assert ("in the base station and in the modem" in out) == (kind in ("lte", "5g"))


def test_one_satellite_serves_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "line.toml"
    path.write_text(write_experiment(AccessLine(100 * MBIT, 20 * MBIT, "leo", queues=("cake",), margins=(40,))))
    cell = load(str(path)).make_cell(0)
    links = [cell.groups[name]["link"] for name in ("bottleneck", "reverse")]
    assert [(one["name"], one["terminal"]) for one in links] == [("leo", 1)] * 2


def test_the_answer_names_a_flow_queue_below_the_rate_of_the_line(tmp_path: Path, command: Command) -> None:
    place = tmp_path / "home"
    out = command("line", "--down", "40Mbit", "--up", "8Mbit", "--link", "vdsl", *QUICK, "-o", str(place)).stdout
    first, gain, price, *_ = out.splitlines()
    assert re.match(r"Put (FQ-CoDel|Cake) into the router and shape to (95|90|85) % of the line: ", first)
    before, after = _find_waits(gain)
    assert after < 25 < 100 < before
    scores = re.search(r"A call down has a MOS of ([\d.]+) \(([\d.]+) without a shaper\)", gain)
    assert scores and float(scores[1]) > 4 > float(scores[2])
    assert price.startswith("What it costs: download ")
    assert "Assumed: servers at a round-trip time of 20 ms; queues of 200 ms" in out
    assert all(Path(f"{place}{ending}").stat().st_size for ending in (".toml", ".duckdb", ".html"))


def _find_waits(gain: str) -> tuple[float, float]:
    found = re.search(r"a packet of a call down takes at most ([\d.]+) ms \(([\d.]+) ms without a shaper\)", gain)
    assert found
    return float(found[2]), float(found[1])


def _compare(goodput: dict[str, float], delay: float = 50.0) -> SettingComparison:
    """Return settings with these goodputs and delays of 10 ms, without a shaper of `delay` ms."""
    rate = Felt("download, Mbit/s", "{} Mbit/s down", "down", "rate", more_is_better=True)
    wait = Felt("call down, delay P99, ms", "a packet of a call down takes {} at P99", "call down", "delay", " ms")
    rows = [
        {"setting": name, "seed": 1, "hash": "1", "label": column.label, "value": value}
        for name, own in goodput.items()
        for column, value in ((rate, own), (wait, delay if name == UNSHAPED else 10.0))
    ]
    return SettingComparison(["setting"], {}, list(goodput), [wait, rate], pl.DataFrame(rows), 5)


def test_of_settings_that_are_equally_good_the_cheapest_is_chosen() -> None:
    order = ["b", "a", "c"]
    one = _compare({"a": 47.0, "b": 40.0, "c": 48.0})
    losing: dict[str, list[str]] = {name: [] for name in order}
    # c waits significantly longer: a costs least of the others
    assert choose_setting(one, RankedSettings(order, losing, {"a": False, "c": True})) == "a"
    assert choose_setting(one, RankedSettings(order, losing, {"a": True, "c": True})) == "b"
    # what needs no work comes first, if it is not clearly worse
    goodput = {UNSHAPED: 30.0, "a": 47.0, "b": 40.0, "c": 48.0}
    ranked = RankedSettings(["b", "a", "c", UNSHAPED], {name: [] for name in goodput}, dict.fromkeys(goodput, True))
    assert choose_setting(_compare(goodput, delay=50.0), ranked) == "b"
    assert choose_setting(_compare(goodput, delay=10.9), ranked) == UNSHAPED
    # nothing is distinguished, and a waits twice as long: it is not chosen because it is cheaper
    is_call_of_a = (pl.col("setting") == "a") & pl.col("label").str.starts_with("call")
    slow = one.frame.with_columns(value=pl.when(is_call_of_a).then(20.0).otherwise(pl.col("value")))
    assert choose_setting(replace(one, frame=slow), RankedSettings(order, losing, {"a": False, "c": True})) == "b"
    # a loses packets of a call
    assert choose_setting(one, RankedSettings(order, losing | {"a": ["call"]}, {"a": False, "c": True})) == "b"


@pytest.mark.parametrize(("given", "kind"), [("cable", "docsis"), ("Starlink", "leo"), ("NR", "5g"), ("LTE", "lte")])
def test_lines_have_the_names_that_people_use(given: str, kind: str, tmp_path: Path, command: Command) -> None:
    assert find_kind(given) == kind and find_kind("dsl") == "dsl"
    assert set(OTHER_NAMES.values()) < set(LINKS) and not set(OTHER_NAMES) & set(LINKS)
    place = tmp_path / "only"
    command("line", "--down", "40Mbit", "--up", "8Mbit", "--link", given, "--file", "-o", str(place))
    assert LINKS[kind].title in Path(f"{place}.toml").read_text()


def test_file_writes_the_experiment_alone(tmp_path: Path, command: Command) -> None:
    place = tmp_path / "only"
    assert command("line", "--down", "40Mbit", "--up", "8Mbit", "--file", "-o", str(place)).stdout == f"{place}.toml\n"
    assert [one.name for one in tmp_path.iterdir()] == ["only.toml"]


def test_rates_come_from_a_measurement(tmp_path: Path, command: Command) -> None:
    found = read_line(SAMPLES / "near.pcap.gz")
    way, (rate, where) = next((way, one) for way, one in found.items() if way != "rtt")
    assert rate > MBIT and where.startswith("near.pcap.gz: ")
    other = "up" if way == "down" else "down"
    place = tmp_path / "seen"
    words = ("--from", str(SAMPLES / "near.pcap.gz"), f"--{other}", "5Mbit", "--file", "-o", str(place))
    command("line", *words)
    assert "# near.pcap.gz: " in Path(f"{place}.toml").read_text()
    assert load(f"{place}.toml")


SUBSCRIBERS = "name,down,up,link,rtt\nsmith,50Mbit,10Mbit,vdsl,\njones,200Mbit,20Mbit,docsis,30ms\n"


def test_every_subscriber_gets_a_row(tmp_path: Path, command: Command) -> None:
    (tmp_path / "s.csv").write_text(SUBSCRIBERS)
    words = ("--queue", "fq_codel", "--margins", "90", "--seeds", "4", "--duration", "8s", "-o", str(tmp_path / "all"))
    out = command("line", "--subscribers", str(tmp_path / "s.csv"), *words).stdout
    rows = [line.split("|")[1].strip() for line in out.splitlines() if line.startswith("|")]
    assert rows[2:] == ["smith", "jones"]
    table = pl.read_csv(tmp_path / "all" / "lines.csv")
    assert table["setting"].to_list() == ["FQ-CoDel at 90 %"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it has no row"),
        ("name,down,up\n", "it has no row"),
        ("name,down,up\na,5x,1Mbit\n", 'row 2: column down is "5x"'),
        ("name,down,up\na,,1Mbit\n", "row 2: down is missing"),
        ("name,down,up\na b,1Mbit,1Mbit\n", 'row 2: name is "a b"'),
        ("name,down,up\na,1Mbit,1Mbit\na,2Mbit,1Mbit\n", "that no other line has"),
        ("name,down,up,link\na,1Mbit,1Mbit,cabel\n", 'unknown kind of line "cabel"'),
    ],
)
def test_a_wrong_row_is_named(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_subscribers(path, "fibre", None, {})
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--up", "5Mbit"), "--down is missing"),
        (("--down", "5Mbit"), "--up is missing"),
        (("--down", "5", "--up", "5Mbit"), '--down is "5"; did you mean "5Mbit"?'),
        (("--down", "1kbit", "--up", "5Mbit"), "100kbit to 10Gbit"),
        (("--down", "5Mbit", "--up", "5Mbit", "--link", "dsl"), "fibre, docsis, vdsl, adsl, leo, lte, 5g"),
        (("--down", "5Mbit", "--up", "5Mbit", "--queue", "red"), "fq_codel, cake"),
        (("--down", "5Mbit", "--up", "5Mbit", "--margins", "200"), "percentages from 1 to 110"),
        (("--down", "5Mbit", "--up", "5Mbit", "--duration", "3s"), "--duration is 3s; it must be 6s to 86400s"),
        (("--down", "5Mbit", "--up", "5Mbit", "--rtt", "100s"), "--rtt is 100s; it must be 0ns to 60s"),
        (("--down", "5Mbit", "--up", "5Mbit", "--modem-buffer", "1e9s"), "--modem-buffer"),
        (("--down", "5Mbit", "--up", "5Mbit", "-o", ""), "--output is missing"),
        (("--down", "5Mbit", "--subscribers", "x.csv"), "--subscribers and rates of one line"),
        (("--subscribers", "none.csv"), "none.csv"),
    ],
)
def test_wrong_words_are_named(words: tuple[str, ...], expected: str, command: Command) -> None:
    found = command("line", *words)
    assert found.returncode == 2 and expected in found.stderr


# names of settings


BASE = """
duration = "1s"
[bottleneck]
rate = "10Mbit"
aqm = "pfifo"
[[flows]]
cc = "cubic"
[matrix]
"""


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ('"setting" = ["a"]', "it stands first"),
        ('"bottleneck.aqm, setting" = [["codel", "a"]]', "it stands first"),
        ('"setting, bottleneck.aqm" = [["a", "codel"], ["a", "pie"]]', "does not have"),
        ('"setting, bottleneck.aqm" = [["", "codel"]]', "the name of a setting"),
        ('"setting, bottleneck.aqm" = [[1, "codel"]]', "the name of a setting"),
    ],
)
def test_names_of_settings_are_different_texts(axis: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(BASE + axis)
    with pytest.raises(InputError) as error:
        load(str(path))
    assert expected in str(error.value)


def test_a_setting_is_the_axis_of_all_that_it_sets(tmp_path: Path, command: Command) -> None:
    path, results = tmp_path / "x.toml", str(tmp_path / "x.duckdb")
    path.write_text(
        BASE + '"setting, bottleneck.aqm, hosts.ecn" = [["drops", "codel", false], '
        '["marks", { name = "codel", ecn = true }, true]]\n"flows[0].base_rtt" = ["10ms", "20ms"]\n'
    )
    command("run", str(path), "-o", results)
    rows = command("table", results).stdout.splitlines()
    body = [line for line in rows if line.startswith("|")]
    assert body[0].split("|")[1].strip().startswith("setting")
    assert [line.split("|")[1].strip() for line in body[2:]] == ["drops", "marks"]
    assert "They differ" not in "\n".join(rows)
    kept = command("table", results, "--where", "setting=marks", "--raw").stdout
    assert "drops" not in kept
    # the name is none of the run: the same runs without it are the same runs
    plain = tmp_path / "y.toml"
    plain.write_text(path.read_text().replace("setting, ", "").replace('"drops", ', "").replace('"marks", ', ""))
    keys = [[cell.key for cell in load(str(one)).make_cells()] for one in (path, plain)]
    assert keys[0] == keys[1]
    assert len({*itertools.chain(*keys)}) == 4
