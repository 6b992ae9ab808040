"""Controls as plugins do what registered ones do: pacing, windows, and what they tell of their model."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import Command
from dumbbell import _native
from dumbbell.experiment.plugins import project, trust

HELD = Path(__file__).parent / "held"
LANGUAGES = ("c", "rust", "python")
SETS = {
    "c": "steer->pacing_rate = (uint64_t)((state *)this)->rate;",
    "rust": "steer.pacing_rate = self.0;",
    "python": "steer.pacing_rate = self.rate",
}
BY = ("window", "rate", "both")


def control(folder: Path, language: str, by: str, sets: str | None = None) -> Path:
    """Build a control that holds a pacing rate; `sets` stands in place of the line that sets it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (HELD / {"c": "held.c.in", "rust": "held.rs.in", "python": "held.py.in"}[language]).read_text()
    text = text.replace("@RATE@", SETS[language] if sets is None else sets)
    text = text.replace("@BY@", str(BY.index(by))).replace("@WORD@", by)
    trust.trust(folder)
    if language == "python":
        (folder / "held.py").write_text(text)
        return folder / "held.py"
    compiler = "cc" if language == "c" else "rustc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    source, library = folder / ("held.c" if language == "c" else "held.rs"), folder / "libheld.so"
    source.write_text(text)
    if language == "c":
        (folder / "dumbbell.h").write_text(_native.plugin_header())
        flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC"]
    else:
        made = project.make_contents("control", "held", "rust")[0]
        for name in ("dumbbell.rs", "abi.rs"):
            (folder / name).write_text(made[f"src/{name}"])
        flags = ["--edition", "2021", "--crate-type", "cdylib", "-C", "panic=abort"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    return library


def run(cc: Any, **more: Any) -> dumbbell.Results:
    bottleneck = {"rate": "20Mbit", "aqm": "codel"}
    return dumbbell.run(
        {"duration": "10s", "bottleneck": bottleneck, "flows": [{"cc": cc, "base_rtt": "40ms"}], **more}
    )


def measured(found: dumbbell.Results) -> list[dict[str, Any]]:
    """Return what table flows has, but for names."""
    flows = found.flows.drop("key", "cc", "hash", "experiment", strict=False)
    rows: list[dict[str, Any]] = flows.fill_nan(None).to_dicts()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_rate_that_a_plugin_sets_is_paced_as_that_of_a_registered_control(language: str, tmp_path: Path) -> None:
    wanted = measured(run({"name": "constant", "rate": "8Mbit"}))
    # 8 Mbit/s of payload, and no queue: 40 ms, and the packets of a burst
    assert abs(wanted[0]["goodput_mbit"] - 7.94) < 0.05 and 40 < wanted[0]["rtt_mean_ms"] < 42
    for by in ("rate", "both"):
        path = control(tmp_path / by, language, by)
        assert measured(run({"plugin": str(path)})) == wanted, by
        # another rate is another result: it is the plugin's that counts
        half = measured(run({"plugin": str(path), "rate": "4Mbit"}))
        assert half == measured(run({"name": "constant", "rate": "4Mbit"}))
        # and pacing by the host changes nothing
        assert measured(run({"plugin": str(path)}, hosts={"pacing": "fq"})) == wanted


def test_who_sets_no_rate_is_not_paced(tmp_path: Path) -> None:
    path = control(tmp_path, "python", "both", "pass")
    assert measured(run({"plugin": str(path)}))[0]["goodput_mbit"] > 15


FAULTS = [
    ("window", None, "pacing_rate 1000000 by the window; allowed: a pacing rate with by rate or both"),
    ("rate", "{rate} = 0", "pacing_rate 0; allowed: 1 byte per second or more"),
    ("both", "{cwnd} = {five} - 10", "cwnd {minus}; allowed: 1 to 2147483647 segments"),
    ("both", "{cwnd} = 0", "cwnd 0; allowed: 1 to 2147483647 segments"),
    ("both", "{ssthresh} = 0", "ssthresh 0; allowed: 1 to 2147483647 segments"),
]


@pytest.mark.parametrize("language", ["c", "python"])
@pytest.mark.parametrize(("by", "line", "said"), FAULTS)
def test_what_a_control_must_not_set_ends_the_run_and_the_test_in_a_line(
    language: str, by: str, line: str | None, said: str, tmp_path: Path, command: Command
) -> None:
    dot = "->" if language == "c" else "."
    words = {name: f"steer{dot}{name}" for name in ("cwnd", "ssthresh")} | {"rate": f"steer{dot}pacing_rate"}
    words |= {"five": "5u" if language == "c" else "5"}
    sets = None if line is None else line.format(**words) + (";" if language == "c" else "")
    path = control(tmp_path, language, by, sets)
    said = said.replace("{minus}", "4294967291" if language == "c" else "-5")
    with pytest.raises(RuntimeError) as caught:
        run({"plugin": str(path)})
    assert f"control held: {'ValueError: ' * (language == 'python')}{said}" in str(caught.value)
    done = command("plugin", "test", path, "--runs", "2")
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_windows_that_functions_return_are_looked_at_too(tmp_path: Path) -> None:
    path = control(tmp_path, "python", "window", "pass")
    path.write_text(
        path.read_text().replace("return steer.ssthresh", "return steer.cwnd - 2**31").replace("1 << 30", "900")
    )
    with pytest.raises(RuntimeError, match=r"ssthresh\(\) returned -\d+; allowed: 1 to 2147483647 segments"):
        run({"plugin": str(path)})


def test_what_a_class_raises_is_told_with_its_line(tmp_path: Path) -> None:
    path = control(tmp_path, "python", "both", "raise OSError('no disk')")
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "no disk" in text)
    with pytest.raises(RuntimeError, match=rf"control held: OSError: no disk \(line {line}\)"):
        run({"plugin": str(path)})
    # raised in a file of Python's own: the line is that of the class's program
    path = control(tmp_path, "python", "both", "__import__('json').loads('{')")
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "json" in text)
    with pytest.raises(RuntimeError, match=rf"control held: JSONDecodeError: .* \(line {line}\)"):
        run({"plugin": str(path)})


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_is_traced_and_what_it_does_not_tell_is_not_known(language: str, tmp_path: Path) -> None:
    path = control(tmp_path, language, "both")
    trace = run({"plugin": str(path)}, record={"trace": "10ms"}).trace
    states = [state for state in dict.fromkeys(trace["state"]) if state]
    assert states == ["startup", "probe_cruise"]
    told = trace.filter(trace["state"] != "")
    assert (told["round"] == told["delivered"] // 10).all() and set(told["max_bw_mbit"]) == {8.0}
    assert set(told["pacing_gain"]) == {1.25} and set(told["full_bw_reached"]) == {1}
    for name in ("bw_mbit", "inflight_bdp", "cwnd_gain", "min_rtt_ms", "inflight_longterm", "ecn_alpha"):
        assert told[name].is_nan().all(), name


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_judges_take_plugins_and_judge_by_what_they_tell(language: str, tmp_path: Path, command: Command) -> None:
    path = control(tmp_path, language, "both")
    line = ("evaluate", "cc", f'{{ plugin = "{path}", rate = "9Mbit" }}', "--suite", "bbr", "--only", "1")
    done = command(*line, "--rate", "10Mbit", "--rtt", "20ms", "--format", "json")
    assert done.returncode in (1, 3) and not done.stderr.startswith("a fault"), done.stderr
    (criterion,) = json.loads(done.stdout)["criteria"]
    (one,) = criterion["cells"]
    # it says that it is in STARTUP and leaves it, and nothing of its bounds
    checks = {check["what"]: check["held"] for check in one["checks"]}
    assert checks["startup"] and checks["startup ends"], checks
    # in several processes, too
    paths = ("--rate", "10Mbit", "--rate", "20Mbit", "--rtt", "20ms")
    many = command(*line, *paths, "--jobs", "2", "--format", "json")
    (criterion,) = json.loads(many.stdout)["criteria"]
    assert [cell["where"] for cell in criterion["cells"]] == ["10Mbit 20ms", "20Mbit 20ms"]
    assert criterion["cells"][0]["checks"] == one["checks"]


def test_judges_say_of_a_plugin_without_states_that_it_has_none(tmp_path: Path, command: Command) -> None:
    path = control(tmp_path, "python", "both")
    path.write_text(path.read_text().replace("def model(", "def other("))
    done = command("evaluate", "cc", path, "--suite", "bbr", "--rate", "10Mbit", "--rtt", "20ms", "--only", "1")
    assert done.returncode == 3 and "the control reports no states" in done.stdout


def test_judges_say_how_a_plugin_fails(tmp_path: Path, command: Command) -> None:
    path = control(tmp_path, "python", "both", "raise OSError('no disk')")
    done = command("evaluate", "cc", path, "--suite", "bbr", "--rate", "10Mbit", "--rtt", "20ms", "--only", "1")
    assert done.returncode == 1 and "OSError: no disk" in done.stdout and "1 crashed" in done.stdout
    done = command("evaluate", "cc", '{ plugin = "./nothing.so" }', "--suite", "bbr")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "CONTROL: plugin: " in done.stderr


def test_names_of_states_and_keys_of_a_model_are_checked(tmp_path: Path) -> None:
    path = control(tmp_path, "python", "both")
    text = path.read_text()
    for before, after, said in [
        ('"round":', '"rounds":', 'model() has the key "rounds"; allowed: state, round, '),
        ('"startup"', '"start up"', 'model() tells the state "start up"; allowed: '),
        ('"max_bw": self.rate', '"max_bw": -1', "model() tells max_bw -1; allowed: a whole number, 0 or more"),
        ('"state": state', '"state": None', "model() tells no state; allowed: a dict with state, or None"),
    ]:
        assert before in text
        path.write_text(text.replace(before, after))
        with pytest.raises(RuntimeError) as caught:
            run({"plugin": str(path)}, record={"trace": "10ms"})
        assert said in str(caught.value)
