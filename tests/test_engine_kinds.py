"""An engine is a module and a row of `KINDS`; everything else asks these two."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dumbbell
from dumbbell import engines, experiment
from dumbbell.cli import doctor, run
from dumbbell.engines.needs import Check
from dumbbell.engines.sim import Simulator
from dumbbell.errors import InputError
from dumbbell.results import versions
from dumbbell.results.versions import EngineKind

TABLE = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
}


class Echo(Simulator):
    """The simulator under another name, with a remark."""

    version = "echo-1"

    @staticmethod
    def prepare(_experiments: object) -> list[str]:
        return ["a remark"]


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("echo_engine")

    def make_engine(_which: str | None) -> Echo:
        return Echo()

    def run_checks() -> Iterator[Check]:
        yield Check("voice", "loud")

    vars(module).update(make_engine=make_engine, run_checks=run_checks)
    monkeypatch.setitem(sys.modules, "echo_engine", module)
    row = EngineKind("echo", "an echo of the simulator", "in an echo", "echo_engine", "echo_engine", "WHERE")
    monkeypatch.setitem(versions.KINDS, "echo", row)


@pytest.mark.slow
@pytest.mark.usefixtures("echo")
def test_an_engine_is_a_module_and_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "out.duckdb")
    experiments = [experiment.parse(TABLE, "mine")]
    run.carry_out(experiments, output, engine=engines.find_engine("echo:cave"))
    assert "not quite the same in an echo: a remark" in capsys.readouterr().err
    run.carry_out(experiments, output)
    results = dumbbell.open(output)
    assert results.engine("echo").engines == ["echo-1"]
    assert versions.find_kind(results.engine("sim").engines[0]) == "sim"
    assert "carried out in an echo" in str(results.engine("echo").run().explain())
    assert "echo-1, an echo of the simulator" in results.engine("echo").report(tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    doctor.doctor("echo")
    assert capsys.readouterr().out.splitlines() == ["echo: works", "  ok        voice  loud"]
    with pytest.raises(InputError, match="echo, echo:WHERE"):
        engines.find_engine("nowhere")
    with pytest.raises(InputError, match="echo"):
        doctor.doctor("nowhere")


def test_an_unknown_engine_is_not_taken_for_the_simulator() -> None:
    assert versions.find_kind("echo-1") == versions.find_title("echo-1") == "echo"
    assert versions.choose_version(["echo-1"], "sim") is None
    assert versions.find_title("0.1.0+1.a753af9c") == "simulator"
    assert [one.name for one in versions.list_runners()] == ["sim", "linux", "live"]
