"""Conditions and means over keys: in every command and figure each changes the rows that are used, or is refused.

How figures are drawn is in test_figures.py; here each function of `dumbbell.figures` notes what it is given.
"""

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import Command, described
from dumbbell import Results, experiment, figures, plotting
from dumbbell._native import Cancel, Progress
from dumbbell._native import run as simulate
from dumbbell.cli import study as studies
from dumbbell.cli.commands import TOP_LEVEL, load_command
from dumbbell.cli.evaluate_results import judge_results
from dumbbell.cli.validate import validate
from dumbbell.engines import sweep
from dumbbell.errors import Conflict, InputError
from dumbbell.experiment import registry, switches
from dumbbell.figures import Series
from dumbbell.figures.frames import Groups
from dumbbell.results import aggregate, selecting, tables
from dumbbell.results.dimensions import NOTHING

SHORT = {"duration": "400ms", "seeds": [1, 2], "record": {"interval": "100ms"}}
START = {"uniform": ["0s", "50ms"]}
RENO = {"cc": "reno", "base_rtt": "20ms", "start": START, "count": 2}
MIXED = SHORT | {
    "flows": [
        RENO,
        {"cc": {"name": "cubic", "abe": True}, "base_rtt": "40ms"},
    ],
    "web": [
        {"cc": "cubic", "base_rtt": "5ms", "arrivals": "200/s", "size": "3kB"},
        {"cc": "reno", "base_rtt": "40ms", "arrivals": "100/s", "size": "3kB"},
    ],
    "udp": [{"rate": "1Mbit"}],
    "matrix": {"bottleneck.rate": ["10Mbit", "5Mbit", "20Mbit"], "bottleneck.aqm": ["pfifo", "codel"]},
}


def stored(path: Path, name: str, table: dict[str, Any]) -> Results:
    assert sweep.run([experiment.parse(table, f"{name}.toml")], path, progress=False).failed == []
    return dumbbell.open(path)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return flows of two congestion controls and RTTs, short flows and UDP, over rates and queue disciplines."""
    return stored(tmp_path_factory.mktemp("mixed") / "r.duckdb", "mixed", described(**MIXED))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return two experiments that vary different keys: Reno with and without ABE, and DualPI2's coupling factor."""
    path = tmp_path_factory.mktemp("two") / "r.duckdb"
    betas = [{"name": "reno", "abe": True, "beta_ecn": beta} for beta in (0.9, 0.7)]
    flow = {"cc": "cubic", "base_rtt": "20ms", "start": START}
    aqm = {"rate": "10Mbit", "aqm": {"name": "codel", "ecn": True}}
    stored(path, "beta", described(**SHORT, bottleneck=aqm, flows=[flow], matrix={"flows[0].cc": [*betas, "reno"]}))
    factors = {"bottleneck.aqm.coupling_factor": [1, 2, 4]}
    dualpi2 = {"rate": "10Mbit", "aqm": "dualpi2"}
    return stored(
        path, "k", described(**SHORT, bottleneck=dualpi2, flows=[flow, flow | {"cc": "prague"}], matrix=factors)
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return a file that has a session of `dumbbell shell` only: two runs without what only a sender knows."""
    path = tmp_path_factory.mktemp("session") / "r.duckdb"
    matrix = {"bottleneck.rate": ["10Mbit", "2Mbit"]}
    stored(path, "dsl", described(**SHORT | {"seeds": [1], "flows": [RENO], "matrix": matrix}))
    with duckdb.connect(str(path)) as connection:
        for key, config in connection.execute("SELECT key, config FROM runs ORDER BY number").fetchall():
            groups = json.loads(config)
            way = "up" if groups["bottleneck"]["rate"] == 2_000_000 else "down"
            told = {"direction": way, "command": "curl", "servers": [], "started": "now"}
            of_matrix = json.dumps({"shell.direction": way, "shell.command": "curl", "shell.started": "now"})
            values = [json.dumps(groups | {"shell": told}), of_matrix, key]
            connection.execute("UPDATE runs SET config = ?, matrix = ? WHERE key = ?", values)
        connection.execute("UPDATE flows SET cc = 'tcp'")
        connection.execute("UPDATE classes SET cc = 'tcp'")
        for column in ("srtt_ms", "cwnd", "ssthresh", "in_flight", "retransmissions"):
            connection.execute(f"ALTER TABLE series DROP COLUMN {column}")
        connection.execute("DELETE FROM rtt")
    return dumbbell.open(path)


# what a command or a figure uses

Used = list[tuple[Any, ...]]
DRAWN = ("lines", "bars", "box", "dots", "cdf", "heat", "ellipses", "forest", "stacked_series", "shares")


def rows_of(thing: Any) -> Used:
    """Return the rows of frames as texts, in one order."""
    if isinstance(thing, Series):
        thing = thing.frame.select("time_s", thing.y, *([thing.by] if isinstance(thing.by, str) else thing.by or []))
    if isinstance(thing, pl.DataFrame):
        return sorted(tuple(map(str, row)) for row in thing.rows())
    return [row for one in thing for row in rows_of(one)] if isinstance(thing, list | tuple) else []


@pytest.fixture(autouse=True)
def _drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for kind in DRAWN:
        monkeypatch.setattr(figures, kind, Given)
    yield


class Given:
    """What a function of `dumbbell.figures` was given, in the place of its figure."""

    panels: ClassVar[dict[Any, Any]] = {}
    source = None
    around = SimpleNamespace(title=None)

    def __init__(self, *args: Any, **options: Any) -> None:
        self.args, self.options = args, options

    def set_title(self, _: str | None) -> "Given":
        return self


def given(*args: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return the first argument and the options that the function of `dumbbell.figures` for a plot was given."""
    noted: Any = args[0].plot(*args[1:], **options)
    return noted.args[0], noted.options


def plot(kind: str, **fixed: Any) -> Callable[..., Used]:
    return lambda results, **options: rows_of(given(results, kind, **fixed | options)[0])


def table(value: str, **fixed: Any) -> Callable[..., Used]:
    return lambda results, **options: rows_of(results.table(value, **fixed | options).frame)


def no_means(use: Callable[[Results], Any]) -> Callable[..., Used]:
    """Return a use that has no --mean-over: its command refuses the option."""

    def used(results: Results, **options: Any) -> Used:
        if options:
            raise Conflict("--mean-over", "nothing: the command has no such option")
        return rows_of(use(results))

    return used


def frame(name: str) -> Callable[..., Used]:
    return no_means(lambda results: results.frame(name))


USES: dict[str, Callable[..., Used]] = {
    "table goodput": table("goodput"),
    "table of classes": table("goodput", of="classes"),
    "table jain": table("jain"),
    "table slowdown": table("slowdown"),
    "table --format raw": no_means(lambda r: tables.tidy(r._runs, ["goodput"])),
    "table --format raw of runs": no_means(lambda r: tables.tidy(r._runs, ["jain"])),
    "table --format csv": lambda r, **options: rows_of(r.table("goodput", **options).plain),
    "diff": no_means(lambda r: r.diff(by="bottleneck.aqm").frame.drop("pair")),
    "diff jain": no_means(lambda r: r.diff(by="bottleneck.aqm", values=["jain"]).frame.drop("pair")),
    "sql": no_means(lambda r: r.sql("SELECT key, class, kind, goodput_mbit FROM classes")),
    "sql of flows": no_means(lambda r: r.sql("SELECT key, flow, cc, goodput_mbit FROM flows")),
    "tidy": no_means(lambda r: r.tidy()),
    **{f"frame {name}": frame(name) for name in ("flows", "classes", "sojourn", "rtt")},
    **{f"frame {name}": frame(name) for name in ("short_flows", "slowdowns", "series")},
    **{kind: plot(kind) for kind in ("lines", "bars", "box", "heat", "ellipses", "series")},
    "lines jain": plot("lines", value="jain"),
    **{f"{kind} of values": plot(kind, value=["goodput", "sojourn_p99"]) for kind in ("lines", "bars", "box", "cdf")},
    "ccdf of bins": plot("ccdf", value=["sojourn", "rtt"]),
    "box of classes": plot("box", value="goodput", of="classes"),
    **{f"cdf {value}": plot("cdf", value=value) for value in ("sojourn", "rtt", "slowdown", "goodput")},
    "ccdf": plot("ccdf"),
    "heat goodput": plot("heat", value="goodput"),
    "ratio": plot("ratio", value="goodput", baseline="rate=10Mbit"),
    "lines from a baseline": plot("lines", value="goodput", baseline="rate=10Mbit"),
    "ellipses of values": plot("ellipses", value=["sojourn", "goodput"]),
    "ellipses of classes": plot("ellipses", of="classes"),
    "series goodput": plot("series", value="goodput"),
    "series sojourn": plot("series", value="sojourn"),
    "series goodput, sojourn": plot("series", value=["goodput", "sojourn"]),
    "differences": plot("differences", baseline="rate=10Mbit"),
    "differences of goodput": plot("differences", value="goodput", baseline="rate=10Mbit"),
    "shares": plot("shares"),
    "shares against": plot("shares", against="rate"),
    "felt": plot("felt"),
}
CONDITIONS = [
    *("cc=reno", "cc=udp", "cc.name=cubic", "base_rtt=40000us", "flow=reno", "flow=0", "class=web", "kind=flows"),
    *("rate=5Mbit", "aqm=pfifo", "seed=2"),
]
# of tables whose rows all meet a condition: RTTs and short flows are of one kind
MET = {("rtt", "kind=flows"), ("slowdown", "class=web"), ("short_flows", "class=web"), ("slowdowns", "class=web")}
OVER = ["bottleneck.rate", "aqm", "flow", "class", "kind", "cc", "base_rtt", "seed", "nothing"]


@functools.cache
def _kept(results: Results, conditions: tuple[str, ...]) -> Results:
    return results.where(*conditions)


def outcome(use: Callable[..., Used], results: Results, conditions: tuple[str, ...] = (), **options: Any) -> Used | str:
    """Return the rows that are used, or the one line that refuses."""
    try:
        return use(_kept(results, conditions), **options)
    except InputError as error:
        assert "\n" not in str(error) and error.found and type(error) is not InputError
        return str(error)


@pytest.mark.parametrize("name", USES)
def test_each_condition_changes_the_rows_that_are_used_or_is_refused(name: str, mixed: Results) -> None:
    whole = outcome(USES[name], mixed)
    assert whole and not isinstance(whole, str), f"{name}: {whole}"
    refused = 0
    for condition in CONDITIONS:
        some = outcome(USES[name], mixed, (condition,))
        if (name.split()[-1], condition) in MET:
            assert some == whole
            continue
        assert some != whole, f"{name} --where {condition} changes nothing"
        refused += isinstance(some, str)
    assert refused < len(CONDITIONS), name


@pytest.mark.parametrize("name", USES)
def test_each_mean_changes_the_rows_that_are_used_or_is_refused(name: str, mixed: Results) -> None:
    whole = outcome(USES[name], mixed)
    for key in OVER:
        some = outcome(USES[name], mixed, mean_over=[key])
        assert some != whole, f"{name} --mean-over {key} changes nothing"
        assert isinstance(some, str) or key not in ("seed", "nothing"), f"{name} --mean-over {key}"


def test_every_command_with_conditions_is_here() -> None:
    functions = {name: found for name in TOP_LEVEL if inspect.isfunction(found := load_command(name))}
    taking = {name for name, one in functions.items() if "where" in inspect.signature(one).parameters}
    of_results = {"table", "plot", "report", "diff", "validate", "export"}
    assert taking == of_results | {"explain", "watch", "trace", "play"}
    of_studies = (studies.tables, studies.figure, judge_results)
    assert all("where" in inspect.signature(one).parameters for one in of_studies)
    kinds = set(plotting.KINDS) - {"front"}  # of a search, whose candidates are no runs
    assert {kind for kind in kinds if any(name.split()[0] == kind for name in USES)} == kinds


@pytest.mark.parametrize("wanted", [{"of": "classes"}, {"value": "goodput"}, {"against": "rate"}, {"by": "aqm"}])
def test_what_is_felt_has_measures_and_panels_of_its_own(mixed: Results, wanted: dict[str, Any]) -> None:
    (asked_for,) = wanted.values()
    with pytest.raises(Conflict, match=f"{asked_for} and kind felt, which has measures of its own"):
        mixed.plot("felt", **wanted)


def test_a_reference_is_held_against_whole_runs(mixed: Results, tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_text("cc1,rate_mbit,delay_ms,metric,value\nreno,10,20,rtt_ms,22\n")
    with pytest.raises(InputError, match="where: cc=reno selects parts of runs, but published results"):
        mixed.where("cc=reno").plot(reference=path)
    with pytest.raises(InputError, match="but validate compares whole runs"):
        validate(str(mixed.path), str(path), ["cc=reno"], None)


def test_an_export_writes_the_runs_that_are_chosen(mixed: Results, tmp_path: Path, command: Command) -> None:
    done = command("export", mixed.path, "-o", "some", "--where", "rate=5Mbit")
    assert done.returncode == 0, done.stderr
    kept = set(mixed.where("rate=5Mbit").keys)
    assert kept < set(mixed.keys)
    for name in ("runs", "flows", "series"):
        assert set(pl.read_csv(tmp_path / "some" / f"{name}.csv")["key"]) == kept, name
    part = command("export", mixed.path, "-o", "parts", "--where", "cc=reno")
    assert (part.returncode, len(part.stderr.splitlines())) == (2, 1) and "export writes whole runs" in part.stderr
    assert not (tmp_path / "parts").exists()


def test_what_is_kept_is_what_is_named(mixed: Results) -> None:
    def kept(condition: str) -> tuple[set[Any], set[Any], set[Any]]:
        found = mixed.where(condition)
        return set(found.flows["flow"]), set(found.classes["kind"]), set(found.short_flows["class"])

    assert kept("cc=udp") == ({3}, {"udp"}, set())
    assert kept("cc=reno") == ({0, 1}, {"flows", "web"}, {4})
    assert kept("cc=cubic") == (set(), {"web"}, {3}), "as it is shown: without ABE"
    assert kept("cc.name=cubic") == ({2}, {"flows", "web"}, {3})
    assert kept("class=web") == (set(), {"web"}, {3, 4})
    assert kept("base_rtt=40ms") == ({2}, {"flows", "web"}, {4})
    assert mixed.where("cc=reno", "rate=5Mbit").series["flow"].unique().to_list() == [0, 1]
    assert len(mixed.where("cc=reno", "rate=5Mbit")) == 4
    assert set(mixed.where("class=udp").sojourn["class"]) == set(mixed.where("class=udp").classes["class"])
    with pytest.raises(InputError, match="flow=0 selects some flows of a class, but sojourn lists whole classes"):
        mixed.where("flow=0").frame("sojourn")


@pytest.mark.parametrize(
    ("condition", "classes"),
    [
        ("cc=udp", [2]),
        ("class=web", [3, 4]),
        ("cc=reno", [0, 4]),
        ("flow=cubic(abe=true)", [1]),
        ("base_rtt=40ms", [1, 4]),
    ],
)
def test_a_distribution_is_of_what_is_kept(mixed: Results, condition: str, classes: list[int]) -> None:
    for value, rows, weight in (("sojourn", mixed.sojourn, "packets"), ("rtt", mixed.rtt, "samples")):
        wanted = rows.filter(pl.col("class").is_in(classes))[weight].sum()
        if wanted:
            frame, _ = given(mixed.where(condition), "cdf", value=value)
            assert frame["count"].sum() == wanted
        else:
            with pytest.raises(InputError, match=r"found no rows with .* in table rtt; give other flows or classes"):
                given(mixed.where(condition), "cdf", value=value)


@pytest.mark.parametrize(("key", "of"), [("flow", "flows"), ("class", "classes"), ("cc", "flows"), ("kind", "classes")])
def test_what_a_table_prints_is_a_value(mixed: Results, key: str, of: str) -> None:
    found = aggregate.compute_means(mixed._runs, "goodput", [key], of=of)
    assert len(found.find_axis(key).texts) > 1
    for text in found.find_axis(key).texts:
        own = found.frame.filter(pl.col(key) == text).drop(key)["mean"].to_list()
        again = aggregate.compute_means(mixed.where(f"{key}={text}")._runs, "goodput", [key], of=of).frame
        assert again[key].unique().to_list() == [text] and again["mean"].to_list() == pytest.approx(own)


def test_unknown_names_are_answered_with_the_nearest(mixed: Results) -> None:
    for text, message in (
        ("class=upd", r"class: unknown value upd; did you mean udp\?"),
        ("cc=cubik", r"cc: unknown value cubik; did you mean cubic\?"),
        ("rate=7Mbit", "rate: unknown value 7Mbit; .*hoose from 5Mbit, 10Mbit, 20Mbit"),
        ("base_rtt=7", "base_rtt: unknown value 7; .*40ms"),
        ("cc={abe=1}", "is 1; it must be true or false"),
        ("cc={abel=true}", r"unknown key cc.abel; did you mean abe\?"),
        ("from_bytes=7", "from_bytes: unknown value 7; the only one is 2000"),
        ("aqm=codle", r"unknown value codle; did you mean codel\?"),
    ):
        with pytest.raises(InputError, match=message):
            mixed.where(text).table("slowdown")
    with pytest.raises(
        InputError, match=r"unknown measure sojourn_p90; did you mean sojourn_p.*Choose from sojourn_p"
    ) as error:
        mixed.table("sojourn_p90")
    assert str(error.value).count(",") < 15 and str(error.value).endswith("in all)")


def test_commas_in_quotes_and_brackets_separate_nothing() -> None:
    assert selecting.split_values("a, b(c=1, d=2),{e=[1,2],f=3}, 'g, h'") == [
        "a",
        "b(c=1, d=2)",
        "{e=[1,2],f=3}",
        "'g, h'",
    ]
    assert selecting.strip_quotes("'g, h'") == "g, h"


def test_a_value_is_a_label_a_name_a_table_or_a_list(two: Results) -> None:
    beta = two.where("experiment=beta")
    for text, runs in (
        ("flows[0].cc=reno", 2),
        ('flows[0].cc="reno"', 2),
        ("flows[0].cc.name=reno", 6),
        ("cc.name=reno", 6),
        ("flows[0].cc=reno(abe=true, beta_ecn=0.7)", 2),
        ("cc=reno(abe=true,beta_ecn=0.7)", 2),
        ("cc=reno,reno(abe=true, beta_ecn=0.7)", 4),
        ('flows[0].cc={name="reno",abe=true}', 4),
        ('flows[0].cc={name="reno",abe=true,beta_ecn=0.7}', 2),
        ("cc={abe=false}", 2),
        ("flows[0].cc.abe=true", 4),
        ("beta_ecn=0.7,0.9", 4),
        ("beta_ecn=-", 2),
    ):
        assert len(beta.where(text)) == runs, text
    with pytest.raises(InputError, match=r"no run has .*cc=reno and flows\[0\].cc.abe=true"):
        beta.where("cc=reno", "flows[0].cc.abe=true")


# keys that another key switches off


def test_what_is_switched_off_has_no_value(two: Results) -> None:
    beta = two.where("experiment=beta")
    found = aggregate.compute_means(beta._runs, "goodput", ["beta_ecn"])
    assert found.find_axis("beta_ecn").texts == ["0.7", "0.9", NOTHING]
    assert beta._runs.find_key("beta_ecn").is_numeric and found.find_axis("beta_ecn").numbers == {
        "0.7": 0.7,
        "0.9": 0.9,
    }
    frame, _ = given(beta, against="beta_ecn")
    assert sorted(frame["beta_ecn as a number"]) == [0.7, 0.9]
    with pytest.raises(InputError, match=r"no run has beta_ecn=0\.8; give 0\.7, 0\.9; it counts only with abe=true"):
        beta.where("beta_ecn=0.8")
    with pytest.raises(InputError, match="against: beta_ecn has no value in these runs"):
        beta.where("cc=reno").plot(against="beta_ecn")
    assert beta.tidy().columns.count("flows[0].cc") == 1


def test_runs_that_differ_only_in_what_is_not_used_are_told_apart(tmp_path: Path) -> None:
    flows = [{"cc": {"name": "cubic", "hystart": "off"}, "base_rtt": "20ms", "start": START}]
    keys = {"flows[0].cc.hystart_low_window": [7, 9]}
    results = stored(tmp_path / "r.duckdb", "unused", described(**SHORT, flows=flows, matrix=keys))
    assert results._runs.dimensions[0].ordered == ["7 (not used)", "9 (not used)"]
    assert set(aggregate.compute_means(results._runs, "goodput").frame["n"]) == {2}


def place_of(name: str) -> str:
    known = registry.read_registry()
    return "aqm" if name in known.aqm else "cc" if name in known.cc else name


def switched_off() -> list[tuple[str, str]]:
    """Return the tables and keys of all parameters with a switch; a version of an algorithm may lack one."""
    known = registry.read_registry()
    sections = {name: known.sections[name] for name in switches.NEEDS if name in known.sections}
    algorithms = {name: one.params for name, one in [*known.aqm.items(), *known.cc.items()]}
    params = algorithms | sections
    return [(name, key) for name, keys in switches.NEEDS.items() for key in keys if key in params[name]]


def test_a_limit_is_of_bytes_or_packets_as_its_queue_has_it(tmp_path: Path) -> None:
    table = described() | {
        "matrix": {"bottleneck.aqm": [{"name": "bfifo", "limit": "25kB"}]},
        "duration": "100ms",
        "seeds": [1],
    }
    table["matrix"]["bottleneck.aqm.limit"] = ["25kB", "400kB"]
    results = dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False)
    for text in ("400kB", "400000B", "400000"):
        assert results.where(f"bottleneck.aqm.limit={text}").runs.height == 1, text
    with pytest.raises(InputError, match="a time; it must be a size such as"):
        results.where("bottleneck.aqm.limit=4ms")


@pytest.mark.junk
@pytest.mark.parametrize(("name", "key"), switched_off())
def test_what_is_switched_off_does_nothing(name: str, key: str) -> None:
    """Two values of a parameter make the same run without its switch."""
    known, switch = registry.read_registry(), switches.NEEDS[name][key]
    place = place_of(name)
    param = {**known.aqm, **known.cc}[name].params.get(key) if place in ("aqm", "cc") else known.sections[name][key]
    assert param is not None
    algorithm = {"name": name} if place in ("aqm", "cc") else {}
    table = described(duration="2s", flows=[{"cc": "dctcp", "base_rtt": "5ms"}, {"cc": "cubic", "base_rtt": "5ms"}])
    table["bottleneck"]["aqm"] = algorithm if place == "aqm" else {"name": "codel", "ecn": True}
    holder = {"aqm": algorithm, "cc": algorithm}.get(place) if place in ("aqm", "cc") else table.setdefault(name, {})
    assert holder is not None
    if place == "cc":
        table["flows"][1]["cc"] = algorithm
    values = {"rates": ["1kB"]}.get(key) or others(param)
    without(holder, switch)
    hashes = set()
    for value in values:
        try:
            cell = experiment.parse(table | {}, "off.toml", {f"{path_of(place, name)}.{key}": value}).make_cell(0)
        except InputError as error:  # it may not even be set
            assert str(switch.key) in str(error)
            return
        hashes.add(simulate(cell.config, Cancel(), Progress()).hash)
    assert len(hashes) == 1, f"{name}.{key} counts without {switch}"


def path_of(place: str, name: str) -> str:
    return {"aqm": "bottleneck.aqm", "cc": "flows[1].cc"}.get(place, name)


def others(param: registry.Param) -> list[Any]:
    """Return two values of a parameter, as a file has them."""
    match param.kind:
        case "bool":
            return [False, True]
        case "choice":
            return list(param.choices[:2])
        case "float":
            return [0.3, 0.6]
        case "time":
            return ["3ms", "50ms"]
        case _ if param.unit == "bytes":
            return ["2kB", "9kB"]
        case _:
            return [2, 4] if param.max is None or param.max >= 4 else [1, 2]


def without(holder: dict[str, Any], switch: switches.Switch) -> None:
    """Set a switch to what turns off what needs it."""
    if not switch.values:
        return  # not set
    if True in switch.values:
        holder[switch.key] = False
    else:
        off = {"hystart": "off", "mode": "window", "sce": "on", "shaper": "link", "scheduler": "wrr-packets"}[
            switch.key
        ]
        holder[switch.key] = "credit" if off in switch.values else off


# the baseline


def test_the_baseline_is_drawn_along_an_axis_and_is_no_line(two: Results, mixed: Results) -> None:
    factors = two.where("experiment=k")
    frame, _ = given(factors, baseline="coupling_factor=2")
    x = next(name for name in frame.columns if name.endswith("as a number"))
    assert sorted(frame[x].unique()) == [1, 2, 4]
    own = frame.filter(pl.col(x) == 2)
    assert set(own["mean"]) == {0.0} and set(own["half"]) == {0.0}
    frame, _ = given(factors, "ratio", value="goodput", baseline="coupling_factor=2")
    assert set(frame.filter(pl.col("coupling_factor").cast(str) == "2")["mean"]) == {1.0}
    frame, options = given(mixed, "lines", baseline="aqm=pfifo", against="rate")
    assert "aqm" not in (options["by"] or []) and frame["aqm"].unique().to_list() == ["codel"]


def test_a_baseline_has_the_name_that_is_asked_for(two: Results) -> None:
    beta = two.where("experiment=beta")
    by_name, _ = given(beta, "bars", baseline="flows[0].cc=reno", by="cc")
    by_cc, _ = given(beta, "bars", baseline="cc=reno", by="cc")
    assert by_name["mean"].to_list() == by_cc["mean"].to_list() and by_name["cc"].to_list() == by_cc["cc"].to_list()


def test_a_baseline_may_be_a_flow(mixed: Results) -> None:
    for key, option in (("flow", {}), ("cc", {"by": "cc"})):
        frame, _ = given(mixed, "bars", value="goodput", baseline=f"{key}=reno", against="rate", facet="aqm", **option)
        assert set(map(str, frame["which" if key == "flow" else key])) == {"udp", "cubic(abe=true)"}


# order, and keys that are given twice


def test_values_have_the_order_of_the_file(mixed: Results) -> None:
    assert mixed._runs.find_key("bottleneck.aqm").ordered == ["pfifo", "codel"]
    assert mixed._runs.find_key("bottleneck.rate").ordered == ["5Mbit", "10Mbit", "20Mbit"], "numbers ascend"
    assert mixed.where("aqm=codel,pfifo")._runs.find_key("aqm").ordered == ["pfifo", "codel"]
    assert aggregate.compute_means(mixed._runs, "goodput").find_axis("flow").texts == ["reno", "cubic(abe=true)", "udp"]
    assert aggregate.compute_means(mixed._runs, "goodput", of="classes").find_axis("class").texts[0].startswith("reno")
    frame, _ = given(mixed, "bars", against="aqm")
    assert frame.schema["aqm"] == pl.Enum(["pfifo", "codel"])


def test_experiments_have_the_order_in_which_they_were_run(tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    plans = [experiment.parse(described(**SHORT, title=name), f"{name}.toml") for name in ("reno", "cubic", "bbr3")]
    assert sweep.run(plans[:2], path, progress=False).failed == []
    assert sweep.run([dataclasses.replace(plans[2], seeds=(3,))], path, progress=False).failed == []
    assert dumbbell.open(path)._runs.find_key("experiment").ordered[:1] == ["reno"]


@pytest.mark.parametrize(
    "use",
    [
        lambda r: r.table("goodput", ["cc", "cc"]),
        lambda r: r.table("goodput", "cc", "cc"),
        lambda r: r.table("goodput", "rate", "bottleneck.rate"),
        lambda r: r.table("goodput", "rate", mean_over=["rate"]),
        lambda r: r.table("goodput", "rate", mean_over=["bottleneck.rate"]),
        lambda r: r.table("goodput", "flow", mean_over=["flow"]),
        lambda r: r.plot(against="cc", by="cc"),
        lambda r: r.plot(against="rate", by="rate", facet="rate"),
        lambda r: r.plot("cdf", against="rate"),
        lambda r: r.plot("series", against="rate"),
        lambda r: r.plot("series", by="bottleneck.rte"),
        lambda r: r.plot("ellipses", value=["jain", "rtt_p99"]),
    ],
)
def test_keys_in_two_places_and_without_a_place_are_refused(use: Callable[[Results], Any], mixed: Results) -> None:
    with pytest.raises(InputError):
        use(mixed)


def test_experiments_that_vary_different_keys_want_a_choice(two: Results) -> None:
    with pytest.raises(InputError, match=r"the experiments vary different keys: beta \(.*; k \(.*where experiment="):
        two.plot()
    assert given(two.where("experiment=k"))
    assert NOTHING in two.table("goodput").to_markdown()


@pytest.mark.slow
def test_each_of_unlike_experiments_has_a_figure_of_its_own(
    two: Results, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # these are drawn
    done = command("plot", two.path, "-o", "all.png")
    assert done.returncode == 0 and done.stderr.split()[:2] == ["all-beta.png", "all-k.png"]
    for name in ("beta", "k"):
        assert command("plot", two.path, "-o", "one.png", "--where", f"experiment={name}").returncode == 0
        assert (tmp_path / "one.png").read_bytes() == (tmp_path / f"all-{name}.png").read_bytes()
    assert command("plot", two.path, "-o", "keys.png", "--by", "experiment").returncode == 0
    assert (tmp_path / "keys.png").exists()
    # what can be drawn is drawn, and what cannot says why
    some = command("plot", two.path, "-o", "some.png", "--kind", "ratio", "--baseline", "coupling_factor=2")
    assert some.returncode == 2 and "Traceback" not in some.stderr
    lines = some.stderr.splitlines()
    assert lines[-1].startswith("--where experiment=") and not (tmp_path / "some.png").exists()


def test_a_long_table_is_cut_where_it_is_asked_for(mixed: Results) -> None:
    found = mixed.table("goodput", ["rate", "aqm", "flow"], limit=4)
    assert len(found.cells) == 4 and found.frame.height == 24 and "4 of 24 rows" in found.to_markdown()
    assert "rows;" not in mixed.table("goodput").to_markdown()


def test_a_note_names_what_has_no_value(mixed: Results) -> None:
    _, options = given(mixed, "bars", value="rtt", against="rate")
    assert options["title"] == "mean and range of 2 seeds; no value of udp"


# sessions


def test_a_session_shows_what_its_link_did(session: Results) -> None:
    assert session._runs.choose_measures() == ["runs.throughput_mbit", "runs.sojourn_mean_ms"]
    found = session.table()
    assert "throughput, Mbit/s, of each run" in found.title and [row[0] for row in found.cells] == ["down", "up"]
    panels, options = given(session)
    assert [panel.y_label for panel in panels][:2] == ["throughput, Mbit/s", "time in queue, mean, ms"]
    assert options["columns"] is None or options["columns"] == "shell.direction"


@pytest.mark.parametrize("value", [(), "goodput", ["goodput", "sojourn"]])
def test_a_session_has_a_time_series(session: Results, value: Any) -> None:
    panels, _ = given(session.where("shell.direction=down"), "series", value=value)
    assert panels and all(panel.frame.height for panel in panels)
    with pytest.raises(InputError, match="value: no cwnd in these runs"):
        session.plot("series", value="cwnd")


def test_one_line_says_what_the_link_carries(tmp_path: Path) -> None:
    changes = {"rate": "10Mbit", "aqm": "codel", "rate_changes": [{"at": "200ms", "rate": "2Mbit"}]}
    keys = {"bottleneck.aqm": ["pfifo", "codel", "pie", "red", "pi2"]}
    results = stored(tmp_path / "r.duckdb", "cell", described(**SHORT, bottleneck=changes, matrix=keys))
    panels, _ = given(results, "series", value="throughput", by="aqm")
    groups = panels[0].frame.select(panels[0].by).unique()
    assert groups.height == 6 and groups.filter(pl.col("link") == "capacity").height == 1
    # a run has the same line in every panel: of all of them there are as many as runs, and the capacity
    panels, options = given(results, "series", value=["throughput", "sojourn", "signals"], by="aqm")
    assert options["columns"] is None
    labels = [label for panel in panels for label in Groups.from_frame(panel.frame, panel.by).labels]
    assert len(set(labels)) == 6 and "capacity" in labels


def test_sql_says_what_it_leaves_out(mixed: Results, tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    path.write_bytes(mixed.path.read_bytes())
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE runs SET engine_version = 'old' WHERE seed = 2")
    with pytest.warns(UserWarning, match="sql sees 6 runs; left out: 6 runs of engine old"):
        assert dumbbell.open(path).sql("SELECT count(*) AS n FROM runs")["n"].item() == 6
    both = mixed.sql("SELECT * FROM flows JOIN runs ON flows.key = runs.key LIMIT 1")
    assert {"key", "key_1"} <= set(both.columns)


def test_diff_says_why_means_and_changes_differ() -> None:
    from dumbbell.results.diff import compare_rows

    def side(values: list[tuple[float, ...]]) -> pl.DataFrame:
        rows = [
            (cell, f"cell {cell}", "runs", "retransmissions", "", seed, f"{cell} {seed}", value)
            for cell, both in enumerate(values)
            for seed, value in enumerate(both)
        ]
        names = ["pair", "where", "table", "measure", "part", "seed", "hash", "value"]
        return pl.DataFrame(rows, schema=names, orient="row")

    # one large value rises by 10 %, two small ones fall by half
    noise = (0, 0.01, -0.01, 0.02, -0.02)

    def cell(mean: float) -> tuple[float, ...]:
        return tuple(mean * (1 + one) for one in noise)

    first, second = side([cell(1000), cell(10), cell(10)]), side([cell(1100), cell(5), cell(5)])
    text = compare_rows(first, second, ("A", "B")).to_markdown()
    assert "| rises in 1 cell, falls in 2 |" in text and "other way" not in text
    # it rises, but that is not sure
    vague = tuple(1100 * (1 + one) for one in (0.3, -0.3, 0.2, -0.2, 0))
    text = compare_rows(first, side([vague, cell(5), cell(5)]), ("A", "B")).to_markdown()
    assert "The means A and B of retransmissions change the other way than the mean change of a cell" in text
    assert "other way" not in compare_rows(first, side([cell(1100), cell(20), cell(20)]), ("A", "B")).to_markdown()


def test_hosts_on_an_axis_are_a_profile_and_what_is_unlike_it(tmp_path: Path) -> None:
    hosts = [{"profile": "linux-5.1"}, {"profile": "linux-6.12", "ecn": True, "mss": "1400B"}]
    found = dumbbell.run(described(matrix={"hosts": hosts}), output=tmp_path / "a.duckdb", progress=False)
    texts = ["linux-5.1", "linux-6.12(ecn=true, mss=1.4kB)"]
    assert [len(found.where(hosts=text).keys) for text in texts] == [1, 1]
