"""Plugins: what they need to be loaded, what they may do, and how what they must not do is told."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import dumbbell
from conftest import Command, parsed
from dumbbell import InputError, _native, experiment
from dumbbell.engines.live import engine as live
from dumbbell.experiment import json_schema
from dumbbell.experiment.plugins import known, process, project, trust

BUILD = {
    "c": "cc -std=c11 -O1 -shared -fPIC",
    "rust": "rustc --edition 2021 --crate-type cdylib -C panic=abort -C opt-level=0",
}
NAMES = {"queue": "step-mark", "control": "two-aimd", "media": "by-delay", "stack": "one-window"}


pytestmark = pytest.mark.usefixtures("own_folders")


def built(folder: Path, kind: str, language: str, change: tuple[str, str] = ("", "")) -> Path:
    """Make a new plugin, with one text in its source changed, and build it."""
    file, _ = project.make(kind, NAMES[kind], language, folder)
    source = folder / {"c": f"{Path(file).stem.removeprefix('lib')}.c", "rust": "src/lib.rs", "python": file}[language]
    text = source.read_text()
    assert change[0] in text
    source.write_text(text.replace(*change))
    if language != "python":
        if shutil.which(BUILD[language].split()[0]) is None:
            pytest.skip("no C compiler" if language == "c" else "Rust is not installed")
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*BUILD[language].split(), str(source), "-o", str(folder / file)], check=True)
    return folder / file


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Every kind of plugin in every language."""
    return {
        (kind, language): built(tmp_path_factory.mktemp(f"{kind}-{language}"), kind, language)
        for kind in project.KINDS
        for language in project.LANGUAGES
    } | {
        (project.STACK, language): built(tmp_path_factory.mktemp(f"stack-{language}"), project.STACK, language)
        for language in project.OF_STACKS
    }


def table(kind: str, plugin: Path | str, **more: Any) -> dict[str, Any]:
    if kind == "media":
        video = {"name": "video", "source": "statistical", "control": {"plugin": str(plugin)} | more}
        link = {"rate": "1Mbit", "aqm": "codel"}
        return {"duration": "5s", "bottleneck": link, "app": [{"kind": video, "base_rtt": "20ms"}]}
    aqm, cc = (
        ({"plugin": str(plugin)} | more, "cubic") if kind == "queue" else ("codel", {"plugin": str(plugin)} | more)
    )
    flows = [{"cc": cc, "base_rtt": "20ms", "count": 2}]
    web = [{"cc": cc, "base_rtt": "20ms", "arrivals": "4/s", "size": "20kB"}]
    return {"duration": "2s", "bottleneck": {"rate": "20Mbit", "aqm": aqm}, "flows": flows, "web": web}


@pytest.mark.parametrize("kind", project.KINDS)
def test_all_languages_make_the_same_run(kind: str, libraries: dict[tuple[str, str], Path]) -> None:
    figures = []
    for language in project.LANGUAGES:
        path = libraries[kind, language]
        trust.trust(path.parent)
        found = dumbbell.run(table(kind, path))
        if kind == "media":
            assert json.loads(found.runs["config"][0])["app"][0]["kind"]["control"]["name"] == "by-delay"
            rows, names = found.frame("apps"), ("goodput_mbit", "frame_delay_mean_ms", "frames_late")
        else:
            rows, names = found.flows, ("goodput_mbit", "rtt_mean_ms", "retransmissions")
            assert kind == "queue" or set(rows["cc"]) == {"two-aimd"}
        figures.append([rows[name].to_list() for name in names])
    assert figures[0] == figures[1] == figures[2]
    assert sum(figures[0][0]) > (0.2 if kind == "media" else 15)


@pytest.mark.parametrize("language", ["c", "rust", "python"])
def test_templates_are_short_and_stand_their_test(
    language: str, libraries: dict[tuple[str, str], Path], command: Command
) -> None:
    for kind in project.KINDS:
        made, _, _ = project.make_contents(kind, NAMES[kind], language)
        own = [text for path, text in made.items() if path.endswith((".c", "lib.rs", ".py"))]
        assert len(own) == 1 and len(own[0].splitlines()) < 80
        done = command("plugin", "test", libraries[kind, language], "--sequences", "20", "--runs", "4")
        assert done.returncode == 0, done.stderr
        told = "20 sequences of operations and 4 runs" if kind == "queue" else "4 runs"
        assert done.stdout == f"{NAMES[kind]}: {told} tried, nothing wrong\n"


@pytest.mark.slow
def test_a_new_stack_is_the_same_in_c_and_rust_and_is_checked_as_others(
    libraries: dict[tuple[str, str], Path], command: Command
) -> None:
    found = []
    for language in project.OF_STACKS:
        path = libraries[project.STACK, language]
        trust.trust(path.parent)
        groups = [{"stack": str(path), "base_rtt": "20ms"}, {"cc": "cubic", "base_rtt": "20ms"}]
        flows = dumbbell.run(
            {"duration": "5s", "bottleneck": {"rate": "20Mbit", "aqm": "pfifo"}, "flows": groups}
        ).flows
        assert flows["cc"].to_list() == ["one-window-aimd", "cubic"] and min(flows["goodput_mbit"]) > 1
        # what it tells is there, and what it does not tell is missing
        assert flows["loss_reductions"][0] >= 0 and flows["probes"].to_list()[0] is None
        found.append(flows.drop("key").fill_nan(None).to_dicts())
        done = command("plugin", "test", path, "--runs", "4")
        assert done.returncode == 0 and done.stdout == "one-window: 4 runs tried, nothing wrong\n", done.stderr
        checked = command("evaluate", "stack", path, "--only", "loss", "--quick")
        assert checked.returncode in (0, 1) and "one-window" in checked.stdout, checked.stderr
    assert found[0] == found[1]
    done = command("plugin", "new", "stack", "mine", "--language", "python")
    assert done.returncode == 2 and "unknown language" in done.stderr and "choose from c, rust" in done.stderr


def test_what_has_no_effect_is_found_by_the_test(tmp_path: Path, command: Command) -> None:
    changes = [("c", ".cong_avoid = cong_avoid", ".cong_avoid = cong_avoid, .rate_samples = 1")]
    changes.append(("python", 'by = "window"', 'by = "window"\n    rate_samples = True'))
    for number, (language, before, after) in enumerate(changes):
        path = built(tmp_path / str(number), "control", language, (before, after))
        done = command("plugin", "test", path, "--runs", "1")
        assert done.returncode == 2 and "it has rate_samples, which has no effect" in done.stderr, done.stderr


@pytest.mark.timed
def test_a_hang_is_found_in_seconds_and_the_run_is_named(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # only from the third simulated second on, so that only long runs hang
    change = ("if not conn.cwnd_limited:", "while conn.now > 2 * 10**9: pass\n        if not conn.cwnd_limited:")
    path = built(tmp_path, "control", "python", change)
    monkeypatch.setenv("DUMBBELL_PLUGIN_HANG_S", "1")
    began = time.monotonic()
    done = command("plugin", "test", path)
    assert time.monotonic() - began < 60
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    told = r"run \d+ of seed 1: the plugin hangs: nothing happened for 1 s; its configuration: \{.*\}"
    assert re.search(told, done.stderr), done.stderr
    # and the option comes before the variable
    assert "nothing happened for 0.5 s" in command("plugin", "test", path, "--within", "0.5").stderr


@pytest.mark.slow
def test_a_trial_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # so slow that it is told of before the end
    path = built(tmp_path, "queue", "python", ("is_full, is_long =", "time.sleep(2e-4)\n        is_full, is_long ="))
    path.write_text(f"import time\n{path.read_text()}")
    heard: list[int] = []
    monkeypatch.setattr(process, "TRY_HANG_S", 20.0)
    found = process.try_out(path, 1, 10, 1, gets_on_s=20.0, doing=heard.append)
    assert found == (10, 1) and len(heard) > 2 and heard == sorted(heard) and 0 < heard[-1] <= 11


def test_code_is_loaded_only_if_its_folder_is_trusted(tmp_path: Path, command: Command) -> None:
    built(tmp_path / "mine", "queue", "python")
    file = tmp_path / "mine" / "one.toml"
    file.write_text((tmp_path / "mine" / "try.toml").read_text().replace("30s", "1s"))
    evil = tmp_path / "mine" / "step_mark.py"
    mark = tmp_path / "loaded"
    evil.write_text(f"open({str(mark)!r}, 'w').close()\n" + evil.read_text())
    done = command("run", file, "-o", "r.duckdb")
    assert (
        done.returncode == 2 and "needs you to trust step_mark.py, which is code: dumbbell run --trust" in done.stderr
    )
    assert not mark.exists() and not (tmp_path / "r.duckdb").exists()
    done = command("run", file, "-o", "r.duckdb", "--trust")
    assert done.returncode == 0, done.stderr
    assert mark.exists()
    trust._here.clear()
    assert command("run", file, "-o", "r.duckdb").returncode == 2
    # --trust is about the folder of the experiment; what was given is not proposed again
    other = tmp_path / "other" / "one.toml"
    other.parent.mkdir()
    other.write_text(file.read_text().replace("./step_mark.py", "../mine/step_mark.py"))
    done = command("run", other, "-o", "o.duckdb", "--trust")
    assert done.returncode == 2 and "dumbbell run --trust" not in done.stderr
    advice = f"dumbbell plugin trust {evil.parent}, once for all: --trust and dumbbell.trust are about {other.parent}"
    assert advice in done.stderr, done.stderr
    trust._here.clear()
    assert command("plugin", "trust").stdout == "no folder is trusted\n"
    assert command("plugin", "trust", tmp_path / "mine").returncode == 0
    assert command("plugin", "trust").stdout == f"{tmp_path / 'mine'}\n"
    done = command("run", file, "-o", "r.duckdb")
    assert done.returncode == 0 and "0 runs done, 6 kept" in done.stderr
    # who reads results has no need to load anything
    mark.unlink()
    known._known.clear()
    shown = command("table", "r.duckdb").stdout
    assert "step-mark@" in shown and "(threshold=60kB)" in shown and "limit" not in shown
    assert not mark.exists()


def test_the_content_of_a_plugin_is_part_of_the_key(tmp_path: Path) -> None:
    trust.trust(tmp_path)
    path = built(tmp_path / "a", "queue", "python")
    first = next(experiment.parse(table("queue", path)).make_cells())
    copy = tmp_path / "other.py"
    shutil.copy(path, copy)
    assert next(experiment.parse(table("queue", copy)).make_cells()).key == first.key
    copy.write_text(path.read_text() + "# another comment\n")
    assert next(experiment.parse(table("queue", copy)).make_cells()).key != first.key
    # and what runs is what was read: a change of the file changes nothing under a sweep
    path.write_text("raise SystemExit\n")
    assert _native.Result.from_bytes(
        process.PluginChild("run", site=True).answer(
            {"config": first.config, "plugins": known.list_copies(first.groups)}
        )
    ).hash


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("queue", {"limits": 3}, "unknown key bottleneck.aqm.limits; did you mean limit?"),
        ("queue", {"limit": 0}, "bottleneck.aqm.limit is 0; it must be an integer from 1 to 1000000"),
        ("queue", {"threshold": 9}, "bottleneck.aqm.threshold is 9"),
        ("queue", {"name": "codel"}, "bottleneck.aqm.name: the plugin is called step-mark"),
        ("control", {"decrease": 2.0}, "flows[0].cc.decrease is 2.0; it must be a number from 0.1 to 0.95"),
        ("media", {"target": "5s"}, 'app[0].kind.control.target is "5s"; it must be a time from 1ms to 1s'),
        ("media", {"targets": "5ms"}, "unknown key app[0].kind.control.targets; did you mean target?"),
    ],
)
def test_parameters_are_checked_as_those_of_others(kind: str, more: dict[str, Any], said: str, tmp_path: Path) -> None:
    trust.trust(tmp_path)
    with pytest.raises(InputError) as caught:
        experiment.parse(table(kind, built(tmp_path, kind, "python"), **more))
    assert said in str(caught.value)


def test_what_is_no_plugin_of_this_kind_is_said_with_its_key(tmp_path: Path) -> None:
    trust.trust(tmp_path)
    queue = built(tmp_path / "q", "queue", "python")
    with pytest.raises(
        InputError, match=r"flows\[0\]\.cc\.plugin: .* is a queue discipline; use a plugin that is a congestion"
    ):
        experiment.parse(table("control", queue))
    with pytest.raises(
        InputError,
        match=r"app\[0\]\.kind\.control\.plugin: .* is a queue discipline; use a plugin that is a congestion",
    ):
        experiment.parse(table("media", queue))
    media = built(tmp_path / "m", "media", "python")
    with pytest.raises(InputError, match=r"flows\[0\]\.cc\.plugin: .* is a congestion control of video; use a plugin"):
        experiment.parse(table("control", media))
    with pytest.raises(InputError, match=r"bottleneck\.aqm\.plugin: no such file or directory"):
        experiment.parse(table("queue", tmp_path / "nothing.so"))
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(InputError, match=r"bottleneck\.aqm\.plugin: text\.so: "):
        experiment.parse(table("queue", tmp_path / "text.so"))
    for number, (text, said) in enumerate(
        [
            ("class Queue:\n    x = (\n", r"'\(' was never closed \(text\.py, line 2\)"),
            ("import json\n\nx = y\n", r"NameError: name 'y' is not defined \(line 3\)"),
            # raised in another file, which the line is not of
            ("import json\n\n\njson.loads('{')\n", r"JSONDecodeError: .* \(line 4\)"),
            ("x = 1\n", "it has no class called plugin"),
        ]
    ):
        path = tmp_path / str(number) / "text.py"
        path.parent.mkdir()
        path.write_text(text)
        with pytest.raises(InputError, match=rf"bottleneck\.aqm\.plugin: text\.py: {said}"):
            experiment.parse(table("queue", path))
    with pytest.raises(InputError, match="it is 3"):
        experiment.parse({"bottleneck": {"aqm": {"plugin": 3}}, "flows": [{"cc": "reno"}], "duration": "1s"})


BROKEN = {
    "abi": ("c", "DUMBBELL_ABI, sizeof", "99, sizeof", "it has version 99 of the interface; this dumbbell has 5"),
    "null": ("c", "return &plugin", "return plugin.param ? NULL : &plugin", "dumbbell_describe() returned NULL"),
    "symbol": ("c", "*dumbbell_describe(void) {", "*other(void) {", "it exports no dumbbell_describe()"),
    "loop": (
        "c",
        "uint64_t now) {\n  (void)this, (void)now;",
        "uint64_t now) {\n  (void)this; while (now) ;",
        "the plugin hangs",
    ),
    "panic": ("rust", "let is_full =", 'if _now > 0 { panic!("not today") }\n let is_full =', "not today"),
    "crash": (
        "c",
        "return first ? first->id : 0",
        "return first ? *(volatile uint64_t *)0 : 0",
        "the plugin crashed (SIGSEGV)",
    ),
    "forged": ("c", "first ? first->id : 0", "first ? first->id + 1 : 0", "queue step-mark: dequeue() returned packet"),
    "raises": (
        "python",
        "is_full, is_long =",
        "raise OSError('no disk')\n        is_full, is_long =",
        "OSError: no disk",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_plugin_gives_one_line_and_costs_only_its_runs(
    broken: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUMBBELL_PLUGIN_HANG_S", "1")
    language, before, after, said = BROKEN[broken]
    path = built(tmp_path, "queue", language, (before, after))
    text = (tmp_path / "try.toml").read_text().replace('"30s"', '"1s"').replace("[1, 2]", "[1]")
    file = tmp_path / "one.toml"
    file.write_text(text.replace(f', {{ plugin = "./{path.relative_to(tmp_path)}", threshold = "60kB" }}', ""))
    done = command("run", "--trust", file, "-o", "r.duckdb")
    (line, *rest) = [one for one in done.stderr.splitlines() if "make the same run" not in one]
    assert said in line, done.stderr
    if broken in ("abi", "null", "symbol"):  # found before anything runs
        assert done.returncode == 2 and not rest and 'matrix."bottleneck.aqm"[1]: bottleneck.aqm.plugin: ' in line
    else:
        assert done.returncode == 1 and "1 run done, 0 kept from before, 1 failed" in rest[0]
        tested = command("plugin", "test", path, "--within", "2", "--runs", "3")
        assert tested.returncode == 2 and len(tested.stderr.splitlines()) == 1 and not tested.stdout, tested
        assert said.partition("(")[0] in tested.stderr


@pytest.mark.slow
def test_a_plugin_that_hangs_when_it_is_loaded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.ask_child, "__kwdefaults__", {"within_s": 0.5})
    trust.trust(tmp_path)
    path = built(tmp_path, "queue", "python", ("plugin = Queue", "while True:\n    pass"))
    with pytest.raises(InputError, match="the plugin hangs"):
        experiment.parse(table("queue", path))


def test_a_plugin_that_is_not_there_is_said_of_the_command(command: Command) -> None:
    for what in (["plugin", "test"], ["describe"]):
        done = command(*what, "nothing.so")
        assert done.returncode == 2 and done.stderr.startswith(f"{' '.join(what)}: "), done.stderr


def test_describe_says_what_a_plugin_takes(tmp_path: Path, command: Command) -> None:
    path = built(tmp_path, "control", "python")
    said = command("describe", path).stdout
    assert said.startswith("two-aimd: AIMD\nits author\n\nincrease = 1.0 segments (float, from 0.01 to 100.0)")


def test_a_control_of_video_runs_by_its_file_and_what_it_must_not_do_is_one_line(
    tmp_path: Path, command: Command
) -> None:
    path = built(tmp_path, "media", "python")
    file = tmp_path / "try.toml"
    file.write_text(file.read_text().replace('"60s"', '"4s"').replace('"20s"', '"1s"').replace("[1, 2]", "[1]"))
    done = command("run", "--trust", file, "-o", "r.duckdb")
    assert done.returncode == 0 and "3 runs done" in done.stderr, done.stderr
    shown = command("table", "r.duckdb", "--value", "encoder_mbit").stdout
    assert "nada" in shown and "by-delay@" in shown and "target=100ms" in shown, shown
    assert command("describe", path).stdout.startswith("by-delay: By delay\nits author\n\ntarget = 30ms")
    trust.trust(tmp_path)
    (cell,) = parsed(**table("media", path)).make_cells()
    assert list(known.find_plugins(cell.groups)) == ["app[0].kind.control"]
    changes = {
        "return int(1.5 * self.rate)": ("return 1.5", "pacing_rate() returned 1.5; allowed: a whole number of bit/s"),
        "return int(self.rate)": ("return 0", "encoder_rate() returned 0; allowed: 1000 to 1000000000000 bit/s"),
        "    def encoder_rate": (
            "    def timer_at(self):\n        return 5\n\n    def timer(self, now):\n        pass\n\n"
            "    def encoder_rate",
            "timer_at() is ",
        ),
    }
    for number, (before, (after, said)) in enumerate(changes.items()):
        wrong = built(tmp_path / str(number), "media", "python", (before, after))
        done = command("plugin", "test", wrong, "--runs", "2")
        assert done.returncode == 2 and f"media by-delay: {said}" in done.stderr.replace("ValueError: ", ""), (
            done.stderr
        )
    interval = built(tmp_path / "interval", "media", "python", ("50_000_000", "0.05"))
    assert "interval 0.05; allowed: a whole number of ns" in command("plugin", "test", interval).stderr


def test_other_engines_refuse_plugins_by_key(tmp_path: Path) -> None:
    trust.trust(tmp_path)
    cell = next(experiment.parse(table("queue", built(tmp_path, "queue", "python"))).make_cells())
    with pytest.raises(
        InputError, match=r"bottleneck\.aqm\.plugin: --engine live does not support plugins; use --engine sim"
    ):
        live.check(cell, "a.toml")


def test_the_schema_of_files_knows_plugins() -> None:
    validator = jsonschema.Draft202012Validator(json_schema.make_schema())
    assert validator.is_valid(table("queue", "./mine.so", limit=3))
    assert validator.is_valid(table("control", "./mine.so"))
    assert validator.is_valid(table("media", "./mine.so", target="20ms"))
    assert not validator.is_valid(table("media", ""))
    assert not validator.is_valid(table("queue", ""))


def test_a_new_plugin_overwrites_nothing_and_has_a_name_of_its_own(command: Command) -> None:
    assert command("plugin", "new", "queue", "mine").returncode == 0
    done = command("plugin", "new", "queue", "mine")
    assert done.returncode == 2 and "this file already exists" in done.stderr
    for name in ("codel", "Mine", "cubic", ""):
        done = command("plugin", "new", "control", name)
        assert done.returncode == 2 and "NAME is" in done.stderr and len(done.stderr.splitlines()) == 1
    assert "unknown kind" in command("plugin", "new", "link", "mine").stderr
    assert "unknown language" in command("plugin", "new", "queue", "other", "--language", "go").stderr


def test_plugins_in_several_hops_and_both_ways(tmp_path: Path) -> None:
    trust.trust(tmp_path)
    path = built(tmp_path, "queue", "python")
    own = {"plugin": str(path), "limit": 40}
    one = table("queue", path) | {"reverse": {"rate": "2Mbit", "aqm": own}}
    (cell,) = parsed(**one).make_cells()
    assert list(known.find_plugins(cell.groups)) == ["bottleneck.aqm", "reverse.aqm"]
    assert set(dumbbell.run(one).hops["hop"]) == {"bottleneck", "reverse"}


@pytest.mark.timed
def test_an_interrupted_sweep_ends_the_processes_of_plugins(tmp_path: Path) -> None:
    built(tmp_path, "queue", "python", ("is_full, is_long =", "while True: pass\n        is_full, is_long ="))
    line = [sys.executable, "-m", "dumbbell", "run", "--trust", "try.toml", "--jobs", "8"]
    sweep = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    def children() -> list[int]:
        tasks = Path(f"/proc/{sweep.pid}/task").glob("*/children")
        started = [int(word) for task in tasks for word in task.read_text().split()]
        return [pid for pid in started if b"plugins/plugin_child.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    deadline = time.monotonic() + 30
    while len(running := children()) < 4:  # those of the endless plugin: the others have none, or end
        assert time.monotonic() < deadline and sweep.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    sweep.send_signal(signal.SIGINT)
    _, said = sweep.communicate(timeout=20)
    assert sweep.returncode == 130 and "2 runs done" in said and len(said.splitlines()) == 1, said
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()]
