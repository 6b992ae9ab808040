"""The simulator as a WebAssembly module (`make wasm`): the same digests as here, bit for bit, and the same errors.

What runs the module is wasmtime, a package. Node, if it is there, runs the loader for JavaScript and the code of the
crate's README.
"""

import functools
import itertools
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from dumbbell import _native

ROOT = Path(__file__).parent.parent
CRATE = ROOT / "crates" / "dumbbell-wasm"
BUILT = ROOT / "target" / "wasm"
SECOND = 1_000_000_000
MS = 1_000_000

pytestmark = pytest.mark.skipif(not (BUILT / "dumbbell.wasm").exists(), reason="no module is built (make wasm)")


@functools.cache
def compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Compile the module, once for all tests."""
    engine = wasmtime.Engine()
    return engine, wasmtime.Module.from_file(engine, str(BUILT / "dumbbell.wasm"))


class Module:
    """The calls of `src/lib.rs`."""

    def __init__(self, module: wasmtime.Module | None = None) -> None:
        engine, built = compiled()
        module = module or built
        self.store = wasmtime.Store(engine)
        assert not module.imports
        self.exports: Any = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.memory: Any = self.exports["memory"]

    def call(self, name: str, *arguments: float) -> Any:
        return self.exports[name](self.store, *arguments)

    def text(self) -> str:
        start = self.call("output")
        text: bytearray = self.memory.read(self.store, start, start + self.call("output_len"))
        return text.decode()

    def ask(self, name: str, text: str) -> tuple[int, Any]:
        """Return a call's number and its answer."""
        given = text.encode()
        self.memory.write(self.store, given, self.call("input", len(given)))
        code = self.call(name)
        answer = self.text()
        return code, json.loads(answer) if answer else None


@pytest.fixture(scope="module")
def module() -> Module:
    return Module()


def flow(cc: str, base_rtt: int = 20, **more: Any) -> dict[str, Any]:
    return {"cc": {"name": cc}, "base_rtt": base_rtt * MS, **more}


def run_of(*flows: dict[str, Any], aqm: str = "codel", **more: Any) -> dict[str, Any]:
    bottleneck = {"rate": 10_000_000, "aqm": {"name": aqm}} | more.pop("bottleneck", {})
    return {"duration": 2 * SECOND, "seed": 7, "bottleneck": bottleneck, "flows": list(flows)} | more


def names(kind: str) -> list[str]:
    """Return the names of all registered algorithms of a kind."""
    return [one["name"] for one in json.loads(_native.registry())[kind]]


def everything_registered() -> dict[str, dict[str, Any]]:
    """Each queue discipline and each congestion control at least once, two flows a run."""
    aqms, controls = names("aqm"), names("cc")
    rounds = max(len(aqms), len(controls))
    pairs = itertools.islice(zip(itertools.cycle(aqms), itertools.cycle(controls), strict=True), rounds)
    return {f"{aqm}, {cc}": run_of(flow(cc, ecn=True), flow("cubic", 35), aqm=aqm) for aqm, cc in pairs}


PARETO = {"pareto": 0.9, "min": 1500, "max": 1_000_000}
MARKED = [{"name": "value_marker"}]
RUNS = everything_registered() | {
    "web": run_of(web=[{"arrivals": {"per_second": 40}, "size": PARETO, "base_rtt": 20 * MS, "cc": {"name": "cubic"}}]),
    "Poisson": run_of(udp=[{"rate": 9_000_000, "spacing": "poisson"}], aqm="pie"),
    "value marker": run_of(flow("cubic", path=MARKED), flow("dctcp", ecn=True, path=MARKED), aqm="csaqm"),
    "stages": run_of(flow("bbr3", path=[{"name": "jitter"}, {"name": "loss"}, {"name": "batch"}])),
    "two hops": run_of(
        flow("cubic"),
        flow("prague", ecn=True),
        hop=[{"name": "second", "rate": 8_000_000, "aqm": {"name": "fq_codel"}}],
    ),
    "both ways": run_of(
        flow("cubic"), flow("bbr3", direction="up"), reverse={"rate": 1_000_000, "aqm": {"name": "cake"}}
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_digest_is_that_of_a_run_without_webassembly(module: Module, name: str) -> None:
    config = json.dumps(RUNS[name])
    native = _native.run(config, _native.Cancel())
    code, found = module.ask("run", config)
    assert code == 0, found
    summary = json.loads(native.summary)
    assert summary["packets"] > 500
    # the module has one engine for all queues, which handles more events where others deliver packets as they are sent
    assert found["summary"].pop("events") >= summary.pop("events")
    assert found["summary"] == summary
    assert found["digest"] == native.hash


def test_a_run_step_by_step_has_the_same_digest(module: Module) -> None:
    config = json.dumps(run_of(flow("bbr3"), flow("cubic"), aqm="dualpi2"))
    number, _ = module.ask("begin", config)
    seen = []
    while module.call("step", number, 70.0) == 0:
        module.call("view", number)
        seen.append(json.loads(module.text()))
    # 2 s in steps of 70 ms: 28 end before
    assert len(seen) == 28
    assert [view["time_ms"] for view in seen] == sorted({view["time_ms"] for view in seen})
    assert seen[-1]["packets"] > 1000 and len(seen[-1]["endpoints"]) == 2
    assert module.call("finish", number) == 0
    assert json.loads(module.text())["digest"] == _native.run(config, _native.Cancel()).hash
    assert module.call("forget", number) == -1
    assert json.loads(module.text()) == {"message": f"no run {number}: it is over, or never began"}


@pytest.mark.parametrize(
    "config",
    [
        json.dumps(run_of(flow("vegas"))),
        json.dumps(run_of(flow("reno"), bottleneck={"rate": 0})),
        '{"duration": -1}',
        "{",
        "[]",
        '"\u00e4"',
        "",
    ],
)
def test_a_configuration_is_refused_with_the_same_words(module: Module, config: str) -> None:
    with pytest.raises(ValueError) as native:
        _native.check(config)
    expected = {key: getattr(native.value, key) for key in ("key", "found", "allowed")}
    for call in ("check", "run", "begin"):
        code, found = module.ask(call, config)
        assert code == -1 and found == expected | {"message": str(native.value)}


def test_a_module_that_met_a_bug_says_where() -> None:
    module = Module()
    with pytest.raises(wasmtime.Trap):
        module.call("input", -1)
    module.call("message")
    assert "capacity overflow" in module.text()


def test_the_registry_and_the_version_are_those_of_the_engine(module: Module) -> None:
    module.call("registry")
    assert json.loads(module.text()) == json.loads(_native.registry())
    module.call("version")
    assert _native.engine_version().startswith(module.text() + ".")


LOADED = """
import { readFileSync } from "node:fs";
import { load, ConfigError } from "./dumbbell.js";
const dumbbell = await load(new WebAssembly.Module(readFileSync("dumbbell.wasm")));
const config = JSON.parse(readFileSync(0, "utf8"));
const run = dumbbell.start(config);
const over = [run.step(500), run.step(500), run.step(5000)];
const { events, endpoints } = run.view();
const forgotten = dumbbell.start(config);
forgotten.forget();
const refusals = [
  () => dumbbell.check({ ...config, flows: [{ cc: { name: "vegas" } }] }),
  () => dumbbell.run("{"),
  () => forgotten.view(),
  () => run.step(-1),
];
const errors = refusals.map((refused) => {
  try { return refused(); } catch (error) { return [error instanceof ConfigError, error.key ?? null, error.message]; }
});
dumbbell.check(JSON.stringify(config));
const digests = [dumbbell.run(config).digest, run.finish().digest];
const { version, registry } = dumbbell;
console.log(JSON.stringify({ over, events, endpoints, errors, digests, version, registry }));
"""


def node(program: str, folder: Path, given: str = "") -> str:
    """Run a program next to the loader and the module; returns what it prints."""
    for file in (BUILT / "dumbbell.wasm", BUILT / "dumbbell.js", BUILT / "package.json"):
        shutil.copy(file, folder)
    (folder / "program.js").write_text(program, encoding="utf-8")
    done = subprocess.run(
        ["node", "program.js"], cwd=folder, input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def arrange(module: bytes, folder: Path) -> bytes:
    """Return the module with its functions in another order."""
    path = folder / "arranged.wasm"
    path.write_bytes(module)
    subprocess.run(["node", str(CRATE / "arrange.mjs"), str(path)], check=True, timeout=240)
    return path.read_bytes()


PAIR = """
(func $call_NUMBER (param i32) (result i32)
  (i32.add (call $square (i32.add (local.get 0) (i32.const NUMBER))) (i32.const NUMBER000)))
(func $float_NUMBER (param f64) (result f64)
  (f64.add (f64.sqrt (local.get 0)) (f64.mul (local.get 0) (f64.const NUMBER.25))))
"""
# functions that refer to others by a call, an export, a table and a start, among a hundred of two kinds
WORDS = """
(module
  (table 2 funcref)
  (elem (i32.const 0) $square $call_0)
  (memory (export "memory") 1)
  (start $begin)
  (func $begin (i32.store (i32.const 0) (call $square (i32.const 3))))
  (func $square (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
  PAIRS
  (func (export "call_49") (param i32) (result i32) (call $call_49 (local.get 0)))
  (func (export "float_7") (param f64) (result f64) (call $float_7 (local.get 0)))
  (func (export "choose") (param i32 i32) (result i32)
    (block (br_table 0 0 (local.get 0)))
    (call_indirect (param i32) (result i32) (local.get 1) (local.get 0))))
""".replace("PAIRS", "".join(PAIR.replace("NUMBER", str(number)) for number in range(50)))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_module_with_arranged_functions_does_what_it_did(tmp_path: Path) -> None:
    given = bytes(wasmtime.wat2wasm(WORDS))
    arranged = arrange(given, tmp_path)
    assert len(zlib.compress(arranged, 9)) < len(zlib.compress(given, 9))
    engine = wasmtime.Engine()
    for bits in (given, arranged):
        store = wasmtime.Store(engine)
        exports: Any = wasmtime.Instance(store, wasmtime.Module(engine, bits), []).exports(store)
        memory: Any = exports["memory"]
        assert memory.read(store, 0, 1) == b"\x09"
        assert exports["call_49"](store, 2) == 51**2 + 49_000
        assert exports["float_7"](store, 4.0) == 31.0
        assert [exports["choose"](store, place, 5) for place in (0, 1)] == [25, 25]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_arranged_module_gives_the_same_digest(tmp_path: Path) -> None:
    arranged = arrange((BUILT / "dumbbell.wasm").read_bytes(), tmp_path)
    engine, _ = compiled()
    module = Module(wasmtime.Module(engine, arranged))
    config = RUNS["two hops"]
    code, answer = module.ask("run", json.dumps(config))
    assert (code, answer["digest"]) == (0, _native.run(json.dumps(config), _native.Cancel()).hash)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_loader_for_javascript(tmp_path: Path) -> None:
    config = json.dumps(run_of(flow("cubic"), flow("reno")))
    found = json.loads(node(LOADED, tmp_path, config))
    digest = _native.run(config, _native.Cancel()).hash
    assert found["digests"] == [digest, digest]
    assert found["over"] == [False, False, True] and found["events"] > 1000 and len(found["endpoints"]) == 2
    kinds, keys, messages = zip(*found["errors"], strict=True)
    assert kinds == (True, True, False, False) and keys == ("flows[0].cc.name", "config", None, None)
    assert "vegas" in messages[0] and "never began" in messages[2] and "-1 ms" in messages[3]
    assert _native.engine_version().startswith(found["version"])
    assert found["registry"]["aqm"][0] == json.loads(_native.registry())["aqm"][0]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```js\n(.*?)```", (CRATE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    printed = node(
        "".join(sorted("".join(blocks).splitlines(keepends=True), key=lambda line: not line.startswith("import"))),
        tmp_path,
    )
    lines = printed.splitlines()
    assert len(blocks) == 4 and re.match(r"[0-9a-f]{32} ", lines[0])
    assert re.fullmatch(r"\d+ true", lines[-3])
    assert [lines[-4], *lines[-2:]] == ["true", "true", 'true flows[0].cc.name "vegas"']
