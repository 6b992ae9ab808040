"""From results to figures: which kind suits, which keys become lines and panels, labels, notes, differences.

How a figure is drawn is in test_figures.py; here each function of `dumbbell.figures` notes what it is given.
"""

import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import described
from dumbbell import Results, experiment, figures
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.plotting import over_time
from dumbbell.results import aggregate
from test_results import RANDOM, SHORT, made

KINDS = ("lines", "bars", "box", "dots", "cdf", "heat", "ellipses", "forest", "stacked_series", "shares")
MATRIX = {"bottleneck.rate": ["5Mbit", "10Mbit", "20Mbit"], "bottleneck.aqm": ["codel", "pfifo"]}
ALIKE = [{"cc": "cubic", "base_rtt": "20ms", "count": 3, "start": {"uniform": ["0s", "50ms"]}}]


class Drawn:
    """What a function of figures was given."""

    kind: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    @property
    def frame(self) -> pl.DataFrame:
        assert isinstance(self.args[0], pl.DataFrame)
        return self.args[0]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drawn]:
    noted = Drawn()
    for kind in KINDS:
        monkeypatch.setattr(figures, kind, noting(kind, noted))
    yield noted


class Note(str):
    """What stands for a figure: its kind."""

    panels: ClassVar[dict[Any, Any]] = {}
    around = SimpleNamespace(title=None)
    source = None

    def set_title(self, _: str | None) -> "Note":
        return self


def noting(kind: str, noted: Drawn) -> Any:
    def note(*args: Any, **options: Any) -> Note:
        noted.kind, noted.args, noted.options = kind, args, options
        return Note(kind)

    return note


def sweep_of(folder: pytest.TempPathFactory, name: str, **changes: Any) -> Results:
    return made(folder.mktemp(name) / "r.duckdb", **changes)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return sweep_of(tmp_path_factory, "matrix", matrix=MATRIX)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return sweep_of(tmp_path_factory, "single", flows=ALIKE, seeds=[1])


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Results:
    web = [{"cc": "cubic", "base_rtt": "5ms", "arrivals": "200/s", "size": "3kB"}]
    flows, udp = [{"cc": "cubic", "base_rtt": "20ms"}], [{"rate": "1Mbit"}]
    aqms = {"bottleneck.aqm": ["codel", "pfifo"]}
    return sweep_of(tmp_path_factory, "traffic", flows=flows, web=web, udp=udp, matrix=aqms)


_GOODPUT = "goodput, each over its own time, Mbit/s"  # starts are drawn from all of a short run


def test_the_kind_that_suits_the_shape_is_the_default(
    matrix: Results, single: Results, traffic: Results, drawn: Drawn
) -> None:
    assert str(matrix.plot(value="goodput")) == "lines"
    assert drawn.args[1:3] == ("bottleneck.rate as a number", "mean")
    assert drawn["x_label"] == "rate, Mbit/s" and drawn["y_label"] == _GOODPUT
    assert str(matrix.where("rate=5Mbit").plot(value="goodput")) == "bars" and drawn.args[1] == "bottleneck.aqm"
    assert drawn["x_label"] == "queue discipline" and drawn["group"] == "flow"
    assert str(single.plot()) == "stacked_series"
    assert str(single.plot(value="rtt", of="flows")) == "bars"
    assert str(traffic.plot(value="slowdown")) == "bars"
    assert str(traffic.plot(of="slowdowns")) == "bars" and drawn["y_label"] == "slow-down, mean"
    # the number of a flow counts nothing: no line leads from one to the next
    assert str(matrix.plot(against="flow", mean_over=["rate"])) == "bars" and drawn["x_label"] == "flow"
    assert str(matrix.plot(against="base_rtt")) == "lines"


def test_a_big_matrix_is_lines_and_panels_or_heat(tmp_path: Path, drawn: Drawn) -> None:
    keys: dict[str, list[Any]] = {
        "bottleneck.rate": ["1Mbit", "5Mbit", "10Mbit", "20Mbit"],
        "flows[*].base_rtt": ["5ms", "10ms", "20ms"],
        "bottleneck.aqm": ["codel", "pfifo", "pie"],
    }
    results = made(tmp_path / "r.duckdb", matrix=keys, seeds=[1])
    assert str(results.plot(value="goodput")) == "lines"
    placed = {*drawn["by"], *drawn["facet"], "bottleneck.rate"}
    assert placed == {*keys, "flow"}, "every key by which the runs differ is somewhere"
    results.plot(by="aqm", facet="flow", against="flows[*].base_rtt")
    assert drawn["by"] == ["aqm"] and drawn["facet"] == ["flow", "bottleneck.rate"]
    assert (
        str(results.plot("heat")) == "heat"
        and drawn["y_label"] == "rate, Mbit/s"
        and drawn["x_label"] == "base RTT, ms"
    )
    assert drawn["title"] == "one run each", "one seed has no interval to speak of"
    with pytest.raises(InputError, match=r"panels, of .* are too many; at most 36 are allowed"):
        results.plot("bars", value="rtt", facet=["aqm", "flow", "flows[*].base_rtt", "rate"], against="seed")


def test_labels_and_notes_say_of_what_and_how_many(matrix: Results, single: Results, drawn: Drawn) -> None:
    matrix.plot(value="goodput")
    assert drawn["title"] == "mean and 95 % interval over 3 seeds"
    matrix.plot("heat")
    assert drawn["title"] == "mean over 3 seeds"
    matrix.plot("box")
    assert drawn["title"] == "3 seeds"
    matrix.where("rate=5Mbit").plot("cdf")
    assert drawn["title"] == "3 seeds together"
    matrix.plot("ellipses")
    assert drawn["title"] == "mean and standard deviation over 3 seeds"
    single.plot("box")
    assert drawn["title"] == "1 seed"
    single.plot("cdf")
    assert drawn["title"] is None
    matrix.plot(mean_over=["aqm"], value="jain")
    assert drawn["title"] == "mean and 95 % interval over 3 seeds; mean over bottleneck.aqm"
    # texts have their units, numbers do not
    matrix.plot("bars", against="bottleneck.rate")
    assert drawn["x_label"] == "rate" and drawn.frame["bottleneck.rate"][0] == "5Mbit"
    assert aggregate.Axis("hosts.ecn", ["false", "true"]).label == "ECN"
    sizes = aggregate.Axis("from_bytes", ["1000", "2000"], {"1000": 1e3, "2000": 2e3}, "bytes")
    assert sizes.label == sizes.label_of_texts == "size from, bytes"


def test_intervals_end_where_values_do(tmp_path: Path, drawn: Drawn) -> None:
    made(tmp_path / "r.duckdb", matrix=MATRIX, seeds=[1, 2, 3])
    with duckdb.connect(str(tmp_path / "r.duckdb")) as connection:
        connection.execute("UPDATE runs SET jain = 0.5 + 0.15 * seed")  # 0.8 ± 0.37
    results = dumbbell.open(tmp_path / "r.duckdb")
    for value, most in (("jain", 1.0), ("drop_share", 1.0), ("sojourn", math.inf)):
        means = aggregate.compute_means(results._runs, value).frame
        for kind in ("lines", "bars"):
            results.plot(kind, value=value)
            assert min(drawn.frame["low"].to_list()) >= 0 and max(drawn.frame["high"].to_list()) <= most
            assert drawn.frame.height == means.height
    assert max(aggregate.compute_means(results._runs, "jain").frame["high"].to_list()) > 1, "an interval beyond 1"
    results.plot("lines", value="sojourn", baseline="bottleneck.rate=5Mbit")
    assert min(drawn.frame["low"].to_list()) < 0, "differences have either sign"


def test_a_difference_from_the_baseline_is_taken_seed_by_seed(matrix: Results, drawn: Drawn) -> None:
    assert str(matrix.plot(value="sojourn", baseline="bottleneck.aqm=pfifo")) == "lines"
    assert drawn["y_label"] == "time in queue, mean, ms, difference from bottleneck.aqm=pfifo"
    rows = matrix.tidy("runs").select("bottleneck.rate_mbit", "bottleneck.aqm", "seed", "sojourn_mean_ms")
    wide = rows.pivot(on="bottleneck.aqm", values="sojourn_mean_ms")
    by_hand = wide.group_by("bottleneck.rate_mbit").agg(d=(pl.col("codel") - pl.col("pfifo")).mean())
    by_hand = by_hand.sort("bottleneck.rate_mbit")
    shown = drawn.frame.sort("bottleneck.rate as a number")
    assert shown["mean"].to_list() == pytest.approx(by_hand["d"].to_list())
    # of three differences: t(2, 97.5 %) = 4.3027 standard errors
    of_five = wide.filter(pl.col("bottleneck.rate_mbit") == 5).select(pl.col("codel") - pl.col("pfifo")).to_series()
    deviation = of_five.std()
    assert isinstance(deviation, float)
    assert (shown["high"] - shown["mean"])[0] == pytest.approx(4.3027 * deviation / 3**0.5, rel=1e-4)
    with pytest.raises(InputError, match=r"^baseline: rate: unknown value 11Mbit; .*hoose from 5Mbit"):
        matrix.plot(baseline="rate=11Mbit")
    with pytest.raises(InputError, match=r"^baseline: kind cdf does not take a baseline"):
        matrix.plot("cdf", baseline="rate=5Mbit")


def test_flows_that_are_alike_are_lines_of_their_own_or_a_mean(single: Results, tmp_path: Path, drawn: Drawn) -> None:
    single.plot(value="goodput")
    (panel,) = drawn.args[0]
    assert panel.by == [over_time.WHICH] and not panel.frame.select("time_s", over_time.WHICH).is_duplicated().any()
    assert panel.frame[over_time.WHICH].unique(maintain_order=True).to_list() == ["flow #1", "flow #2", "flow #3"]
    assert panel.frame.sort(over_time.WHICH, "time_s")["goodput_mbit"].to_list() == (
        single.series.sort("flow", "time_s")["goodput_mbit"].to_list()
    )
    assert str(single.plot("shares")) == "shares" and drawn["by"] == [over_time.WHICH]
    many = [
        {"cc": cc, "base_rtt": "20ms", "count": 5, "start": {"uniform": ["0s", "50ms"]}} for cc in ("cubic", "reno")
    ]
    results = made(tmp_path / "r.duckdb", flows=many)
    results.plot("series", value="goodput")
    (panel,) = drawn.args[0]
    said = "seed 1 of 3; each line of flows the mean of 5 alike, of those that have begun"
    assert drawn["title"] == said and panel.by == ["flow"]
    one = results.where("seed=1").series.filter(pl.col("flow") < 5, pl.col("time_s") == 0.1)["goodput_mbit"].mean()
    assert panel.frame.filter(pl.col("flow") == "cubic", time_s=0.1)["goodput_mbit"].item() == pytest.approx(one)
    # shares are of the sum over flows, not of the mean of each kind
    results = made(tmp_path / "s.duckdb", flows=[many[0], many[1] | {"count": 1}], seeds=[1])
    results.plot("shares", against="seed")
    whole = results.flows["goodput_mbit"].sum()
    reno = results.flows.filter(cc="reno")["goodput_mbit"].sum()
    assert drawn.frame["mean"].sum() == pytest.approx(whole)
    assert drawn.frame.filter(pl.col("flow") == "reno")["mean"].item() == pytest.approx(reno)
    with pytest.raises(InputError, match="the flows are all alike"):
        made(tmp_path / "t.duckdb", flows=[ALIKE[0] | {"count": 30}]).plot("shares")


def test_time_series_of_several_runs_stand_side_by_side(traffic: Results, drawn: Drawn) -> None:
    traffic.plot("series")
    assert drawn["columns"] == "bottleneck.aqm"
    assert [panel.by for panel in drawn.args[0]][:4] == [["flow"], ["flow"], None, ["flow"]]
    traffic.plot("series", by="bottleneck.aqm", value="goodput")
    assert drawn["columns"] is None and drawn.args[0][0].by == ["bottleneck.aqm", "flow"]
    traffic.plot("series", value="sojourn", facet="aqm")
    assert drawn["columns"] == "bottleneck.aqm"
    with pytest.raises(InputError, match=r"facet: flow is not of runs, .*; use a key of runs"):
        traffic.plot("series", facet="flow")
    with pytest.raises(InputError, match="time: no point"):
        traffic.plot(time=(100, 200))


def test_one_signal_is_named_at_its_axis_and_no_rtt_is_no_point(tmp_path: Path, drawn: Drawn) -> None:
    late = [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms", "start": "1s"}]
    changes = [{"at": "500ms", "rate": "1Mbit"}]
    bottleneck = {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 10}, "rate_changes": changes}
    results = made(tmp_path / "r.duckdb", duration="2s", flows=late, bottleneck=bottleneck, seeds=[1])
    results.plot(value=["srtt", "signals"])
    srtt, signals = drawn.args[0]
    assert signals.y_label == "drops an interval"
    assert srtt.frame.filter(pl.col("flow") == "reno")["time_s"].min() > 1 and srtt.frame["srtt_ms"].min() > 0
    assert drawn["marks"] == [(0.5, "1 Mbit/s")]


def test_a_flow_is_drawn_from_its_start_to_its_end(tmp_path: Path, drawn: Drawn) -> None:
    cubic, short = (
        {"cc": "cubic", "base_rtt": "20ms"},
        {"cc": "bbr1", "base_rtt": "20ms", "start": "1s", "size": "50kB"},
    )
    alike = {"cc": "reno", "base_rtt": "20ms", "count": 2, "start": {"uniform": ["200ms", "1500ms"]}}
    many = {"cc": "dctcp", "base_rtt": "20ms", "count": 7, "start": {"uniform": ["200ms", "1500ms"]}}
    table = {"duration": "2s", "seeds": [1], "record": {"interval": "100ms"}}
    link = {"rate": "10Mbit", "aqm": "fq_codel"}
    flows = [cubic, short, alike]
    results = made(tmp_path / "r.duckdb", **table, bottleneck=link, flows=flows, udp=[{"rate": "1Mbit"}])
    begins = results.flows["start_s"].to_list()
    ended = 1 + results.flows["completion_s"][1]
    results.plot(value=["goodput", "cwnd", "srtt"])
    for panel in drawn.args[0]:
        rows = panel.frame.filter(flow="bbr1")
        assert 1 < rows["time_s"].min() <= 1.2 and ended <= rows["time_s"].max() < ended + 0.1
        for number in (1, 2):
            rows = panel.frame.filter(pl.col("flow") == "reno", pl.col(over_time.WHICH) == f"#{number}")
            assert 0 < rows["time_s"].min() - begins[1 + number] <= (0.2 if panel.y == "srtt_ms" else 0.1)
        assert set(panel.frame["flow"]) == {"cubic", "bbr1", "reno"} | ({"udp"} if panel.y == "goodput_mbit" else set())
    # a mean is over those that have begun
    results = made(tmp_path / "s.duckdb", **table, bottleneck=link, flows=[cubic, many])
    results.plot(value="cwnd")
    (panel,) = drawn.args[0]
    rows = results.series.join(results.flows.select("flow", "start_s", "cc"), on="flow").filter(cc="dctcp", time_s=0.8)
    begun = rows.filter(pl.col("start_s") < 0.8)
    assert 0 < begun.height < 7
    assert panel.frame.filter(pl.col("flow") == "dctcp", time_s=0.8)["cwnd"].item() == begun["cwnd"].mean()
    late = made(tmp_path / "t.duckdb", **table, bottleneck=link, flows=[cubic | {"start": "1s"}])
    with pytest.raises(InputError, match="value: no flow has cwnd in this time"):
        late.plot(value="cwnd", time=("0s", 0.9))


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_too_few_points_of_a_sawtooth_are_said_with_what_draws_it(tmp_path: Path) -> None:
    reno = {"cc": "reno", "base_rtt": "20ms"}
    link: dict[str, Any] = {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 20}}

    def hint(name: str, flow: dict[str, Any], interval: str, **options: Any) -> str | None:
        record = {"interval": interval}
        results = made(tmp_path / name, duration="20s", seeds=[1], flows=[flow], bottleneck=link, record=record)
        return getattr(results.plot("series", **options), "hint", None)

    coarse = hint("a.duckdb", reno, "1s")
    cycle = 20 / dumbbell.open(tmp_path / "a.duckdb").flows["loss_reductions"][0]
    assert 0.3 < cycle < 2
    assert coarse is not None
    found = re.fullmatch(
        r"a point every 1s is too few for a sawtooth of ([0-9.]+)m?s: "
        r"dumbbell run --set record.interval=([0-9]+)ms draws it",
        coarse,
    )
    assert found
    assert float(found[1]) in (pytest.approx(cycle, rel=0.06), pytest.approx(1e3 * cycle, rel=0.06))
    assert cycle / 20 < float(found[2]) / 1e3 <= cycle / 8
    assert hint("b.duckdb", reno, f"{found[2]}ms") is None, "what is proposed is enough"
    assert hint("c.duckdb", reno, "1s", value=["goodput", "signals"]) is None, "sums of an interval have no sawtooth"
    assert hint("d.duckdb", {"cc": "bbr1", "base_rtt": "200ms"}, "100ms") is None, "a point a round trip is enough"
    link["aqm"] = "pfifo"  # of 1000 packets, which BBR never fills
    rounds = hint("e.duckdb", {"cc": "bbr1", "base_rtt": "20ms"}, "1s")
    assert rounds is not None and re.search("for a round trip of .*record.interval=[0-9]+ms", rounds)


def test_results_stand_beside_a_reference(tmp_path: Path, drawn: Drawn) -> None:
    reference = tmp_path / "published.csv"
    head = "table,kind,qdisc,cc1,cc2,rate_mbit,delay_ms,flow,metric,value\n"
    cells = ((10, 4.5), (40, 4))
    lines = [f"1,one-flow,triple-isolate,cubic,,5,{rtt},1,throughput_mbit,{value}\n" for rtt, value in cells]
    reference.write_text(head + "".join(lines))
    table = {"duration": "60s", "flows": [{"cc": "cubic", "base_rtt": "10ms"}], "record": {"series": False}}
    keys = {"flows[0].base_rtt": ["10ms", "40ms"]}
    parsed = experiment.parse(described(**table, bottleneck={"rate": "5Mbit", "aqm": "cake"}, matrix=keys), "r.toml")
    assert sweep.run([parsed], tmp_path / "r.duckdb", progress=False).failed == []
    results = dumbbell.open(tmp_path / "r.duckdb")
    # a publication of throughput answers --value goodput
    assert str(results.plot("lines", value="goodput", reference=reference)) == "lines"
    assert drawn["reference"] == "published" and drawn["y_label"] == "throughput, Mbit/s"
    frame = drawn.frame.sort("delay_ms")
    assert frame["published"].to_list() == [4.5, 4.0]
    assert str(results.plot(value="goodput", reference=reference)) == "heat"
    expected = (frame["simulated"] - frame["published"]) / 5  # errors of goodput are in units of the rate
    assert drawn.frame.sort("delay_ms")["error"].to_list() == pytest.approx((100 * expected).to_list())
    refused: list[dict[str, Any]] = [{"by": "rate"}, {"baseline": "rate=5Mbit"}, {"of": "flows"}]
    for wrong in refused:
        with pytest.raises(InputError, match="which has its own axes"):
            results.plot(reference=reference, **wrong)
    with pytest.raises(InputError, match="kind: bars and reference"):
        results.plot("bars", reference=reference)


def test_several_values_are_panels_or_refused(matrix: Results, drawn: Drawn) -> None:
    for kind in ("lines", "bars", "box"):
        matrix.plot(kind, value=["goodput", "sojourn_p99"], by="aqm")
        assert drawn["each"] == "measure" and drawn.frame["measure"].unique(maintain_order=True).to_list() == [
            _GOODPUT,
            "time in queue, P99, ms",
        ]
        for name, value in ((_GOODPUT, "goodput"), ("time in queue, P99, ms", "sojourn_p99")):
            own = drawn.frame.filter(pl.col("measure") == name)
            column = "value" if kind == "box" else "mean"
            alone = aggregate.compute_means(matrix._runs, value, ["aqm"]).frame
            assert own[column].mean() == pytest.approx(alone["mean"].mean())
            # what is of the whole run is no flow's
            assert set(own["flow"]) == ({"cubic", "reno"} if value == "goodput" else {"whole run"})
    matrix.plot("cdf", value=["sojourn", "rtt"])
    bins = {"time in queue, ms": matrix.sojourn["packets"].sum(), "RTT, ms": matrix.rtt["samples"].sum()}
    assert dict(drawn.frame.group_by(pl.col("measure").cast(pl.String)).agg(pl.col("count").sum()).rows()) == bins
    matrix.plot("cdf", value=["goodput", "rtt_mean_ms"], mean_over="aqm")
    assert drawn["each"] == "measure" and drawn.args[1] == "value" and drawn["weight"] is None
    matrix.plot("lines", value="goodput")
    assert drawn["each"] is None and drawn["y_label"] == _GOODPUT
    for kind in ("heat", "shares"):
        with pytest.raises(
            InputError, match=f"value: 2 measures are too many; one is allowed: kind {kind} shows one, lines"
        ):
            matrix.plot(kind, value=["goodput", "jain"])
    with pytest.raises(InputError, match="sojourn, goodput, of which sojourn are counts of packets"):
        matrix.plot("cdf", value=["sojourn", "goodput"])
    with pytest.raises(InputError, match=f"{_GOODPUT} and {_GOODPUT} cannot be combined"):
        matrix.plot("lines", value=["goodput", "goodput_mbit"])


def test_a_distribution_of_one_class_says_whose_it_is(tmp_path: Path, drawn: Drawn) -> None:
    flows, udp = [{"cc": "cubic", "base_rtt": "20ms"}], [{"rate": "1Mbit"}]
    results = made(tmp_path / "r.duckdb", flows=flows, udp=udp, seeds=[1])
    results.plot("cdf", value=["sojourn", "rtt"])
    rows = drawn.frame.select(pl.col("measure", "which").cast(pl.String)).unique().rows()
    assert set(rows) == {("time in queue, ms", "flows"), ("time in queue, ms", "udp"), ("RTT, ms", "flows")}


def test_a_distribution_of_pings_is_of_every_answer(tmp_path: Path, drawn: Drawn) -> None:
    ping = {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"}
    flows = [{"cc": "cubic", "base_rtt": "20ms"}]
    results = made(tmp_path / "r.duckdb", flows=flows, udp=[ping], seeds=[1])
    results.plot("cdf", value="pings")
    answers = results.flows.filter(cc="ping")["answers"].sum()
    assert drawn.frame["count"].sum() == answers > 0 and drawn["x_label"] == "RTT of pings, ms"
    with pytest.raises(InputError, match=r"pings; did you mean rtt_mean_ms\?.*--where kind=udp keeps pings"):
        results.plot("box", value="pings")


@pytest.mark.slow
def test_queue_disciplines_share_a_panel_in_the_order_of_the_matrix(tmp_path: Path, drawn: Drawn) -> None:
    keys = {"bottleneck.aqm": ["pie", "codel", "pfifo"], "bottleneck.rate": ["20Mbit", "5Mbit"]}
    results = made(tmp_path / "r.duckdb", matrix=keys, seeds=[1])
    results.plot("cdf", by="aqm", mean_over="class")
    assert drawn["by"] == ["aqm"] and drawn["facet"] == ["bottleneck.rate"]
    assert drawn["title"] == "1 run together, over class"
    order = ["pie", "codel", "pfifo"]
    assert drawn.frame.schema["aqm"] == pl.Enum(order)
    for kind, key in (("lines", "bottleneck.aqm"), ("bars", "bottleneck.aqm"), ("box", "bottleneck.aqm")):
        results.plot(kind)
        assert drawn.frame.schema[key] == pl.Enum(order), kind
    results.plot("series", by="aqm", value="sojourn")
    assert drawn.args[0][0].frame.schema["bottleneck.aqm"] == pl.Enum(order)
    assert results.table("goodput", "aqm").frame["aqm"].unique(maintain_order=True).to_list() == order
    assert list(dict.fromkeys(results.tidy()["bottleneck.aqm"])) == order


def test_udp_is_no_flow_of_a_congestion_control(traffic: Results) -> None:
    found = aggregate.compute_means(traffic._runs, "goodput", ["cc"])
    assert found.find_axis("cc").texts == ["cubic", "udp"]
    classes = aggregate.compute_means(traffic._runs, "goodput", of="classes")
    assert classes.find_axis("class").texts == ["20ms, flows", "udp", "5ms, web"]


def test_what_cannot_be_drawn_says_why(matrix: Results, single: Results) -> None:
    with pytest.raises(InputError, match="rows: flow distinguishes parts of a run, but jain is measured per run"):
        matrix.table("jain", "flow")
    with pytest.raises(
        InputError, match=r"slowdown_mean is measured per .*, and these runs have none; give runs with \[\[web\]\]"
    ):
        matrix.table("slowdown")
    with pytest.raises(InputError, match=r"unknown key rtae; did you mean rate\?"):
        matrix.plot(against="rtae")
    with pytest.raises(InputError) as raised:
        matrix.table("rtt", of="runs")
    assert raised.value.nearest != "rtt"
    with pytest.raises(InputError, match="all runs have the same settings"):
        single.plot("lines")


def test_experiments_with_one_and_with_two_flows_share_a_table(tmp_path: Path) -> None:
    made(tmp_path / "r.duckdb")
    table = described(**SHORT, flows=RANDOM[:1])
    sweep.run([experiment.parse(table, "alone.toml")], tmp_path / "r.duckdb", progress=False)
    text = str(dumbbell.open(tmp_path / "r.duckdb").table("goodput"))
    header = text.splitlines()[2]
    assert [part.strip() for part in header.strip("|").split("|")] == ["experiment \\ flow", "cubic", "reno"]


def test_changes_of_rate_are_written_with_units(tmp_path: Path) -> None:
    changes = [[{"at": f"{at}ms", "rate": "1Mbit"}] for at in (50, 100)]
    for change in changes:
        made(tmp_path / "r.duckdb", bottleneck={"rate": "10Mbit", "aqm": "codel", "rate_changes": change})
    (key,) = dumbbell.open(tmp_path / "r.duckdb")._runs.dimensions
    assert key.name == "bottleneck.rate_changes[0].at" and key.ordered == ["50ms", "100ms"]
    made(tmp_path / "r.duckdb", bottleneck={"rate": "10Mbit", "aqm": "codel"})
    (key,) = dumbbell.open(tmp_path / "r.duckdb")._runs.dimensions
    assert set(key.ordered) == {"1Mbit at 50ms", "1Mbit at 100ms", "none"}
    zero = made(tmp_path / "z.duckdb", matrix={"flows[*].base_rtt": ["0ms", "5ms"]})
    assert zero._runs.find_key("flows[*].base_rtt").ordered == ["0ms", "5ms"] and len(zero.where("base_rtt=0")) == 3


@functools.cache
def _of_one_seed(matrix: Results) -> Results:
    return matrix.where("seed=1")


@functools.cache
def _usual(chosen: Results, kind: str) -> bytes:
    return chosen.plot(kind)._repr_png_()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "refused"),
    [
        ("lines", {"log_y": True}, None),
        ("lines", {"log_x": True}, None),
        ("bars", {"log_y": True}, None),
        ("bars", {"log_x": True}, "log_x: the axis has no numbers to scale"),
        ("box", {"log_y": True}, None),
        ("cdf", {"log_x": False}, None),
        ("ccdf", {"log_y": False}, "log_y: the axis is logarithmic for this kind"),
        ("heat", {"log_x": True}, "log_x: the axis has no numbers to scale"),
        ("series", {"log_x": True}, "log_x: the axis has no numbers to scale"),
        ("shares", {"log_y": True}, "log_y: the axis has no numbers"),
        *((kind, {"width": 6.0}, None) for kind in ("lines", "bars", "box", "cdf", "heat", "series", "shares")),
        *((kind, {"font_size": 10.0}, None) for kind in ("lines", "bars", "box", "cdf", "heat", "series", "shares")),
        *((kind, {"title": "Mine"}, None) for kind in ("lines", "bars", "box", "cdf", "heat", "series", "shares")),
        ("lines", {"height": 5.0}, None),
    ],
)
def test_an_option_changes_the_figure_or_is_refused(
    matrix: Results, kind: str, options: dict[str, Any], refused: str | None
) -> None:
    chosen = _of_one_seed(matrix) if kind == "series" else matrix
    if refused:
        with pytest.raises(InputError, match=refused):
            chosen.plot(kind, **options)
        return
    drawn = chosen.plot(kind, **options)
    assert drawn._repr_png_() != _usual(chosen, kind)
    if "width" in options:
        assert abs(drawn.get_size_inches()[0] - 6) < 0.06
    if "title" in options:
        written = [text.get_text() for text in drawn.texts]
        assert ("Mine" in written) == (options["title"] == "Mine")


@pytest.mark.slow
def test_a_title_is_that_of_the_experiment_with_what_is_drawn_below(tmp_path: Path) -> None:
    titled = made(tmp_path / "r.duckdb", title="Two queues", matrix=MATRIX)
    subject, _, setting = (titled.plot("lines").around.title or "").partition("\n")
    assert subject == "Two queues" and re.fullmatch(
        r"Goodput, .*: [\d.]+ \(.*; mean and 95 % interval over .*", setting
    )
    assert (titled.plot("lines", title="Mine").around.title or "").startswith("Mine\nmean and")
    assert titled.plot("lines", title="").around.title is None
    # what was chosen is said, a seed once
    condition = "bottleneck.rate=5Mbit, bottleneck.aqm=codel"
    chosen = titled.where(*condition.split(", "))
    assert (chosen.plot("bars").around.title or "").startswith(f"Two queues\n{condition}; Goodput")
    for own, seed in ((chosen, "1 of 3"), (chosen.where("seed=2"), "2")):
        assert re.fullmatch(
            f"Two queues\n{re.escape(condition)}; Mean goodput: .*; seed {seed}", own.plot("series").around.title or ""
        )
    assert condition not in (chosen.plot("bars", title="Mine").around.title or "")
    without = made(tmp_path / "s.duckdb", matrix=MATRIX)
    assert (without.plot("lines").around.title or "").startswith("Goodput")


def test_goodput_above_the_rate_is_explained(tmp_path: Path, drawn: Drawn) -> None:
    table = {
        "duration": "5s",
        "seeds": [1],
        "flows": [{"cc": "cubic", "base_rtt": "40ms"}],
        "record": {"interval": "50ms"},
    }
    lossy = dumbbell.run(
        described(**table, bottleneck={"rate": "20Mbit", "aqm": "codel"}), output=tmp_path / "r.duckdb"
    )
    assert max(lossy.series["goodput_mbit"].drop_nulls()) > 20.5  # a hole that is filled frees what waited behind it
    lossy.plot("series", value="goodput")
    assert "a retransmission released data" in drawn["title"]
    lossy.plot("series", value="cwnd")
    assert drawn["title"] is None
