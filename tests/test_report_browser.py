"""Reports in a browser: cells are clicked, runs filtered, tables sorted, sides compared, as the store has them."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import described
from dumbbell import Results, report
from dumbbell.results import aggregate
from test_report import TABLE, close
from website import browser

CHROMIUM = browser.find_program()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("report in a browser"),
]
SIZES = ((1400, 900), (800, 900), (400, 800))
READY = """
(async () => {
  const end = Date.now() + 20000;
  while (!document.documentElement.dataset.ready && Date.now() < end) await new Promise(done => setTimeout(done, 20));
  return document.documentElement.dataset.ready;
})()
"""
# until an expression has a value that is true, or 20 s
UNTIL = """
(async () => {
  const end = Date.now() + 20000;
  for (;;) {
    const found = EXPRESSION;
    if (found || Date.now() > end) return found instanceof Element ? true : found;
    await new Promise(done => setTimeout(done, 20));
  }
})()
"""


class Page:
    """A report that is open."""

    def __init__(self, opened: browser.Browser, path: Path, size: tuple[int, int] = SIZES[0], *, dark: bool = False):
        self.browser = opened
        opened.errors.clear()
        opened.outside.clear()
        opened.set_window(size, dark=dark)
        opened.open(path)
        assert opened.evaluate(READY) == "yes", opened.errors

    def value(self, script: str) -> Any:
        return self.browser.evaluate(script)

    def until(self, expression: str) -> Any:
        found = self.value(UNTIL.replace("EXPRESSION", expression))
        assert found, (expression, self.browser.errors)
        return found

    def show(self, selector: str) -> None:
        """Scroll to an element, so that what is drawn when it is seen is drawn."""
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView()")

    def is_clean(self) -> bool:
        return not self.browser.errors and not self.browser.outside


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    assert CHROMIUM is not None
    with browser.open_browser(CHROMIUM) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two results files and the pages of the first, of both, and of one run."""
    folder = tmp_path_factory.mktemp("reports")
    dumbbell.run(TABLE, output=folder / "a.duckdb", progress=False)
    dumbbell.run(TABLE, {"hosts.ecn": True, "duration": "3s"}, output=folder / "b.duckdb", progress=False)
    report.write(folder / "a.duckdb", folder / "a.html")
    report.write([folder / "a.duckdb", folder / "b.duckdb"], folder / "both.html")
    report.write(folder / "a.duckdb", folder / "in-a-folder")
    dumbbell.run(described(), progress=False).report(folder / "one.html")
    return folder


def is_said(text: str, mean: float) -> bool:
    """Whether a mean with half of its interval, in words, begins with this mean, in so many decimals."""
    shown = text.partition(" ")[0]
    return float(shown) == pytest.approx(mean, rel=1e-3, abs=0.51 * 10 ** -len(shown.partition(".")[2]))


MAP = 'table.map[aria-label^="time in queue, mean"]'


@pytest.fixture
def page(chromium: browser.Browser, files: Path) -> Iterator[Page]:
    page = Page(chromium, files / "a.html")
    for _ in range(20):  # figures are drawn as they are seen
        if page.value(f"Boolean(document.querySelector({json.dumps(MAP)}))"):
            break
        page.value("(document.querySelector('.waits') ?? document.body).scrollIntoView()")
        page.value("new Promise(done => setTimeout(done, 150))")
    page.until(f"document.querySelector({json.dumps(MAP)})")
    yield page
    assert page.is_clean(), (page.browser.errors, page.browser.outside)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["a.html", "both.html", "one.html", "in-a-folder/index.html"])
def test_a_report_opens_everywhere_without_a_fault(
    chromium: browser.Browser, files: Path, name: str, dark: bool
) -> None:
    for size in SIZES:
        page = Page(chromium, files / name, size, dark=dark)
        for part in page.value("[...document.querySelectorAll('section')].map(one => '#' + one.id)"):
            page.show(part)
            page.value("new Promise(done => setTimeout(done, 120))")
        assert page.value("document.documentElement.scrollWidth") <= size[0]
        assert page.is_clean(), (page.browser.errors, page.browser.outside)


def test_cells_of_a_map_are_means_of_the_store(page: Page, files: Path) -> None:
    results = Results(files / "a.duckdb")
    keys = ["bottleneck.aqm", "bottleneck.rate", "flows[*].base_rtt"]
    means = aggregate.compute_means(results._runs, "sojourn_mean_ms", keys)
    cells = page.value(
        f"[...document.querySelectorAll('{MAP} button')].map(one => [one.ariaLabel, Number(one.dataset.value)])"
    )
    assert len(cells) == 18
    for label, value in cells:
        words = dict(part.rsplit(" ", 1) for part in label.partition(":")[0].split(", ") if " " in part)
        aqm = next(one for one in ("codel", "pfifo") if one in label.partition(":")[0].split(", "))
        row = means.frame.filter(
            (pl.col("bottleneck.aqm") == aqm)
            & (pl.col("bottleneck.rate") == words["rate"])
            & (pl.col("flows[*].base_rtt") == words["base rtt"])
        ).row(0, named=True)
        assert value == pytest.approx(row["mean"], rel=1e-5)
        # of two seeds their range; intervals of more: test_a_mean_and_its_interval_have_as_many_decimals
        shown = re.fullmatch(r"([0-9.]+) \(([0-9.]+) to ([0-9.]+)\)", label.rpartition(": ")[2])
        assert shown, label
        assert [float(one) for one in shown.groups()] == pytest.approx(
            [row["mean"], row["low"], row["high"]], rel=1e-3
        ), label


def test_a_click_shows_the_runs_behind_a_cell(page: Page, files: Path) -> None:
    results = Results(files / "a.duckdb")
    cell = f"document.querySelectorAll('{MAP} button')[4]"
    runs = page.value(f"{cell}.dataset.runs").split(" ")
    page.value(
        """
        globalThis.specs = {};
        const chart = dumbbell.chart;
        dumbbell.chart = (host, spec, options) => chart(host, (specs[options.name] = spec), options);
        """
    )
    page.value(f"{cell}.click()")
    page.until("document.querySelector('#panel [data-drawn]')")
    assert len(runs) == 2 and page.value("document.querySelectorAll('#panel .chosen button').length") == 2
    run = int(runs[0])
    own = results.with_keys([results.keys[run]])
    command = page.value("document.querySelector('#panel .command code').textContent")
    row = own.runs.row(0, named=True)
    assert f"seeds=[{row['seed']}]" in command
    for key, text in json.loads(row["matrix"]).items():
        assert f"{key}={text}" in command
    shown = page.value(
        "[...document.querySelectorAll('#panel table.facts tr')].map(one => one.innerText.split(/[\\t\\n]/))"
    )
    facts = {one[0]: one[-1] for one in shown}
    heading = page.value("document.querySelector('#panel h2').textContent")
    # a sum of flows that start apart may exceed the rate: what the link carried comes first
    assert list(facts)[:2] == ["utilisation", "goodput, sum of flows, each over its own time, Mbit/s"]
    assert float(facts["time in queue, mean, ms"]) == pytest.approx(row["sojourn_mean_ms"], rel=1e-3)
    # what is drawn is what was recorded
    lines = page.value(f"report.series({run}).then(one => one.lines)")
    panels = {(one["panel"], one["label"]): one for one in lines}
    close(panels["sojourn", ""]["y"], own.queue_series.sort("time_s")["sojourn_mean_ms"].to_list())
    for label in ("cubic", "bbr3"):
        close(panels["srtt", label]["y"], own.run().series("srtt")[f"srtt_ms {label}"].to_list())
    drawn = page.value("[...document.querySelectorAll('#panel [data-panel]')].map(one => one.dataset.panel)")
    assert {"goodput", "srtt", "sojourn", "cwnd", "state", "distribution of sojourn"} <= set(drawn)
    page.value("document.querySelector('#panel [data-panel=state]').scrollIntoView()")
    page.until("document.querySelector('#panel [data-panel=state]').dataset.drawn")
    # a state that lasts is one bar
    stays = pl.DataFrame(page.value("specs.state.data.values"))
    assert stays.height > 5
    for (_,), bars in stays.partition_by("r", as_dict=True).items():
        assert (bars["s"] != bars["s"].shift()).fill_null(True).all()
        assert bars["x2"].to_list()[:-1] == bars["x"].to_list()[1:]
    # a second run joins the first
    page.value("document.querySelectorAll('#panel .chosen button')[1].click()")
    page.until("document.querySelectorAll('#panel .chosen [aria-pressed=true]').length === 2")
    page.until("document.querySelectorAll('#panel .command').length === 2")
    assert heading.endswith(f", seed {row['seed']}")
    assert page.value("document.querySelector('#panel h2').textContent").endswith(", seeds 1, 2")
    page.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert page.value("document.getElementById('panel').hidden") is True


def test_keys_do_what_a_pointer_does(page: Page) -> None:
    selector = json.dumps(f"{MAP} button")
    assert page.value(f"document.querySelectorAll('{MAP} button[tabindex=\"0\"]').length") == 2  # one for each panel
    label = page.value(
        f"""
        (() => {{
          document.querySelector({selector}).focus();
          for (const key of ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowRight"]) {{
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true }}));
          }}
          document.activeElement.click();
          return document.activeElement.ariaLabel ?? document.activeElement.textContent;
        }})()
        """
    )
    page.until("!document.getElementById('panel').hidden")
    heading = page.value("document.querySelector('#panel h2').textContent")
    assert "base rtt 20ms" in heading and "rate 10Mbit" in heading, (label, heading)
    page.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")


def test_filters_leave_what_they_say(page: Page, files: Path) -> None:
    page.value(
        """
        [...document.querySelectorAll('#filters [data-key="bottleneck.rate"] input')]
          .find(one => one.value === "5Mbit").click()
        """
    )
    assert page.value("document.getElementById('kept').textContent") == "24 of 36 runs"
    page.show("#means-section")
    page.until("document.querySelector('#means table')")
    page.until("document.querySelectorAll('#means tbody tr').length === 12")
    shown = page.value(
        "[...document.querySelectorAll('#means tbody tr')].map(one => [...one.cells].map(cell => cell.innerText))"
    )
    table = Results(files / "a.duckdb").where("bottleneck.rate=10Mbit,20Mbit").table("utilisation", ["bottleneck.aqm"])
    assert len(shown) == table.frame.height == 12
    heads = page.value("[...document.querySelectorAll('#means thead th')].map(one => one.innerText)")
    place = {head: i for i, head in enumerate(heads)}
    for row in table.frame.iter_rows(named=True):
        (mine,) = [
            one
            for one in shown
            if one[place["bottleneck.aqm"]] == row["bottleneck.aqm"]
            and one[place["bottleneck.rate"]] == f"{row['bottleneck.rate_mbit']:g}Mbit"
            and one[place["flows[*].base_rtt"]] == f"{row['flows[*].base_rtt_ms']:g}ms"
        ]
        assert is_said(mine[place["utilisation"]], row["mean"])
    # no value is left: the figures say why they are empty
    page.value("""document.querySelectorAll('#filters [data-key="bottleneck.rate"] button')[1].click()""")
    page.until("document.getElementById('kept').textContent === '0 of 36 runs'")
    page.show("#figures-section")
    why = page.until("document.querySelector('.figure .empty')?.textContent")
    assert why.startswith("Nothing to show: the filters keep no run")
    page.value("document.getElementById('reset').click()")
    assert page.value("document.getElementById('kept').textContent") == "all 36 runs"


def test_tables_are_sorted_by_any_column(page: Page, files: Path) -> None:
    page.show("#means-section")
    page.until("document.querySelector('#means table')")
    label = "time in queue, mean, ms"
    for times, descending in ((1, True), (2, False)):
        values = page.value(
            f"""
            (() => {{
              const named = one => one.innerText.startsWith({json.dumps(label)});
              const head = () => [...document.querySelectorAll('#means thead th')].find(named);
              head().querySelector("button").click();
              const at = head().cellIndex;
              const rows = [...document.querySelectorAll('#means tbody tr')];
              return [head().ariaSort, ...rows.map(one => one.cells[at].innerText)];
            }})()
            """
        )
        assert values[0] == ("descending" if descending else "ascending"), times
        means = aggregate.compute_means(Results(files / "a.duckdb")._runs, "sojourn_mean_ms").frame["mean"].to_list()
        for text, mean in zip(values[1:], sorted(means, reverse=descending), strict=True):
            assert is_said(text, mean), (text, mean)
    page.value("document.querySelector('#means tbody button').click()")
    page.until("!document.getElementById('panel').hidden")


@pytest.mark.slow
def test_sides_are_compared_cell_by_cell(chromium: browser.Browser, files: Path) -> None:
    page = Page(chromium, files / "both.html")
    page.show("#sides-section")
    page.until("document.querySelector('#sides table')")
    page.value(
        """
        (() => {
          const box = document.querySelector('#sides [data-control="Measure"]');
          box.value = "runs.sojourn_mean_ms";
          box.dispatchEvent(new Event("change"));
        })()
        """
    )
    rows = page.until(
        "[...document.querySelectorAll('#sides tbody tr')].map(one => [...one.cells].map(cell => cell.innerText))"
    )
    differs = Results(files / "a.duckdb").diff(files / "b.duckdb", values=["runs.sojourn_mean_ms"]).frame
    assert len(rows) == differs.height == 18
    wanted = {row["where"]: row for row in differs.iter_rows(named=True)}
    for where, a, b, difference, change in rows:
        row = wanted[where]
        assert is_said(a, row["a"]) and is_said(b, row["b"])
        assert float(difference) == pytest.approx(row["difference"], rel=1e-2, abs=1e-4)
        assert float(change) == pytest.approx(100 * (row["b"] - row["a"]) / row["a"], abs=0.06)
    page.value("document.querySelector('#sides tbody button').click()")
    page.until("document.querySelectorAll('#panel .chosen [aria-pressed=true]').length === 2")  # one of each side
    page.until("document.querySelector('#panel [data-drawn]')")
    assert page.is_clean(), (page.browser.errors, page.browser.outside)


def test_a_folder_reads_runs_when_they_are_asked_for(chromium: browser.Browser, files: Path) -> None:
    page = Page(chromium, files / "in-a-folder" / "index.html")
    assert page.value("document.querySelectorAll('script[src]').length") == 0
    page.value("report.open([3], 'a run')")
    page.until("document.querySelector('#panel [data-drawn]')")
    assert page.value("document.querySelectorAll('script[src]').length") == 1
    assert page.is_clean(), (page.browser.errors, page.browser.outside)


@pytest.mark.slow
def test_a_time_is_chosen_and_a_run_has_an_address(chromium: browser.Browser, files: Path) -> None:
    page = Page(chromium, files / "a.html")
    page.value("report.open([5], 'a run')")
    page.until("document.querySelector('#panel [data-panel=goodput][data-drawn]')")
    page.value(
        """
        (() => {
          const [from, to] = document.querySelectorAll('#panel input[type=number]');
          from.value = "1"; to.value = "2";
          to.dispatchEvent(new Event("change"));
        })()
        """
    )
    key = Results(files / "a.duckdb").keys[5]
    assert page.value("location.hash") == f"#run={key}"
    assert page.value("[...document.querySelectorAll('#panel input[type=number]')].map(one => Number(one.value))") == [
        1,
        2,
    ]
    assert page.is_clean(), page.browser.errors
    other = files / "a.html"
    page.browser.call("Page.navigate", url="about:blank")
    page.browser.call("Page.navigate", url=f"{other.as_uri()}#run={key}")
    page.until("document.querySelector('#panel [data-drawn]')")
    assert page.value("document.getElementById('panel').dataset.runs") == "5"


def test_labels_leave_out_what_all_values_of_an_algorithm_have_in_common(page: Page) -> None:
    texts = ["red(ecn=true, limit=1kB)", "red(ecn=true, limit=2kB)", "cake(rtt=1ms, x=f(1, 2))", "codel", "red(a=1)"]
    short = ["red(limit=1kB)", "red(limit=2kB)", "cake", "codel", "red(a=1)"]
    assert page.value(f"report.brief({json.dumps(texts)}, new Set([0, 1, 2, 3]))") == short
    assert page.value(f"report.brief({json.dumps(texts)}, new Set([0, 1, 2, 3, 4]))") == [*texts[:2], *short[2:]]


# keeps every chart that is drawn from now on
CHARTS = """
(() => {
  window.made = [];
  const { chart } = dumbbell;
  dumbbell.chart = async (...all) => {
    made.push(await chart(...all));
    return made.at(-1);
  };
})()
"""
# one figure, in place of all others
FIGURE = """
(() => {
  document.getElementById("figures").replaceChildren(document.createElement("div"));
  const host = document.getElementById("figures").firstChild;
  window.figure = new report.Figure(host, SETTINGS);
  figure.host.scrollIntoView();
})()
"""
SWATCHES = """
Object.fromEntries([...document.querySelectorAll("PLACE .legend .swatch")].map(
  one => [one.textContent, one.querySelector("svg").innerHTML.match(/--series-(\\d)/)?.[1]]))
"""


SHOWN = "one => one.view.container().isConnected"


def figure(page: Page, settings: dict[str, Any]) -> None:
    page.value("void made.splice(0)")
    page.value(FIGURE.replace("SETTINGS", json.dumps(settings)))
    page.until("document.querySelectorAll('#figures .chart').length")
    # others, which are no longer there, may have been drawn meanwhile
    page.until(f"made.filter({SHOWN}).length === document.querySelectorAll('#figures .chart').length")
    page.value(f"void (made = made.filter({SHOWN}))")


def test_a_flow_has_one_colour_in_figures_and_panels(page: Page) -> None:
    page.value(CHARTS)
    figure(page, {"measure": "flows.goodput_mbit", "kind": "lines", "y": "flow"})
    both = page.value(SWATCHES.replace("PLACE", "#figures"))
    assert both == {"cubic": "0", "bbr3": "6"}, "as in every other figure"
    drawn = page.value("Object.fromEntries(made[0].view.data('source_0').map(row => [row.c, String(row.k)]))")
    assert drawn == both
    page.value("void made.splice(0); report.open([5], 'a run')")
    page.until("document.querySelector('#panel [data-panel=goodput][data-drawn]')")
    shown = page.value(SWATCHES.replace("PLACE", "#panel .plot:first-child"))
    assert shown == both and list(shown) == list(both), "in one order, too"
    panel = "made.find(one => one.view.data('source_0').some(row => row.s))"
    rows = page.value(f"{panel}.view.data('source_0').map(row => [row.s, String(row.k)])")
    assert {tuple(row) for row in rows} == set(both.items())
    # of several alike the first, and all together, look as the kind does
    assert page.value("['cubic', 'cubic #1', 'cubic, mean of 4 flows', 'bbr3'].map(report.hue)") == [0, 0, 0, 6]
    assert page.value("report.hue('cubic #2')") not in (0, 6)


def test_what_the_filters_leave_keeps_its_colour(page: Page) -> None:
    page.value(CHARTS)
    page.value("report.filter('flow', ['bbr3']); report.filter('bottleneck.rate', ['10Mbit', '20Mbit'])")
    figure(page, {"measure": "flows.goodput_mbit", "kind": "dots", "x": "bottleneck.aqm", "y": "bottleneck.rate"})
    assert page.value(SWATCHES.replace("PLACE", "#figures")) == {"10Mbit": "1", "20Mbit": "2"}


def test_every_cell_has_a_mark_of_its_own(page: Page) -> None:
    page.value(CHARTS)
    figure(page, {"measure": "runs.sojourn_mean_ms", "kind": "points", "second": "runs.utilisation"})
    rows = page.value("made.flatMap((one, at) => one.view.data('source_0').map(row => [at, row.k, row.m]))")
    assert len(rows) == 18 == len({tuple(row) for row in rows})
    legend = page.value("document.querySelector('#figures .legend').innerText.split('\\n').map(one => one.trim())")
    assert {"codel", "pfifo", "base rtt 10ms", "base rtt 40ms"} <= set(legend)


@pytest.mark.slow
def test_axes_end_where_values_do(chromium: browser.Browser, tmp_path: Path) -> None:
    table = TABLE | {"seeds": [1, 2, 3], "matrix": TABLE["matrix"] | {"bottleneck.rate": ["5Mbit"]}}
    path = dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False).report(tmp_path / "x.html")
    page = Page(chromium, path)
    page.value(CHARTS)
    # of three seeds, intervals are wide: they reach below 0 and beyond 1
    for measure, most in (("runs.jain", 1), ("runs.drop_share", 1), ("runs.sojourn_mean_ms", None)):
        figure(page, {"measure": measure, "kind": "dots"})
        for low, high in page.value("made.map(one => one.view.scale('x').domain())"):
            assert low >= 0 and (most is None or high <= most), measure
    ends = page.value("report.groups(report.table('runs'), [report.measure('runs.jain')], report.table('runs').all)")
    assert any(one["values"][0]["mean"] + one["values"][0]["half"] > 1 for one in ends), "an interval beyond 1"
    figure(page, {"measure": "runs.jain", "kind": "points", "second": "runs.drop_share"})
    for x, y in page.value("made.map(one => [one.view.scale('x').domain(), one.view.scale('y').domain()])"):
        assert x[0] >= 0 and x[1] <= 1 and y[0] >= 0 and y[1] <= 1
    # a logarithmic axis has no 0
    figure(page, {"measure": "runs.sojourn_mean_ms", "kind": "dots", "log": True})
    assert min(page.value("made.map(one => one.view.scale('x').domain()[0])")) > 0


def test_ticks_are_the_values_of_the_key(page: Page) -> None:
    page.value(CHARTS)
    texts = json.dumps(numbers := [75000, 125000, 600000])
    page.value(f"report.table('runs').all.find(one => one.name === 'flows[*].base_rtt').numbers = {texts}")
    figure(page, {"measure": "runs.jain", "kind": "lines", "x": "flows[*].base_rtt"})
    assert page.value(
        """
        (() => {
          const found = [];
          const walk = item => {
            if (item.mark?.role === "axis-label") found.push(item.text);
            (item.items ?? []).forEach(walk);
          };
          walk(made[0].view.scenegraph().root);
          return found.slice(0, 3);
        })()
        """
    ) == [str(one) for one in numbers]


def test_buttons_that_save_lie_beside_the_data(page: Page) -> None:
    page.value(CHARTS)
    for kind in ("dots", "lines", "points"):
        figure(page, {"measure": "runs.sojourn_mean_ms", "kind": kind, "second": "runs.utilisation"})
        apart = page.value(
            """
            [...document.querySelectorAll('#figures .chart')].map(chart => {
              const [a, b] = ['canvas', '.saves'].map(one => chart.querySelector(one).getBoundingClientRect());
              return b.height > 0 && (b.bottom <= a.top + 1 || b.top >= a.bottom - 1);
            })
            """
        )
        assert apart and all(apart), kind


@pytest.mark.slow
def test_what_is_printed_has_every_figure(chromium: browser.Browser, files: Path) -> None:
    everything = """
      (() => {
        const charts = [...document.querySelectorAll("main .chart")];
        const isDrawn = charts.length > 0 && charts.every(one => one.querySelector("canvas"));
        return isDrawn && !document.querySelector(".waits");
      })()
    """
    for name in ("a.html", "both.html", "one.html"):
        page = Page(chromium, files / name, (1400, 600))
        chromium.call("Page.printToPDF")
        assert page.value(everything) is True, name
        assert page.is_clean(), (page.browser.errors, page.browser.outside)
        page = Page(chromium, files / name, (1400, 600))
        page.until(everything)  # without scrolling and printing
        assert page.value("scrollY") == 0


@pytest.mark.slow
def test_paper_is_light(chromium: browser.Browser, files: Path) -> None:
    page = Page(chromium, files / "one.html", dark=True)
    page.until("document.querySelectorAll('[data-drawn]').length > 5")
    seen = """
    (async () => {
      const darkest = () => {
        const canvas = document.querySelector("#alone canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let found = 765;
        for (let i = 0; i < data.length; i += 4) {
          if (data[i + 3] > 250) found = Math.min(found, data[i] + data[i + 1] + data[i + 2]);
        }
        return found;
      };
      const screen = darkest();
      dispatchEvent(new Event("beforeprint"));
      await new Promise(done => setTimeout(done, 0));
      const paper = darkest();
      dispatchEvent(new Event("afterprint"));
      await new Promise(done => setTimeout(done, 0));
      return [screen, paper, darkest()];
    })()
    """
    screen, paper, after = page.value(seen)
    assert paper < 100 < screen == after, "labels are dark on paper"
    assert page.is_clean(), (page.browser.errors, page.browser.outside)


def test_a_mean_and_its_interval_have_as_many_decimals(page: Page) -> None:
    said = {
        (0.98464, 0.0198): "0.985 ± 0.020",
        (2906.4, 10364.0): "2906 ± 10364",
        (4.6971, 0.0019): "4.697 ± 0.002",
        (605.62, 0.01): "605.6 ± <0.1",
        (405.5, 70.2): "406 ± 70",
        (0.0, 0.02): "0.000 ± 0.020",
        (3.5, 0.0): "3.5 (equal)",
        (3.5, None): "3.5",
    }
    for (mean, half), text in said.items():
        assert page.value(f"report.withHalf({json.dumps({'mean': mean, 'half': half})})") == text


@pytest.mark.timed
def test_a_thousand_runs_are_quick(chromium: browser.Browser, tmp_path: Path) -> None:
    dumbbell.run(
        described(
            duration="2s",
            seeds=list(range(1, 11)),
            record={"interval": "50ms"},
            flows=[{"cc": cc, "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}} for cc in ("cubic", "reno")],
            matrix={
                "bottleneck.rate": ["1Mbit", "2Mbit", "3Mbit", "4Mbit", "5Mbit"],
                "flows[*].base_rtt": ["5ms", "10ms", "20ms", "30ms", "40ms"],
                "bottleneck.aqm": ["codel", "pfifo", "pie", "cake"],
            },
        ),
        output=tmp_path / "thousand.duckdb",
        progress=False,
    )
    path = report.write(tmp_path / "thousand.duckdb", tmp_path / "page.html")
    assert path.stat().st_size <= 3_000_000
    paints = []
    for _ in range(3):
        page = Page(chromium, path)
        paints += page.value("performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)")
    assert min(paints) < 1000, paints
    page.show("#figures-section")
    page.until("document.querySelector('table.map button')")
    waited = page.value(
        """
        (async () => {
          const times = [];
          for (let i = 0; i < 5; i++) {
            const start = performance.now();
            document.querySelectorAll('table.map button')[5 * i].click();
            while (!document.querySelector('#panel [data-drawn]')) await new Promise(done => setTimeout(done, 5));
            times.push(performance.now() - start);
            report.hide();
          }
          return times;
        })()
        """
    )
    assert min(waited) < 300, waited
    assert page.is_clean(), (page.browser.errors, page.browser.outside)


def test_values_are_saved_as_csv(page: Page, files: Path) -> None:
    assert page.value("[...document.querySelectorAll('#saves button')].map(one => one.textContent)")[:2] == [
        "Save runs.csv",
        "Save flows.csv",
    ]
    saved = pl.read_csv(io.StringIO(page.value("report.csv(report.table('flows'))")))
    flows = Results(files / "a.duckdb")._runs.parts("flows", ["goodput_mbit"]).rename({"part": "which"})
    both = saved.join(flows, left_on=["key", "flow"], right_on=["key", "which"], suffix=" stored")
    assert both.height == saved.height == flows.height == 72
    assert ((both["goodput_mbit"] - both["goodput_mbit stored"]).abs() <= 1e-5 * both["goodput_mbit stored"]).all()
    assert set(saved["bottleneck.aqm"]) == {"codel", "pfifo"} and saved["seed"].n_unique() == 2
