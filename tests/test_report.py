"""Reports: what a page holds, that it holds itself alone, how large it is, and that its values are the store's."""

import base64
import hashlib
import json
import math
import re
import shlex
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

import dumbbell
from conftest import Command, described, examples
from dumbbell import Results, report
from dumbbell.errors import InputError
from dumbbell.experiment.file import load
from dumbbell.explain import observed
from dumbbell.explain.explained import explain_run
from dumbbell.figures import html
from dumbbell.report import page as writing
from dumbbell.report import repeat, series
from dumbbell.report.sources import ReportRuns, open_files
from test_results import made

FIGURES = Path(html.__file__).parent
LIBRARIES = [line.split() for line in (FIGURES / "vega" / "VERSIONS").read_text().splitlines()]
SCRIPTS = [*FIGURES.glob("web/*.js"), *Path(report.__file__).parent.glob("web/*.js")]
EVIL = "</script><script>alert('no')</script> & <b>"
TABLE = described(
    title=EVIL,
    duration="4s",
    seeds=[1, 2],
    record={"interval": "200ms", "trace": "500ms"},
    flows=[
        {"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}},
        {"cc": "bbr3", "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}},
    ],
    matrix={
        "bottleneck.aqm": ["codel", "pfifo"],
        "bottleneck.rate": ["5Mbit", "10Mbit", "20Mbit"],
        "flows[*].base_rtt": ["10ms", "20ms", "40ms"],
    },
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "results.duckdb"
    dumbbell.run(TABLE, output=path, progress=False)
    return path


@pytest.fixture(scope="module")
def page(store: Path) -> str:
    return report.write(store, store.with_name("page.html")).read_text(encoding="utf-8")


class Elements(HTMLParser):
    """The elements of a page: their tags and attributes, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)


def model(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="text/plain" id="model">([^<]*)<', text)
    assert found
    read: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return read


def column(text: str, table: str, name: str) -> tuple[dict[str, Any], list[float | None]]:
    of = next(one for one in model(text)["tables"] if one["name"] == table)
    return of, next(one for one in of["measures"] if one["name"] == name)["values"]


def decoded(body: bytes, start: int, count: int, decimals: int) -> list[float | None]:
    """Return what `series` encoded, by what its docstring says."""
    values: list[float | None] = []
    last, place = 0, start
    for _ in range(count):
        code = shift = 0
        while True:
            octet = body[place]
            place += 1
            code |= (octet & 127) << shift
            shift += 7
            if not octet & 128:
                break
        if code == 0:
            values.append(None)
            continue
        last += (code - 1) // 2 if code % 2 else -(code // 2)
        values.append(last / 10**decimals)
    return values


def lines(chunk: str) -> dict[int, list[tuple[str, str, list[float | None], list[float | None]]]]:
    whole = zlib.decompress(base64.b64decode(chunk))
    length = int.from_bytes(whole[:4], "little")
    head, body = json.loads(whole[4 : 4 + length]), whole[4 + length :]
    found = {}
    for run, own in head["runs"].items():
        times = [decoded(body, *time) for time in own["times"]]
        found[int(run)] = [
            (panel, label, times[time], decoded(body, start, count, decimals))
            for panel, label, time, start, count, decimals, *_ in own["lines"]
        ]
    return found


# the libraries and the scripts


def test_the_libraries_are_those_of_the_sums() -> None:
    folder = FIGURES / "vega"
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    for name, wanted in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted, name
    for name, version, file in LIBRARIES:
        assert {file.rpartition("/")[2], f"LICENSE-{name}"} <= sums.keys()
        assert f'"{version}"' in (folder / file.rpartition("/")[2]).read_text(encoding="utf-8"), name
    assert {name for name, _, _ in LIBRARIES} == {"vega", "vega-lite"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_javascript(script: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    done = subprocess.run([node, "--check", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_data_cannot_leave_their_element() -> None:
    text = html.make_data("x", {"a": EVIL, "b": [math.nan, math.inf, 1.5], "c": "\u2028<!--"})
    (kind, found), *others = Elements(text).found
    assert (kind, found["id"], others) == ("script", "x", [])
    inner = text.partition(">")[2].rpartition("<")[0]
    assert json.loads(inner) == {"a": EVIL, "b": [None, None, 1.5], "c": "\u2028<!--"} and "<" not in inner
    script = html.make_script("const a = '</script><!-- <script>';")
    assert script.count("</script") == 1 and "<!--" not in script


# the page


def test_a_page_is_whole_and_asks_nobody(page: str) -> None:
    elements = Elements(page)
    assert not [one for one in elements.scripts if one.startswith("alert")]
    assert page.count("<h1>") == 1 and "<b>" not in page.partition("<h1>")[2].partition("</h1>")[0]
    leads = [value for _, attrs in elements.found for name, value in attrs.items() if name in ("src", "href") and value]
    assert not [one for one in leads if not one.startswith(("#", "data:"))]
    policy = next(attrs["content"] for tag, attrs in elements.found if tag == "meta" and "http-equiv" in attrs)
    assert policy is not None and "default-src 'none'" in policy and "http" not in policy
    for name, version, _ in LIBRARIES:
        assert f"/*! {name} {version}" in page
    assert page.count("University of Washington Interactive Data Lab") == 2
    targets = {attrs.get("id") for _, attrs in elements.found}
    assert {one[1:] for one in leads if one.startswith("#")} <= targets


def test_what_was_run_is_said(page: str, store: Path) -> None:
    start = page.partition('<section id="run">')[2].partition("</section>")[0]
    for text in ("36 of 18 cells; seeds 1, 2", "codel, pfifo", "5Mbit, 10Mbit, 20Mbit", "4 s in each run", str(store)):
        assert text in start, text
    assert dumbbell.engine_version() in start


def test_values_are_those_of_the_store(page: str, store: Path) -> None:
    results = Results(store)
    found = model(page)
    assert found["key"] == results.keys
    for table, name in (("runs", "sojourn_mean_ms"), ("flows", "goodput_mbit"), ("classes", "mark_share")):
        of, values = column(page, table, name)
        rows = results._runs.parts(table, [name])
        number = {key: run for run, key in enumerate(found["key"])}
        parts = of["axes"][0]["texts"] if of["axes"] else [""]
        codes = of["axes"][0]["codes"] if of["axes"] else [0] * len(values)
        ours = {(run, parts[code]): value for run, code, value in zip(of["run"], codes, values, strict=True)}
        assert len(ours) == rows.height == len(values)
        for row in rows.iter_rows(named=True):
            value = ours[number[row["key"]], row.get("part") or ""]
            assert value == pytest.approx(row[name], rel=1e-5), row


@pytest.mark.slow
def test_findings_say_what_diff_says(tmp_path: Path) -> None:
    # of two seeds hardly anything is significant
    table = TABLE | {"matrix": TABLE["matrix"] | {"bottleneck.rate": ["10Mbit"]}, "seeds": [1, 2, 3, 4]}
    store = tmp_path / "results.duckdb"
    page = dumbbell.run(table, output=store, progress=False).report(tmp_path / "page.html").read_text(encoding="utf-8")
    part = page.partition('<section id="findings">')[2].partition("</section>")[0]
    assert "bottleneck.aqm: codel (A) against pfifo (B)" in part
    first = re.search(r'data-show="([^"]+)">[^<]*</button></th><td>\w+ ?([^<]*)</td>(.*?)</tr>', part)
    assert first
    measure, of, rest = first.groups()
    differs = Results(store).diff(by="bottleneck.aqm", values=[measure]).measures.filter(part=of).row(0, named=True)
    shown = [float(one) for one in re.findall(r'class="number">([0-9.]+)<', rest)]
    assert differs["differs"] and shown == [pytest.approx(differs[side], rel=1e-3) for side in "ab"]
    # a measure of flows is told of both, the one that wins and the one that loses, and no row is of no cell
    rows = re.findall(r'data-show="(flows\.[^"]+)">[^<]*</button></th><td>flow (cubic|bbr3)(?: <span|<)', part)
    assert rows and set(rows) == {(measure, flow) for measure, _ in rows for flow in ("cubic", "bbr3")}
    assert not re.search(r'class="number">0 of', part)


@pytest.mark.slow
def test_findings_say_which_flow_gets_more(page: str, store: Path, tmp_path: Path) -> None:
    part = page.partition("How the flows share")[2].partition("</table>")[0]
    # shares are of the time that all flows of a run have in common, and seeds have equal weights
    flows = Results(store)._runs.parts("flows", ["goodput_common_mbit"])
    of_run = pl.col("goodput_common_mbit") / pl.col("goodput_common_mbit").sum().over("key")
    flows = flows.with_columns(share=of_run).group_by("cell", "part").agg(pl.col("share").mean())
    of_flow = {flow: flows.filter(part=flow)["share"].to_list() for flow in ("cubic", "bbr3")}
    for flow, share in of_flow.items():
        row = re.search(rf'<tr><th scope="row">{flow}</th>(.*?)</tr>', part)
        assert row
        mean, least, most = (float(one) for one in re.findall(r">([0-9.]+)(?: ± [0-9.]+)? %", row[1]))
        found = (100 * float(np.mean(share)), 100 * min(share), 100 * max(share))
        assert (mean, least, most) == pytest.approx(found, abs=0.06)
    # of two files with a run each both are told
    one = [tmp_path / f"{name}.duckdb" for name in "ab"]
    for path, duration in zip(one, ("2s", "3s"), strict=True):
        dumbbell.run(described(flows=TABLE["flows"], duration=duration), output=path, progress=False)
    text = report.write(one, tmp_path / "two.html").read_text(encoding="utf-8")
    said = r"How the flows share: ([ab]\.duckdb)</h3><p>In the runs of \1: \w+ gets more goodput than \w+ \(one run"
    assert len(re.findall(said, text)) == 2


@pytest.mark.slow
def test_findings_name_keys_that_a_matrix_joins_and_what_lies_between(tmp_path: Path) -> None:
    joined = "flows[*].base_rtt, bottleneck.rate"
    axis = {joined: [["20ms", "5Mbit"], ["20ms", "10Mbit"], ["40ms", "20Mbit"]]}
    path = tmp_path / "r.duckdb"
    results = made(path, matrix=axis)
    shifts = {"5Mbit": 0.5, "10Mbit": 0.2, "20Mbit": 0.6}  # less with the rate between than with both ends
    rows = [[shift, key] for rate, shift in shifts.items() for key in results.where(f"rate={rate}").keys]
    with duckdb.connect(str(path)) as connection:
        connection.executemany("UPDATE runs SET jain = ? + seed / 1000 WHERE key = ?", rows)
    results = dumbbell.open(path)
    text = results.report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert (
        "<b>bottleneck.rate and flows[*].base_rtt: 5Mbit, 20ms (A) against 20Mbit, 40ms (B), first against last of "
        "3 values</b>"
    ) in text
    assert "this key alone" not in text and "<b>flows[*].base_rtt: " not in text
    assert "is smaller with 10Mbit than with the first and the last value.</p>" in text
    two = results.where("rate=5Mbit,20Mbit").report(tmp_path / "y.html").read_text(encoding="utf-8")
    assert "20Mbit, 40ms (B)</b>" in two and "first and the last value" not in two


@pytest.mark.slow
def test_cells_that_change_both_ways_have_no_mean_change(tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    results = made(path, matrix={"bottleneck.rate": ["5Mbit", "10Mbit"], "bottleneck.aqm.target": ["5ms", "9ms"]})
    values = {("5Mbit", "5ms"): 0.3, ("5Mbit", "9ms"): 0.9, ("10Mbit", "5ms"): 0.8, ("10Mbit", "9ms"): 0.7}
    rows = [
        [value, key]
        for (rate, target), value in values.items()
        for key in results.where(f"rate={rate}", f"target={target}").keys
    ]
    with duckdb.connect(str(path)) as connection:
        connection.executemany("UPDATE runs SET jain = ? + seed * seed / 1000 WHERE key = ?", rows)
    text = dumbbell.open(path).report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<b>bottleneck.aqm.target: 5ms (A) against 9ms (B)</b>" in text
    row = text.partition('data-show="runs.jain"')[2].partition("</tr>")[0]
    assert row.endswith(
        '<td class="number">rises in 1 cell, falls in 1</td><td class="number">-</td><td class="number">2 of 2</td>'
    )


@pytest.mark.slow
def test_who_gets_more_is_said_where_seeds_leave_no_doubt(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb", matrix={"bottleneck.rate": ["5Mbit", "10Mbit"]})
    # at 5 Mbit/s 7.9 ± 11, seed by seed, at 10 Mbit/s 1 ± 0.2
    rows = []
    for rate, more in (("5Mbit", (4.0, 6.7, 13.0)), ("10Mbit", (0.9, 1.0, 1.1))):
        for seed, value in enumerate(more, 1):
            (key,) = results.where(f"rate={rate}", f"seed={seed}").keys
            rows += [[2.0 * seed + value, key, 0], [2.0 * seed, key, 1]]
    with duckdb.connect(str(results.path)) as connection:
        connection.executemany("UPDATE flows SET goodput_common_mbit = ? WHERE key = ? AND flow = ?", rows)
    text = dumbbell.open(results.path).report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert (
        "<p>cubic gets significantly more goodput than reno in 1 of 2 cells; 1 is undecided (3 seeds, paired, FDR "
        "5 %). That is with rate 10Mbit: 5 Mbit/s for cubic and 4 Mbit/s for reno, 1 ± 0.25 Mbit/s apart.</p>"
    ) in text
    alone = dumbbell.open(results.path).where("rate=5Mbit").report(tmp_path / "y.html").read_text(encoding="utf-8")
    assert (
        "<p>Which of cubic and reno gets more goodput is not decided here (3 seeds, paired, FDR 5 %). They get "
        "11.9 Mbit/s for cubic and 4 Mbit/s for reno, 7.9 ± 11 Mbit/s apart.</p>"
    ) in alone


def test_series_are_those_of_the_store(page: str, store: Path) -> None:
    results = Results(store)
    chunks = re.findall(r'id="chunk-\d+">([^<]*)<', page)
    found: dict[int, Any] = {}
    for chunk in chunks:
        found |= lines(chunk)
    assert found.keys() == set(range(36))
    seen = set()
    for run in (0, 17, 35):
        key = results.keys[run]
        own = results.with_keys([key])
        panels = {(panel, label): (x, y) for panel, label, x, y in found[run]}
        queue = own.queue_series.sort("time_s")
        for panel, name in (("sojourn", "sojourn_mean_ms"), ("throughput", "throughput_mbit")):
            x, y = panels[panel, ""]
            assert x == pytest.approx(queue["time_s"].to_list(), abs=1e-6)
            close(y, queue[name].to_list())
        for flow, label in ((0, "cubic"), (1, "bbr3")):
            rows = own.series.filter(flow=flow).sort("time_s")
            start = own.flows.filter(flow=flow)["start_s"].item()  # before which there is nothing
            for panel, name in (("goodput", "goodput_mbit"), ("cwnd", "cwnd")):
                values = rows.select(pl.when(pl.col("time_s") > start).then(name)).to_series().to_list()
                close(panels[panel, label][1], values)
                seen.add(values[0] is None)
        assert ("state", "bbr3") in panels
    assert True in seen, "a flow that starts late"


@pytest.mark.slow
def test_states_of_a_queue_have_a_panel_where_they_are_recorded(tmp_path: Path) -> None:
    # pfifo tells nothing of its state
    record = TABLE["record"] | {"queue": ["count"]}
    table = TABLE | {"matrix": {"bottleneck.aqm": ["codel", "pfifo"]}, "record": record, "seeds": [1]}
    results = dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False)
    text = results.report(tmp_path / "x.html").read_text(encoding="utf-8")
    found: dict[int, Any] = {}
    for chunk in re.findall(r'id="chunk-\d+">([^<]*)<', text):
        found |= lines(chunk)
    for run, key in enumerate(results.keys):
        own = results.with_keys([key])
        counts = [y for panel, label, _, y in found[run] if (panel, label) == ("queue: count", "bottleneck")]
        if "codel" in own.cells["matrix"].item():
            close(counts[0], own.queue_states.sort("time_s")["value"].to_list())
        else:
            assert counts == []


def close(ours: list[float | None], theirs: list[float | None]) -> None:
    """Assert that values are those, rounded to four significant digits of the largest."""
    known = [one for one in theirs if one is not None and math.isfinite(one)]
    step = 10.0 ** (math.floor(math.log10(max(map(abs, known)))) - 3) if any(known) else 1.0
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None or not math.isfinite(b))
        assert a is None or b is None or abs(a - b) <= 0.51 * step


NUMBERS = st.one_of(st.integers(-(10**15), 10**15).map(float), st.just(math.nan))


@settings(max_examples=examples(100))
@given(st.lists(st.lists(NUMBERS, max_size=9), max_size=5))
def test_numbers_come_back_from_bytes(lists: list[list[float]]) -> None:
    body, ends = series.encode_lists([np.array(one, dtype=np.float64) for one in lists])
    assert len(ends) == len(lists) and (not ends or ends[-1] == len(body))
    for one, start in zip(lists, [0, *ends], strict=False):
        assert decoded(body, start, len(one), 0) == [None if math.isnan(value) else value for value in one]


def test_few_points_keep_sums_and_means(store: Path) -> None:
    of = series.ReportSeries(ReportRuns(open_files([store])))
    assert of.find_most(1.0) >= 20
    whole: dict[int, Any] = {}
    few: dict[int, Any] = {}
    for most, found in ((None, whole), (5, few)):
        for chunk in of.make_chunks(most):
            found |= lines(chunk.to_text())
    for run, own in few.items():
        for (panel, label, x, y), (*_, all_x, all_y) in zip(own, whole[run], strict=True):
            assert len(x) == len(y) <= 5 + (panel == "state")
            if panel == "drops":
                assert sum(filter(None, y)) == pytest.approx(sum(filter(None, all_y)), abs=1), (run, label)
            if not panel.startswith("distribution"):
                assert x[-1] is not None and all_x[-1] is not None and x[-1] <= all_x[-1] + 1e-9


# other results


@pytest.mark.slow
def test_one_run_and_results_of_a_notebook(tmp_path: Path) -> None:
    results = dumbbell.run(described(), progress=False)
    path = results.report(tmp_path / "one.html", title="One run")
    text = path.read_text(encoding="utf-8")
    found = model(text)
    assert found["alone"] == [0] and found["figures"] == [] and found["key"] == results.keys
    assert "<title>One run</title>" in text
    said = explain_run(observed.observe_results(results._runs)).results
    assert {"utilisation", "shares", "waiting", "signals"} <= {one.kind for one in said}
    assert [f"<li>{escape(one.sentence)}</li>" in text for one in said] == [True] * len(said)


@pytest.mark.slow
def test_runs_without_series_or_with_short_flows(tmp_path: Path) -> None:
    table = described(
        record={"series": False}, web=[{"cc": "cubic", "base_rtt": "10ms", "arrivals": "20/s"}], seeds=[1, 2]
    )
    results = dumbbell.run(table, progress=False)
    text = results.report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "from_bytes" in results.table("slowdown").frame.columns
    names = [one["name"] for one in model(text)["tables"]]
    assert {"runs", "flows", "slowdowns"} <= set(names)
    sizes = next(one for one in model(text)["tables"] if one["name"] == "slowdowns")
    assert any(axis["name"] == "from_bytes" and axis["numbers"] for axis in sizes["axes"])


@pytest.mark.slow
def test_settings_of_one_algorithm_state_what_tells_them_apart(tmp_path: Path) -> None:
    aqms = ["codel", {"name": "codel", "ecn": True}, {"name": "codel", "target": "20ms"}, "pfifo"]
    table = TABLE | {"matrix": {"bottleneck.aqm": aqms}, "duration": "2s", "title": "Queues"}
    text = dumbbell.run(table, progress=False).report(tmp_path / "x.html").read_text(encoding="utf-8")
    (key,) = model(text)["keys"]
    codel = ["ecn=false, target=5ms", "ecn=true, target=5ms", "ecn=false, target=20ms"]
    assert key["texts"] == [*(f"codel({one})" for one in codel), "pfifo"]
    assert "codel(ecn=false, target=5ms) (A) against codel(ecn=true, target=5ms) (B)" in text
    least = text.partition("How the flows share")[2].partition("% (")[2].partition(")</td>")[0]
    assert least in key["texts"]


@pytest.mark.slow
def test_two_files_are_held_against_each_other(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    dumbbell.run(TABLE, {"hosts.ecn": True, "duration": "3s"}, output=other, progress=False)
    text = report.write([store, other], tmp_path / "two.html").read_text(encoding="utf-8")
    found = model(text)
    assert found["keys"][0]["name"] == "results" and found["keys"][0]["texts"] == ["results.duckdb", "other.duckdb"]
    assert [one["name"] for one in found["sides"]] == ["results.duckdb", "other.duckdb"]
    (both,) = found["compared"]
    assert len(both["cells"]) == 18
    first, second = Results(store), Results(other)
    keys = [*first.keys, *second.keys]
    for a, b, where in both["cells"]:
        ours, theirs = first.with_keys([keys[run] for run in a]), second.with_keys([keys[run] for run in b])
        assert len(a) == len(b) == 2 and where
        assert ours.cells["matrix"].to_list() == theirs.cells["matrix"].to_list()
    assert "duration from 4s to 3s" in text


@pytest.mark.slow
def test_a_folder_has_everything_next_to_the_page(store: Path, tmp_path: Path) -> None:
    path = report.write(store, tmp_path / "folder")
    assert path == tmp_path / "folder" / "index.html"
    text = path.read_text(encoding="utf-8")
    assert 'id="chunk-0"' not in text and model(text)["chunks"]["beside"] == "data"
    leads = [attrs.get("href") or "" for tag, attrs in Elements(text).found if tag == "a"]
    linked = {one for one in leads if one.startswith("data/")}
    assert {"data/runs.csv", "data/runs.parquet", "data/series.parquet"} <= linked
    assert all((path.parent / one).is_file() for one in linked)
    assert pl.read_parquet(path.parent / "data" / "flows.parquet").equals(Results(store).flows, null_equal=True)
    script = (path.parent / "data" / "runs-0.js").read_text(encoding="utf-8")
    chunk = re.fullmatch(r'dumbbellChunk\(0,"([^"]*)"\);\n', script)
    assert chunk and lines(chunk[1]).keys() == set(range(36))
    assert report.write(store, tmp_path / "folder") == path  # once more, over what is there


def test_a_command_makes_the_same_run(tmp_path: Path, command: Command) -> None:
    (tmp_path / "mine.toml").write_text(
        """
        duration = "1s"
        seeds = [1, 2]
        [bottleneck]
        rate = "5Mbit"
        aqm = "codel"
        [[flows]]
        cc = "cubic"
        base_rtt = "10ms"
        [[flows]]
        cc = "reno"
        base_rtt = "10ms"
        [matrix]
        "bottleneck.aqm" = ["codel", { name = "cake", sce = "on" }]
        "flows[0].cc, flows[1].cc" = [["cubic", "reno"], ["dctcp", { name = "cubic", abe = true }]]
        """
    )
    done = command("run", "mine.toml", "--set", "hosts.pacing=fq", "-o", "r.duckdb")
    assert done.returncode == 0, done.stderr
    runs = ReportRuns(open_files([tmp_path / "r.duckdb"]))
    for said, config in zip(repeat.list_commands(runs), runs.frame["config"], strict=True):
        words = shlex.split(said)
        assert words[:2] == ["dumbbell", "run"] and words[-2:] == ["-o", "again.duckdb"]
        chosen = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
        cells = list(load(tmp_path / "mine.toml", chosen).make_cells())
        assert [cell.config for cell in cells] == [config], said


@pytest.mark.slow
def test_bad_input_is_one_line(store: Path, tmp_path: Path, command: Command) -> None:
    for line, said in (
        (["nothing.duckdb"], "nothing.duckdb: there is no such file"),
        ([str(store), "--where", "seed=9"], "unknown value 9"),
        ([str(store), "--where", "flow=cubic"], "a report covers whole runs"),
        ([str(store), "-o", "no/such/page.html"], "cannot write: no such file or directory"),
        ([str(store), "--reference", "none.csv"], "none.csv"),
        ([str(store), "--suite", "none"], 'unknown suite "none"'),
        ([str(store), "--engine", "linux"], "unknown engine linux"),
    ):
        done = command("report", *line)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, (line, done.stderr)
        assert not (tmp_path / "report.html").exists()
    done = command("report", str(store), "--where", "bottleneck.aqm=codel", "-o", "some.html")
    assert (done.returncode, done.stdout) == (0, "some.html\n")
    assert len(model((tmp_path / "some.html").read_text(encoding="utf-8"))["key"]) == 18


def test_results_without_a_run_are_refused(store: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.duckdb"
    shutil.copy(store, empty)
    with duckdb.connect(str(empty)) as connection:
        connection.execute("DELETE FROM runs")
    with pytest.raises(InputError, match="no finished run"):
        report.write(empty, tmp_path / "x.html")


@pytest.mark.slow
def test_published_numbers_and_their_runs(tmp_path: Path) -> None:
    results = dumbbell.run(
        "sce/one-flow-reno-cubic",
        {"bottleneck.rate": ["10Mbit", "50Mbit"], "flows[0].cc": "reno", "flows[*].base_rtt": ["10ms", "20ms"]},
        progress=False,
    )
    found = model(results.report(tmp_path / "x.html", references=["sce"]).read_text(encoding="utf-8"))
    published = next(one for one in found["published"] if one["name"] == "sce")
    goodputs = [pair for pair in published["pairs"] if pair["metric"] == "throughput_mbit"]
    assert goodputs
    for pair in goodputs:
        (run,) = pair["runs"]
        measured = results.flows.filter(key=found["key"][run])["goodput_mbit"].item()
        assert pair["simulated"] == pytest.approx(measured, rel=1e-5)


@pytest.mark.slow
def test_statements_of_a_study_are_judged(tmp_path: Path) -> None:
    results = dumbbell.run(
        "coexistence/equal-1g",
        {
            "duration": "200ms",
            "flows[*].start": "0s",
            "flows[*].count": [1],
            "flows[0].cc, flows[1].cc": [["dctcp", "dctcp"]],
        },
        output=tmp_path / "r.duckdb",
        progress=False,
    )
    text = results.report(tmp_path / "x.html").read_text(encoding="utf-8")
    part = text.partition('<section id="findings">')[2].partition("</section>")[0]
    assert re.search(r"\d+ of \d+ judged statements hold", part) and "Statements that these runs decide" in part


# size


@pytest.mark.slow
def test_a_large_page_has_fewer_points(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = report.write(store, tmp_path / "whole.html")
    size = whole.stat().st_size - 40_000
    monkeypatch.setattr(writing, "BYTES_OF_1000_RUNS", size)
    path = report.write(store, tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size <= size + 200  # which the sentence about it takes
    most = re.search(r"lines over time have at most (\d+) points", text)
    assert most and int(most[1]) < 60 and "at most" not in whole.read_text(encoding="utf-8").rpartition("<section")[2]
    found: dict[int, Any] = {}
    for chunk in re.findall(r'id="chunk-\d+">([^<]*)<', text):
        found |= lines(chunk)
    assert len(found) == 36
    assert max(len(x) for own in found.values() for _, _, x, _ in own) <= int(most[1])


def test_a_command_says_that_it_was_not_tried(store: Path) -> None:
    runs = ReportRuns(open_files([store]))
    for said, config in zip(repeat.list_commands(runs), runs.frame["config"], strict=True):
        assert said.endswith("# experiment.toml was not found: values are as the results show them")
        assert f"'seeds=[{json.loads(config)['seed']}]'" in said


@pytest.mark.slow
def test_what_another_tool_measured_is_next_to_its_simulation(tmp_path: Path, command: Command) -> None:
    file = Path(__file__).parent / "imports" / "upload.json"
    done = command("import", str(file), "--run", "-o", "both.duckdb")
    assert done.returncode == 0, done.stderr
    text = report.write(tmp_path / "both.duckdb", tmp_path / "x.html").read_text(encoding="utf-8")
    found = model(text)
    assert {one["name"] for one in found["sides"]} == {"sim", "import"} and len(found["compared"]) == 1
    assert "other tools" in text
    said = repeat.list_commands(ReportRuns(open_files([tmp_path / "both.duckdb"])))
    assert sorted(one.split()[0] for one in said) == ["#", "dumbbell"]


def test_a_session_is_repeated_by_shell(store: Path) -> None:
    runs = ReportRuns(open_files([store]))
    matrix = json.dumps({"shell.direction": "up", "shell.command": "iperf3 -c 10.0.0.1"})
    runs.frame = runs.frame.head(1).with_columns(matrix=pl.lit(matrix), experiment=pl.lit("my uplink"))
    assert repeat.list_commands(runs) == ["dumbbell shell 'my uplink.toml' -o again.duckdb -- iperf3 -c 10.0.0.1"]
