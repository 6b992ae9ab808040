"""The playground: the same digests as native runs, and the page in a browser, driven control by control."""

import json
import re
import shutil
import subprocess
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import TWO_FLOWS, Command
from dumbbell import _native, experiment
from dumbbell.errors import InputError
from dumbbell.play import make_page
from dumbbell.play.play_page import PAGE, describe_cell
from dumbbell.play.server import make_server
from dumbbell.writing import write_text
from website import browser

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "web" / "play"
CHROMIUM = browser.find_program()
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    not PAGE.is_file() or NODE is None, reason="the playground is not built (make play, which needs npm)"
)
in_chromium = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("playground in a browser"),
]


def compute_digest(toml: str) -> str:
    """Return the digest of the native run of a file with one run."""
    cell = experiment.parse(tomllib.loads(toml)).make_cell(0)
    return _native.run(cell.config, _native.Cancel()).hash


# ------------------------------------------------------------------ without a browser


@pytest.fixture(scope="module")
def programs() -> Path:
    """Return a folder with the unit tests of the page as programs for Node."""
    folder = ROOT / "target" / "play" / "tests"
    subprocess.run(["node", str(SOURCES / "build.mjs"), "--tests", str(folder)], check=True, timeout=60)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(path.stem for path in (SOURCES / "test").glob("*.test.ts")))
def test_units_of_the_page(name: str, programs: Path) -> None:
    done = subprocess.run(
        ["node", "--test", str(programs / f"{name}.mjs")], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout


def list_digests(programs: Path, first: int, count: int) -> list[dict[str, Any]]:
    """Return random experiments, made as the controls make them: file, and digest or refusal of the page."""
    command = ["node", str(programs / "digests.mjs"), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_digests(found: list[dict[str, Any]]) -> int:
    """Compare each experiment with the native run of its file; return how many of them ran.

    The page allows a parameter that has no effect without another one, as the engine does; `dumbbell run` refuses it.
    """
    ran = 0
    for one in found:
        assert one["toml"] == one["again"]
        try:
            digest = compute_digest(one["toml"])
        except InputError as error:
            assert one["refused"] or "has no effect" in str(error), (one["seed"], one["toml"])
        else:
            assert (one["refused"], one["digest"]) == (None, digest), (one["seed"], one["toml"])
            ran += 1
    return ran


@pytest.mark.slow
def test_random_experiments_of_the_page_have_the_digest_of_their_files(programs: Path) -> None:
    assert check_digests(list_digests(programs, 1000, 20)) >= 15


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_random_experiments_of_the_page_have_the_digest_of_their_files(programs: Path) -> None:
    assert check_digests(list_digests(programs, 0, 250)) >= 200


def test_the_lock_file_names_no_host() -> None:
    locked = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert len(locked) > 5 and not [name for name, one in locked.items() if "resolved" in one]
    assert all(one.get("integrity", "").startswith("sha512-") for name, one in locked.items() if name)


def test_the_page_asks_nobody() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "default-src 'none'" in page and "connect-src" not in page
    assert page.count("<script") == 6 and " src=" not in page.partition("<body>")[0]


def test_a_cell_is_described_as_the_file_sets_it(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'title = "A"\nseeds = [7]\n{TWO_FLOWS}buffer = "1bdp"\n', encoding="utf-8")
    text = TWO_FLOWS.replace('aqm = "codel"', 'aqm = "codel"\nbuffer = "1bdp"')
    cell = experiment.parse(tomllib.loads(f"seeds = [7]\n{text}")).make_cell(0)
    found = describe_cell(cell)
    # 20 Mbit/s times 40 ms are 66 frames of 1514 B
    assert found["bottleneck"] == {"rate": 20_000_000, "aqm": {"name": "codel", "limit": 66}}
    assert found["seed"] == 7 and found["duration"] == 5_000_000_000 and "hop" not in found
    config = {key: value for key, value in found.items() if key != "title"}
    cancel = _native.Cancel()
    assert _native.run(json.dumps(config), cancel).hash == _native.run(cell.config, cancel).hash


def test_several_hops_are_refused() -> None:
    table = tomllib.loads(f'{TWO_FLOWS}[[hop]]\nname = "second"\nrate = "5Mbit"\naqm = "pfifo"\n')
    with pytest.raises(InputError, match="the playground does not support several hops"):
        describe_cell(experiment.parse(table).make_cell(0))


def test_the_command_writes_a_page(command: Command) -> None:
    done = command("play", "sce/one-flow", "--cell", "1", "-o", "play.html")
    assert done.stdout == "play.html\n"
    assert "--cell" in command("play", "sce/one-flow", "-o", "many.html").stderr
    assert "cannot be combined" in command("play", "--set", "duration=3s", "-o", "x.html").stderr
    assert "cannot be combined" in command("play", "-o", "x.html", "--port", "80").stderr


def test_the_server_gives_the_page_to_this_machine_alone() -> None:
    with make_server("<p>page", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.server_address[:2]
            assert host == "127.0.0.1"
            with urllib.request.urlopen(f"http://{host}:{port}/?x#y", timeout=10) as answer:
                assert answer.read() == b"<p>page" and answer.headers["Cache-Control"] == "no-store"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://{host}:{port}/other", timeout=10)
            with pytest.raises(InputError, match="a port that is free"):
                make_server("", int(port))
        finally:
            server.shutdown()
            thread.join()


# ------------------------------------------------------------------ in a browser

SIZES = ((1400, 900), (800, 900), (400, 800))
# until an expression has a true value, or 20 s
UNTIL = """
(async () => {
  const end = Date.now() + 60000;
  for (;;) {
    const found = EXPRESSION;
    if (found || Date.now() > end) return found instanceof Element ? true : found;
    await new Promise(done => setTimeout(done, 20));
  }
})()
"""
# the parts of the page by their words; `settle` waits until all frames that were asked for are shown
HELPERS = """
globalThis.find = (selector, words) =>
  [...document.querySelectorAll(selector)].find(one => one.textContent.trim() === words);
globalThis.fill = (field, value) => {
  if (field.type === "checkbox") { if (field.checked !== value) field.click(); return; }
  const prototype = Object.getPrototypeOf(field);
  Object.getOwnPropertyDescriptor(prototype, "value").set.call(field, value);
  for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
};
globalThis.settle = async () => {
  for (let quiet = 0; quiet < 3; ) {
    await new Promise(done => setTimeout(done, 15));
    quiet = playground.all.every(one => !one.isBusy && (one.isShown || one.refusal)) ? quiet + 1 : 0;
  }
};
globalThis.toml = () => document.querySelector("textarea").value;
globalThis.run = async text => {
  fill(document.querySelector("textarea"), text);
  await new Promise(done => setTimeout(done, 30));
  find("button", "run this text").click();
  await settle();
};
"""
SEEN = """
(({ samples, packets, stories }) => JSON.stringify([samples.slice(0, 1000), [...packets], stories]))(
  playground.side.data
)
"""
# fills a queue of 66 packets at 10 Mbit/s
FLOOD = """\
duration = "1s"

[bottleneck]
rate = "10Mbit"
aqm = { name = "pfifo", limit = 66 }

[[udp]]
rate = "20Mbit"
"""
# charts are painted in turns
SETTLED_CHARTS = "new Promise(done => setTimeout(done, 300))"
# pixels of the window of flow 1 that are drawn behind the moment
COUNT_BEHIND = """
(() => {
  const canvas = document.querySelector('[data-chart="cwnd"] canvas');
  const end = (playground.now / playground.duration) * (canvas.width - 62) + 46 + 6;
  const { data } = canvas.getContext("2d").getImageData(end, 0, canvas.width - end, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4)
    count += data[at + 3] > 200 && Math.hypot(data[at], data[at + 1] - 0x72, data[at + 2] - 0xb2) < 40;
  return count;
})()
"""
# how long a moment takes until it is shown, ms
TIMED_SEEK = """
(async time => {
  const start = performance.now();
  playground.seek(time);
  await settle();
  return performance.now() - start;
})
"""
# the share of the queue's box, from its end on, up to its last packet
FILLED = """
(() => {
  const canvas = document.querySelector(".picture");
  const [left, width] = [Math.round(0.27 * canvas.width), Math.round(0.46 * canvas.width)];
  const { data } = canvas.getContext("2d").getImageData(left, 30, width, 60);
  for (let column = 0; column < width; column++)
    for (let row = 0; row < 60; row++) {
      const at = 4 * (row * width + column);
      if (Math.hypot(data[at], data[at + 1] - 0x72, data[at + 2] - 0xb2) < 40) return 1 - column / width;
    }
  return 0;
})()
"""
ROWS = "[...document.querySelectorAll('.difference tbody tr')].map(row => [...row.cells].map(one => one.textContent))"
SHORT = """\
title = "short"
duration = "3s"
seeds = [5]

[bottleneck]
rate = "10Mbit"
aqm = { name = "codel", ecn = true }

[hosts]
ecn = true

[[flows]]
cc = "cubic"
base_rtt = "30ms"

[[flows]]
cc = "bbr3"
base_rtt = "30ms"
start = "500ms"

[[udp]]
rate = "7.84kbit"
size = "98B"
echo = true
base_rtt = "30ms"
"""


# places of the right answers of each lesson, as native runs of its experiments have them
ANSWERS = {
    "queue": (2, 1, 2),
    "slow-start": (1, 2, 2),
    "sawtooth": (1, 2, 2),
    "cubic": (1, 2, 1),
    "codel-pie": (1, 2, 0),
    "flow-queues": (2, 1, 0),
    "bbr": (0, 2, 2),
    "l4s": (0, 1, 2),
    "ack-clock": (2, 1, 2),
}


class PlayPage:
    """The playground in a window, paused."""

    def __init__(
        self,
        opened: browser.Browser,
        path: Path,
        fragment: str = "",
        size: tuple[int, int] = SIZES[0],
        *,
        dark: bool = False,
    ):
        self.browser = opened
        opened.errors.clear()
        opened.outside.clear()
        opened.set_window(size, dark=dark)
        opened.call("Page.navigate", url="about:blank")
        opened.open_address(f"{path.as_uri()}#{fragment}")
        self.until("document.documentElement.dataset.ready")
        self.value(HELPERS)
        self.value("playground.pause(), settle()")

    def value(self, script: str) -> Any:
        return self.browser.evaluate(script)

    def until(self, expression: str) -> Any:
        found = self.value(UNTIL.replace("EXPRESSION", expression))
        assert found, (expression, self.browser.errors)
        return found

    def run(self, toml: str) -> None:
        """Run the text of an experiment file."""
        self.value(f"run({json.dumps(toml)})")
        assert not self.value("document.querySelector('.fault')?.textContent ?? ''")

    def seek(self, ms: float) -> None:
        self.value(f"playground.seek({ms}), settle()")

    def press(self, words: str) -> None:
        """Press the button with these words."""
        self.value(f"find('button', {json.dumps(words)}).click(), settle()")

    def measure(self) -> dict[str, float]:
        """Wait for the measurements of the whole run, and return those that the page shows by their keys."""
        self.until("document.querySelector('.results').dataset.digest")
        cells = self.value(
            "[...document.querySelectorAll('.results td[data-key]')].map(one => [one.dataset.key, one.dataset.value])"
        )
        return {key: float(value) for key, value in cells}

    @property
    def digest(self) -> str:
        self.until("document.querySelector('.results').dataset.digest")
        digest: str = self.value("document.querySelector('.results').dataset.digest")
        return digest


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    assert CHROMIUM is not None
    with browser.open_browser(CHROMIUM) as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("play") / "play.html"
    write_text(path, make_page(), "a file")
    return path


@pytest.fixture
def page(chromium: browser.Browser, file: Path) -> Iterator[PlayPage]:
    page = PlayPage(chromium, file)
    yield page
    assert not chromium.errors and not chromium.outside, (chromium.errors, chromium.outside)


class TestInABrowser:
    """The page in headless Chromium."""

    pytestmark = in_chromium

    @pytest.mark.slow
    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    @pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]} px")
    def test_the_page_fits_every_window(
        self, chromium: browser.Browser, file: Path, size: tuple[int, int], *, dark: bool
    ) -> None:
        page = PlayPage(chromium, file, size=size, dark=dark)
        page.value("document.querySelectorAll('details').forEach(one => (one.open = true))")
        assert page.value("document.documentElement.scrollWidth") <= size[0]
        middles = "[...document.querySelector('.transport').children].map(one => one.getBoundingClientRect())"
        rows = page.value(f"{middles}.map(box => Math.round((box.top + box.bottom) / 40))")
        assert len(set(rows)) <= 2, rows
        unnamed = page.value(
            "[...document.querySelectorAll('input, select, textarea, button')].filter(one => !one.labels?.length"
            " && !one.ariaLabel && !one.textContent.trim()).map(one => one.outerHTML)"
        )
        assert not unnamed
        assert not chromium.errors and not chromium.outside

    @pytest.mark.slow
    def test_what_the_page_measures_is_what_a_native_run_measures(self, page: PlayPage) -> None:
        page.run(SHORT)
        assert page.value("toml()") == SHORT
        shown = page.measure()
        cell = experiment.parse(tomllib.loads(SHORT)).make_cell(0)
        native = _native.run(cell.config, _native.Cancel())
        summary = json.loads(native.summary)
        assert {key: shown[key] for key in summary if key in shown} == pytest.approx(
            {key: summary[key] for key in summary if key in shown}, rel=1e-12
        )
        assert {"sojourn_mean_ms", "utilisation", "ce_marks"} <= shown.keys()
        assert sum(shown[f"goodput_mbit {flow}"] for flow in (0, 1)) > 8
        assert page.digest == native.hash

    @pytest.mark.slow
    def test_a_change_in_mid_run_is_part_of_the_file(self, page: PlayPage) -> None:
        page.run(SHORT)
        page.seek(1500)
        before = page.value("JSON.stringify(playground.side.data.samples.filter(one => one.time <= 1500))")
        page.press("rate ÷ 2")
        page.press("flow 1: + 40 ms")
        page.press("flow 1: 1 % loss")
        page.press("a flow joins")
        toml = page.value("toml()")
        table = tomllib.loads(toml)
        assert table["bottleneck"]["rate_changes"] == [{"at": "1.5s", "rate": "5Mbit"}]
        assert [one["name"] for one in table["flows"][0]["path"]] == ["delay", "loss"]
        assert table["flows"][2]["start"] == "1.5s"
        assert page.value("playground.now") == 1500
        # the counts of flows differ since one joined: what the queue did is the same
        fields = "time, backlog, sojourn, bytes, marks, overflow, aqmDrops"
        pick = f"samples => JSON.stringify(samples.map(({{ {fields} }}) => ({{ {fields} }})))"
        assert page.value(f"({pick})(playground.side.data.samples.filter(one => one.time <= 1500))") == page.value(
            f"({pick})({before})"
        )
        assert page.digest == compute_digest(toml)
        # each can be taken back
        assert page.value("document.querySelectorAll('.changes li').length") == 3
        page.value("document.querySelector('.changes button').click(), settle()")
        assert "rate_changes" not in page.value("toml()")

    @pytest.mark.slow
    def test_the_moment_goes_back_and_forth(self, page: PlayPage) -> None:
        page.run(SHORT)
        page.seek(2000)
        seen = page.value(SEEN)
        page.seek(700)
        assert page.value("playground.now") == 700
        assert page.value("document.querySelector('.clock').textContent") == "0.700 s"
        assert page.value("playground.side.data.stories.kept.every(one => one.time <= 720)")
        page.seek(2000)
        assert page.value(SEEN) == seen
        page.press("+ RTT")
        assert page.value("playground.now") == 2030
        page.press("+ packet")
        assert 2030 < page.value("playground.now") < 2035
        # to the end, as fast as it goes
        page.value("fill(document.querySelector('[aria-label=\"speed\"]'), 'Infinity')")
        page.value("document.querySelector('.play').click()")
        page.until("playground.now === 3000 && !playground.isPlaying")
        assert page.digest == compute_digest(SHORT)

    @pytest.mark.slow
    def test_a_link_is_its_experiment(self, page: PlayPage, chromium: browser.Browser, file: Path) -> None:
        page.run(SHORT)
        page.seek(1234)
        page.until("location.hash.endsWith('t=1234')")
        fragment = page.value("location.hash.slice(1)")
        assert len(fragment) < 400
        again = PlayPage(chromium, file, fragment)
        assert again.value("toml()") == SHORT
        assert again.value("playground.now") == 1234
        damaged = PlayPage(chromium, file, f"e={fragment[12:40]}")
        assert "contains no experiment that can be shown: it is damaged" in damaged.value(
            "document.querySelector('.fault').textContent"
        )

    @pytest.mark.slow
    def test_a_lesson_that_is_not_there_is_named(self, chromium: browser.Browser, file: Path) -> None:
        page = PlayPage(chromium, file, "lesson=sawtoth")
        fault = page.value("document.querySelector('.fault').textContent")
        assert fault == f'There is no lesson "sawtoth"; the lessons are {", ".join(ANSWERS)}.'

    @pytest.mark.slow
    def test_newcomers_find_a_page_at_rest_and_the_first_lesson(self, page: PlayPage) -> None:
        assert not page.value("playground.isPlaying")
        assert page.value("playground.now") == 12_000
        page.press("Start with: what a queue is")
        assert page.value("document.querySelector('.lesson h2').textContent") == "What a queue is"
        assert not page.value("document.querySelector('.greeting')")

    @pytest.mark.slow
    def test_too_many_packets_are_refused(self, page: PlayPage) -> None:
        flood = (
            FLOOD.replace("1s", "10s").replace("66", "1000000").replace("10Mbit", "5Gbit").replace("20Mbit", "20Gbit")
        )
        page.value(f"run({json.dumps(flood)})")
        page.value("playground.seek(5000), settle()")
        fault = page.value("document.querySelector('.bar .fault').textContent")
        assert re.fullmatch(
            r"1\d{5} packets are on the path after [\d.]+ m?s, allowed: 100000\. The playground .*", fault
        )
        # and the page goes on with another run
        page.run(SHORT)
        assert page.digest == compute_digest(SHORT)

    @pytest.mark.slow
    def test_a_newer_moment_does_not_wait_for_an_older_one(self, page: PlayPage) -> None:
        page.run(SHORT.replace("3s", "600s").replace("10Mbit", "100Mbit"))
        page.value("playground.seek(600000)")
        page.until("playground.now > 100 && playground.isComputing")
        page.seek(50)
        assert page.value("playground.now") == 50
        assert not page.value("playground.isComputing")
        assert page.value("playground.side.data.samples.at(-1).time") < 600_000

    @pytest.mark.slow
    def test_two_set_ups_run_side_by_side(self, page: PlayPage) -> None:
        page.run(SHORT)
        page.press("compare with another set-up")
        page.value("fill(document.querySelector('.controls .spec select'), 'pfifo'), settle()")
        assert page.value("playground.sides.b.experiment.bottleneck.aqm.name") == "pfifo"
        assert page.value("playground.sides.a.experiment.bottleneck.aqm.name") == "codel"
        page.seek(2500)
        assert page.value("playground.all.map(one => one.now)") == [2500, 2500]
        page.until("document.querySelector('.difference')")
        rows = page.value(ROWS)
        codel, pfifo = (
            json.loads(_native.run(experiment.parse(tomllib.loads(toml)).make_cell(0).config, _native.Cancel()).summary)
            for toml in (SHORT, SHORT.replace('{ name = "codel", ecn = true }', '"pfifo"'))
        )
        left, right = (float(text.split()[0]) for text in rows[0][1:3])
        assert left == pytest.approx(codel["sojourn_mean_ms"], rel=5e-3) and right == pytest.approx(
            pfifo["sojourn_mean_ms"], rel=5e-3
        )
        assert page.value("document.querySelectorAll('.side').length") == 2
        page.until("location.hash.includes('&b=')")
        page.press("end the comparison")
        assert page.value("document.querySelectorAll('.side').length") == 1

    @pytest.mark.slow
    def test_every_control_changes_the_file_and_goes_back(self, page: PlayPage) -> None:
        page.run(SHORT)
        page.seek(30)
        faults = page.value((ROOT / "tests" / "drive_playground.js").read_text(encoding="utf-8"))
        assert faults["changed"] > 100 and not faults["faults"], faults

    @pytest.mark.slow
    def test_a_file_of_the_command_has_the_digest_of_its_run(self, chromium: browser.Browser, tmp_path: Path) -> None:
        cell = experiment.parse(tomllib.loads(SHORT)).make_cell(0)
        write_text(tmp_path / "given.html", make_page(cell), "a file")
        page = PlayPage(chromium, tmp_path / "given.html")
        assert page.digest == compute_digest(SHORT)
        page.until("document.querySelector('.digest strong')")
        assert page.value("document.querySelector('.digest strong').textContent") == " = the digest of dumbbell run"
        assert not chromium.errors and not chromium.outside

    @pytest.mark.slow
    def test_a_report_leads_to_its_runs_at_their_moment(self, chromium: browser.Browser, tmp_path: Path) -> None:
        results = dumbbell.run(tomllib.loads(SHORT), output=tmp_path / "short.duckdb", progress=False)
        path = results.report(tmp_path / "report.html", playground=True)
        chromium.set_window(SIZES[0])
        chromium.open(path)
        report = PlayPage.__new__(PlayPage)
        report.browser = chromium
        report.until("document.documentElement.dataset.ready")
        report.value("void report.open([0], 'a run')")
        report.until("document.querySelector('#panel a.play')?.href.includes('#g=')")
        report.until("document.querySelector('#panel input[aria-label=\"From, seconds\"]')")
        report.value(
            "fill = document.querySelector('#panel input[aria-label=\"From, seconds\"]'); fill.value = '1.5';"
            "fill.dispatchEvent(new Event('change'))"
        )
        report.until("document.querySelector('#panel a.play').href.endsWith('&t=1500')")
        name, _, fragment = report.value("document.querySelector('#panel a.play').href").partition("#")
        assert name == (tmp_path / "playground.html").as_uri()
        page = PlayPage(chromium, tmp_path / "playground.html", fragment)
        assert page.value("playground.now") == 1500
        assert page.digest == results.runs["hash"].item() == compute_digest(SHORT)
        assert tomllib.loads(page.value("toml()")) | {"title": "short"} == tomllib.loads(SHORT)

    @pytest.mark.slow
    def test_an_earlier_moment_begins_at_a_snapshot(self, page: PlayPage) -> None:
        page.run(SHORT.replace("3s", "60s"))
        whole = page.value(f"({TIMED_SEEK})(60000)")
        assert 10 < page.value("playground.side.snapshots") <= 32
        back = page.value(f"({TIMED_SEEK})(57000)")
        assert page.value("playground.now") == 57_000
        assert back < whole / 4
        assert page.value("playground.side.data.samples.length") == 4000

    @pytest.mark.slow
    def test_a_parameter_of_the_queue_changes_in_mid_run(
        self, page: PlayPage, chromium: browser.Browser, file: Path
    ) -> None:
        page.run(SHORT)
        page.seek(1500)
        page.value("fill(document.getElementById('set-key'), 'bottleneck.aqm.target'), settle()")
        page.value("fill(document.querySelector('.set-queue input[type=text]'), '50ms'), settle()")
        # the file has no words for it: a program repeats the run
        assert page.value("toml()") == SHORT
        simulation = dumbbell.Simulation(tomllib.loads(SHORT))
        program = page.value("document.querySelector('.command').textContent")
        assert 'run.step(until="1.5s")\nrun.set("bottleneck.aqm.target", "50ms")' in program
        simulation.step(until="1.5s")
        simulation.set("bottleneck.aqm.target", "50ms")
        (digest,) = simulation.finish().runs["hash"].to_list()
        assert page.digest == digest != compute_digest(SHORT)
        page.until("location.hash.includes('&s=')")
        again = PlayPage(chromium, file, page.value("location.hash.slice(1)"))
        assert again.digest == digest
        # and is taken back
        again.value("document.querySelector('.changes button').click(), settle()")
        assert again.digest == compute_digest(SHORT)

    @pytest.mark.slow
    def test_another_queue_and_control_take_over(self, page: PlayPage, chromium: browser.Browser, file: Path) -> None:
        page.run(SHORT)
        page.seek(1000)
        page.value("fill(document.getElementById('replace-control-0'), 'reno'), settle()")
        page.value("fill(document.getElementById('replace-bottleneck'), 'fq_codel'), settle()")
        page.value("fill(document.getElementById('set-key'), 'bottleneck.aqm.quantum'), settle()")
        page.seek(3000)
        told = page.value("playground.side.data.stories.kept.map(one => one.text)")
        assert "reno replaces cubic as the control of flow 1." in told
        assert any("dropped because another queue took its place" in one for one in told)
        assert page.value("toml()") == SHORT
        simulation = dumbbell.Simulation(tomllib.loads(SHORT))
        simulation.step(until="1s")
        simulation.set("flows[0].cc", "reno").set("bottleneck.aqm", "fq_codel")
        (digest,) = simulation.finish().runs["hash"].to_list()
        assert page.digest == digest != compute_digest(SHORT)
        page.until("location.hash.includes('&s=')")
        again = PlayPage(chromium, file, page.value("location.hash.slice(1)"))
        assert again.digest == digest

    @pytest.mark.slow
    def test_further_seeds_run_while_nothing_else_is_to_be_done(self, page: PlayPage) -> None:
        page.run(SHORT)
        page.seek(3000)
        page.until("playground.side.seedRuns.length === 4")
        assert page.value("playground.side.seedRuns.map(one => one.seed)") == [6, 7, 8, 9]
        page.until("document.querySelector('.legend').textContent.includes('seeds 6 to 9')")
        runs = page.value("playground.side.seedRuns.map(one => one.samples.at(-1).carried)")
        page.run(SHORT.replace("[5]", "[8]"))
        page.seek(3000)
        assert page.value("playground.side.data.samples.at(-1).carried") == runs[2]

    @pytest.mark.slow
    def test_sentences_are_those_of_explain(self, page: PlayPage) -> None:
        toml = SHORT.replace("3s", "10s")
        page.run(toml)
        page.seek(10_000)
        told = page.value("playground.side.data.stories.kept.map(one => [one.time, one.text])")
        explained = dumbbell.simulate(tomllib.loads(toml)).explain().to_json()
        for name, flow in (("the slow start of CUBIC", "flow 1 (cubic)"), ("the STARTUP of BBRv3", "flow 2 (bbr3)")):
            (fact,) = [one for one in explained["facts"] if name in one["sentence"] and "window" in one["sentence"]]
            time, text = next(one for one in told if name.rpartition(" ")[0] in one[1] and flow in one[1])
            assert time == pytest.approx(1000 * fact["at_s"], abs=1)
            own = text.replace(flow, name.rpartition(" ")[2])
            assert own.partition(", 4")[0].rstrip(".") == fact["sentence"].partition(", 4")[0].rstrip(".")
        times = r"( \d+ times until [\d.]+ m?s, the last time)?"
        reduced = re.compile(rf"CE marks made flow 1 \(cubic\) reduce its window{times} from \d+ to \d+ segments?\.")
        assert any(reduced.fullmatch(text) for _, text in told)
        # a sentence leads to its moment
        page.value("document.querySelector('.stories li button').click(), settle()")
        assert page.value("playground.now") == pytest.approx(max(time for time, _ in told), abs=0.001)

    @pytest.mark.slow
    @pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
    @pytest.mark.parametrize("key", ANSWERS)
    def test_a_lesson_checks_answers_in_its_run(
        self, chromium: browser.Browser, file: Path, key: str, *, is_right: bool
    ) -> None:
        page = PlayPage(chromium, file, f"lesson={key}")
        for right in ANSWERS[key]:
            page.until("document.querySelector('.lesson form button[type=submit]') && playground.isAsking")
            page.until("playground.side.isShown && playground.now < 300")
            choices = page.value("document.querySelectorAll('.lesson input').length")
            assert page.value("document.querySelector('.results').dataset.digest") == ""
            assert page.value("find('.lesson button', 'let the run answer').disabled")
            choice = right if is_right else (right + 1) % choices
            page.value(f"document.querySelectorAll('.lesson input')[{choice}].click(), settle()")
            page.press("let the run answer")
            page.until("document.querySelector('.lesson strong')")
            # the button is gone, and the words that came have the focus
            assert page.value("document.activeElement.className") == "answer"
            verdict = page.value("document.querySelector('.lesson strong').textContent")
            assert verdict == ("Right" if is_right else "Not so")
            marks = "[...document.querySelectorAll('.lesson label')].map(one => one.className)"
            assert page.value(marks) == [
                "right" if one == right else "wrong" if one == choice else "" for one in range(choices)
            ]
            # the number is that of the native run
            assert page.digest == compute_digest(page.value("toml()"))
            page.value("[...document.querySelectorAll('.lesson .ask button')].at(-1).click(), settle()")
            assert 0 < page.value("playground.now") < page.value("playground.duration")
            page.value("document.querySelector('.lesson .ask button').click(), settle()")
        page.until("!document.querySelector('.lesson form')")
        count = 3 if is_right else 0
        assert f"{count} of 3 right at once" in page.value("document.querySelector('.lesson').textContent")
        page.press("end the lesson")
        assert not page.value("document.querySelector('.lesson')")
        assert not chromium.errors and not chromium.outside

    @pytest.mark.slow
    def test_charts_of_a_question_end_at_the_moment_and_stand_first(
        self, chromium: browser.Browser, file: Path
    ) -> None:
        page = PlayPage(chromium, file, "lesson=sawtooth")
        page.until("document.querySelector('.lesson form button[type=submit]')")
        order = "[...document.querySelectorAll('[data-chart]')].filter(one => getComputedStyle(one).order !== '0')"
        assert page.value(f"{order}.map(one => one.dataset.chart)") == ["sojourn", "cwnd"]
        assert page.value("getComputedStyle(document.querySelector('.controls')).display") == "none"
        # the first packets are on their way, and charts say how they go on
        assert page.value(f"{order}.map(one => one.querySelector('.begin') !== null)") == [True, True]
        assert page.value("playground.side.data.packets.length") > 0
        page.seek(30_000)
        assert not page.value("document.querySelector('.begin')")
        page.seek(10_000)
        assert page.value("playground.side.data.samples.at(-1).time") > 29_000
        page.value(SETTLED_CHARTS)
        assert page.value(COUNT_BEHIND) == 0
        page.value("document.querySelectorAll('.lesson input')[1].click(), settle()")
        page.press("let the run answer")
        page.until("document.querySelector('.lesson strong')")
        page.seek(10_000)
        page.value(SETTLED_CHARTS)
        assert page.value(COUNT_BEHIND) > 100
        for _ in range(2):
            page.value("document.querySelector('.lesson .ask button').click(), settle()")
            page.value("document.querySelectorAll('.lesson input')[1].click(), settle()")
            page.press("let the run answer")
            page.until("document.querySelector('.lesson strong')")
        page.value("document.querySelector('.lesson .ask button').click(), settle()")
        assert page.value("getComputedStyle(document.querySelector('.controls')).display") == "block"
        assert page.value(f"{order}.length") == 0

    @pytest.mark.slow
    def test_a_question_is_answered_by_its_own_set_up(self, chromium: browser.Browser, file: Path) -> None:
        page = PlayPage(chromium, file, "lesson=queue")
        page.until("document.querySelector('.lesson form button[type=submit]')")
        toml = page.value("toml()")
        page.run(SHORT)
        page.value("document.querySelectorAll('.lesson input')[2].click(), settle()")
        page.press("let the run answer")
        page.until("document.querySelector('.lesson strong')")
        assert page.value("toml()") == toml
        assert page.value("document.querySelector('.lesson strong').textContent") == "Right"

    @pytest.mark.slow
    def test_a_full_queue_fills_its_box(self, page: PlayPage) -> None:
        page.run(FLOOD)
        page.seek(50)
        half = page.value(FILLED)
        # 83 packets came, one each 0.6056 ms, and 42 of them left the queue, one each 1.2112 ms
        assert page.value("playground.side.data.samples.findLast(one => one.time <= 50).backlog") == 41
        page.seek(900)
        assert page.value("playground.side.data.samples.findLast(one => one.time <= 900).backlog") == 66
        assert page.value(FILLED) > 0.97 and 0.5 < half < 0.7
