"""BBRv2 and DCTCP over STEP, PI2 and CSAQM, from its experiments and the cells of Linux."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

from dumbbell.study import (
    Answers,
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    count_experiment_seeds,
    describe_runs,
    draw_means,
    figures,
    format_count,
    format_number,
    join_words,
    list_durations,
    make_grid,
    map_names,
)

from . import runs, terms

MATRIX = (
    *("equal-1g", "equal-1g-small", "equal-1g-taildrop", "limit-1g"),
    *("rtts-1g", "rtts-1g-small", "rtts-mixed-1g", "rtts-mixed-1g-small"),
)
QUESTION = "Which claims of a paper about STEP, PI2 and CSAQM hold?"
GALLERY = {
    "coexistence": "coexistence-linux",
    "equal-1g": "coexistence-08",
    "rtts-1g": "coexistence-14",
    "rtts-mixed-1g": "coexistence-16",
}
ALSO_DRAWN = {"coexistence-01": "equal-1g", "coexistence-11": "equal-1g", "coexistence-15": "rtts-1g"}
RUNS = (  # no figure and no claim needs coexistence/mono-10g
    Sweep("coexistence.duckdb", MATRIX, ("seeds=[1,2,3]",)),
    Sweep("coexistence.duckdb", ("mixed-10g",)),
    Sweep("coexistence-questions.duckdb", ("questions-*", "coexistence*")),
)
NAMES = (
    *(r"\b\d+(?:-\d+){1,3}\b", r"1\.33 K", r"(?:before|until|of|as in) 5\.\d+", r"November 2019 on 5\.4-rc6"),
    *(r"v2alpha on 6\.1", r"\b[13]:[13]\b"),
)
USE, SHARE, RTT = 0.03, 0.08, 0.10  # bars of a cell beside Linux: of the rate, of the goodput, relative
AQMS = pl.Enum(["STEP", "PI2", "CSAQM"])
UNFAIR, GOOD = 0.8, 0.95  # Jain's index, as in suite.toml: acceptable and good
KS = (0.05, 0.1, 0.17, 0.25, 0.5, 1.0, 2.0)  # of equal RTTs
CLASSES = {"bbr2": "BBRv2", "dctcp": "DCTCP"}


def make_evidence(matrix: Results, questions: Results) -> dict[str, pl.DataFrame]:
    """Return the page's tables from the paper's matrix and from the questions."""
    return runs.collect_matrix(matrix) | runs.collect_questions(questions)


# What the template asks for beside the tables


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return failing claims by what is known of them, cells beside Linux, and mixed cells."""
    counted = found["claims"].filter(pl.col("counted"))
    decided = counted.filter(pl.col("linux_fails").is_not_null(), pl.col("fails_there").is_not_null())
    differ = decided.filter(pl.col("linux_fails") != pl.col("fails_there"))
    return {
        "counted": Rows("counted", counted),
        "failing": Rows("failing", classify_failing(found)),
        "decided": Rows("decided", decided),
        "agreeing": decided.height - differ.height,
        "differing": ", ".join(f"`{name}`" for name in differ["id"]),
        "beside": Rows("beside", judge_linux_cells(found)),
        "hard": Rows("hard", select_hard(found)),
        "balance": Rows("balance", compute_balance(found)),
        "limits": Rows("limits", found["limit"].with_columns(pl.col("rtt", "n").cast(pl.Int64), gbit=pl.lit(1.0))),
        "bar": {"use": USE, "share": SHARE, "rtt": RTT, "points": runs.POINTS, "unfair": UNFAIR, "good": GOOD},
        "counted_or_not": Rows("claims", found["claims"]),
        "rtts_within": found["linux_rtts"].filter(pl.col("linux").is_between("low", "high")).height,
        "used": [name for name in found.made if name != "mixed-10g" or (found["runs"]["gbit"] == 10).any()],
        "rates": [f"{gbit:g}" for gbit in sorted(set(found["runs"]["gbit"]))],
        "disjoint": Rows("disjoint", compare_seed_ranges(found)),
        "several": min(compute_balance(found).filter(pl.col("gbit") == 1)["seeds"]) > 1,
        "based": describe_rates,
        "seeds": lambda rows: format_seeds(rows.seeds.only),
        "rows_where": select_rows,
        "counts_of": lambda rows: sorted(set(rows.n)),
        "spread_of": lambda rows: float(rows.frame["ratio"].log().std()),
        "contain": lambda values, word: Answers(f"{values.name} contain {word}", [word in value for value in values]),
        "judged_queues": Rows("runs", found["runs"].filter(pl.col("aqm").is_in(["STEP", "PI2", "CSAQM"]), mix="both")),
        "places": describe_places,
        "named": lambda rows: join_words(f"`{name}`" for name in rows["id"]),
    }


def select_rows(rows: Rows, column: str, above: float, below: float) -> Rows:
    """Return the rows in which a column is above one number and below another."""
    return Rows(rows.name, rows.frame.filter(pl.col(column) > above, pl.col(column) < below))


def describe_rates(rows: Rows) -> str:
    """Return the rates that rows are of, with the number of seeds: `1 Gbit/s, 3 seeds; 10 Gbit/s, one seed`."""
    by = rows.frame.group_by("gbit").agg(least=pl.col("seeds").min(), most=pl.col("seeds").max()).sort("gbit")
    parts = []
    for gbit, least, most in by.rows():
        parts.append(f"{gbit:g} Gbit/s, {f'{format_count(least)} to ' if least < most else ''}{format_seeds(most)}")
    return "; ".join(parts)


def format_seeds(number_of: int) -> str:
    """Return `one seed`, `three seeds`."""
    return f"{format_count(number_of)} seed{'' if number_of == 1 else 's'}"


def describe_places(rows: Rows) -> str:
    """Return where cells of equal RTT are: `5 ms: N = 2 (K = 0.05 to 0.25), 10 (K = 0.05); 50 ms: …`."""
    parts = []
    for (gbit, rtt), part in rows.frame.sort("gbit", pl.col("rtt").cast(pl.Int64)).group_by(
        "gbit", "rtt", maintain_order=True
    ):
        names = []
        for (n,), cells in part.sort(pl.col("n").cast(pl.Int64)).group_by("n", maintain_order=True):
            ks = sorted(cells["k"])
            whole = len(ks) > 2 and ks == [k for k in KS if ks[0] <= k <= ks[-1]]
            names.append(f"{n} (K = {f'{ks[0]:g} to {ks[-1]:g}' if whole else ', '.join(f'{k:g}' for k in ks)})")
        parts.append(f"{gbit:g} Gbit/s, {rtt} ms: N = {', '.join(names)}")
    return "; ".join(parts) or "none"


def classify_failing(found: Evidence) -> pl.DataFrame:
    """Return the claims that fail, with `kind`: also on Linux, about CSAQM alone, about PI2 alone, or other."""
    alone = pl.col("aqms").is_in(["CSAQM", "PI2"])
    kind = pl.when(pl.col("linux_fails").fill_null(False)).then(pl.lit("Linux")).when(alone).then(pl.col("aqms"))
    chosen = found["claims"].filter(pl.col("counted"), pl.col("verdict") == "fails")
    return chosen.with_columns(kind=kind.otherwise(pl.lit("other")))


def judge_linux_cells(found: Evidence) -> pl.DataFrame:
    """Return the cells of Linux with what is within the bars, and the kind of cell."""

    def judge_bars(suffix: str) -> dict[str, pl.Expr]:
        def compute_error(name: str) -> pl.Expr:
            return pl.col(f"{name}_{suffix}") - pl.col(name)

        return {
            "use": compute_error("use").abs() <= USE,
            "share": compute_error("share").abs() <= SHARE,
            "rtt": (compute_error("srtt") / pl.col("srtt")).abs() <= RTT,
        }

    mixed = pl.col("mix").str.contains("+", literal=True)
    kind = pl.when(mixed).then(pl.lit("both")).otherwise("mix")
    random = {f"{name}_ok": ok for name, ok in judge_bars("sim").items()}
    started = {f"{name}_ok_started": ok for name, ok in judge_bars("started").items()}
    marked = found["linux"].with_columns(kind=kind, limit=pl.col("limit").cast(pl.String).fill_null(""))
    every = marked.with_columns(**random, **started)
    out = ~(pl.col("use_ok") & pl.col("rtt_ok") & (pl.col("share_ok") | ~mixed))
    share = pl.col("share")
    return every.with_columns(
        out=out, off=(pl.col("share_sim") - share).abs(), off_started=(pl.col("share_started") - share).abs()
    )


def select_hard(found: Evidence) -> pl.DataFrame:
    """Return the mixed cells in which Jain's index is below 0.8 over STEP and over PI2, with that over CSAQM."""
    place = ["gbit", "rtt", "n", "k"]
    mixed = found["runs"].filter(pl.col("mix") == "both")
    wide = mixed.pivot("aqm", index=[*place, "seeds"], values="jain").drop_nulls()
    return wide.filter(pl.col("STEP") < UNFAIR, pl.col("PI2") < UNFAIR)


def compute_balance(found: Evidence) -> pl.DataFrame:
    """Return the ratio of DCTCP's relative throughput to BBRv2's in cells of equal RTT."""
    mixed = found["classes"].filter(pl.col("mix") == "both", pl.col("rtt") != "5+50")
    wide = mixed.with_columns(cc=pl.col("cls").str.split("-").list.first())
    wide = wide.pivot("cc", index=["gbit", "rtt", "n", "k", "aqm", "seeds"], values="relative")
    return wide.with_columns(ratio=pl.col("dctcp") / pl.col("bbr2"))


def compare_seed_ranges(found: Evidence) -> pl.DataFrame:
    """Return mixed cells of equal RTT, and whether the seeds of both controls lie apart."""
    mixed = found["classes"].filter(pl.col("mix") == "both", pl.col("rtt") != "5+50")
    bbr2, dctcp = (mixed.filter(pl.col("cls").str.starts_with(cc)) for cc in ("bbr2", "dctcp"))
    both = bbr2.join(dctcp, on=["gbit", "rtt", "n", "k", "aqm"], suffix="_dctcp")
    distance = (pl.col("high") < pl.col("low_dctcp")) | (pl.col("high_dctcp") < pl.col("low"))
    return both.select("gbit", "rtt", "n", "k", "aqm", "seeds", apart=distance)


# Tables


def format_claims_table(found: Evidence) -> str:
    """Return how many of the paper's claims hold by section."""
    every = found["claims"].with_columns(
        title=pl.when("counted").then("section").otherwise(pl.format("{} (not counted)", "section"))
    )
    rows = []
    for (title,), part in every.group_by("title", maintain_order=True):
        rows.append([str(title), *_list_verdicts(part)])
    rows.append(["all counted", *_list_verdicts(every.filter(pl.col("counted")))])
    return align_table(["section", "hold", "fail", "of which on Linux too", "no data"], rows)


def _list_verdicts(part: pl.DataFrame) -> list[str]:
    fails = pl.col("verdict") == "fails"
    also = part.filter(fails, pl.col("linux_fails").fill_null(False)).height
    counts = [part.filter(pl.col("verdict") == one).height for one in ("holds", "fails", "no data")]
    return [str(one) for one in (*counts[:2], also, counts[2])]


def format_failing_table(found: Evidence) -> str:
    """Return the claims that fail: what was found, where, what Linux does, and why."""
    rows = []
    for one in classify_failing(found).iter_rows(named=True):
        here = _format_cells(one["mean"], one["held"], one["cells"], one["value"])
        there = "-"
        if one["linux_cells"]:
            held = _format_cells(one["mean"], one["linux_held"], one["linux_cells"], one["linux_value"])
            there = f"{held}: {'fails' if one['linux_fails'] else 'holds'}"
        rows.append([f"`{one['id']}`", one["says"], here, one["where"] or "-", there, one["reason"] or "not explained"])
    head = ["claim", "it says", "holds in", "where not (cells)", "Linux, its cells", "why"]
    return align_table(head, rows, words=tuple(range(len(head))))


def _format_cells(mean: bool, held: int, cells: int, value: float) -> str:
    return f"mean {format_number(value)}" if mean else f"{held} of {cells} cells"


def format_hosts_table(found: Evidence) -> str:
    """Return the utilisation of DCTCP over STEP by what of the host was changed."""
    frame = found["hosts"].with_columns(pl.col("host").cast(pl.String)).sort("n", "host")
    ks = sorted(set(frame["k"]))
    rows = make_grid(frame, ["n", "host"], "k", ks, lambda row: f"{100 * row['use']:.0f}")
    return align_table(["N", "host", *(f"{k:g}" for k in ks)], rows, words=(0, 1))


def format_linux_hosts_table(found: Evidence) -> str:
    """Return the same of Linux for two flows at the recommended threshold."""
    rows = [
        [row["host"], str(row["starts"]), f"{row['seconds']}", f"{100 * row['use']:.0f}"]
        for row in found["linux_hosts"].with_columns(pl.col("host").cast(pl.String)).iter_rows(named=True)
    ]
    return align_table(["Linux", "starts", "seconds", "goodput, % of the link"], rows, words=(0,))


_KINDS = {"dctcp": "DCTCP", "bbr2": "BBRv2", "both": "half each"}


def format_scores_table(found: Evidence) -> str:
    """Return how many cells beside Linux are within each bar, by kind of cell and number of flows."""
    rows = []
    every = judge_linux_cells(found)
    for kind, name in _KINDS.items():
        for (n,), part in every.filter(pl.col("kind") == kind).sort("n").group_by("n", maintain_order=True):
            shares = f"{part['share_ok'].sum()} of {part.height}" if kind == "both" else "-"
            whole = [f"{part[column].sum()} of {part.height}" for column in ("use_ok", "rtt_ok")]
            rows.append([f"{name}, {n}", *whole, shares, f"{(~part['out']).sum()} of {part.height}"])
    head = ["flows", f"utilisation within {100 * USE:.0f} points", f"mean RTT within {100 * RTT:.0f} %"]
    return align_table([*head, f"BBRv2's share within {SHARE:g}", "all"], rows, words=(0,))


def format_outside_table(found: Evidence) -> str:
    """Return the cells that miss a bar: Linux / simulator, min-max of its seeds [with Linux's starts]."""
    rows = []
    for row in judge_linux_cells(found).filter(pl.col("out")).iter_rows(named=True):
        limit = {"": "", "0": ", no limit", "5": ", limit 5 ms"}[row["limit"]]
        mixed = row["kind"] == "both"
        cells = [
            _format_pair(row, "use", 100, 0),
            _format_pair(row, "share", 1, 2) if mixed else "-",
            _format_pair(row, "srtt", 1, 1),
        ]
        buffer = ", buffer 1.33 K" if row["small"] else ""
        rows.append([f"{row['n']}, {_KINDS[row['kind']]}{limit}{buffer}", str(row["rtt"]), f"{row['k']:g}", *cells])
    return align_table(["flows", "RTT, ms", "K", "utilisation, %", "BBRv2's share", "mean RTT, ms"], rows, words=(0,))


def _format_pair(row: dict[str, Any], name: str, scale: float, places: int) -> str:
    """Return Linux / simulator (min-max), and in brackets the simulator with Linux's starts."""
    low, high = (f"{scale * row[f'{name}_{end}']:.{places}f}" for end in ("low", "high"))
    ends = low if low == high else f"{low}-{high}"
    started = "" if row[f"{name}_started"] is None else f" [{scale * row[f'{name}_started']:.{places}f}]"
    return f"{scale * row[name]:.{places}f} / {ends}{started}"


def format_linux_rtts_table(found: Evidence) -> str:
    """Return relative throughput by class where controls and RTTs differ: Linux / simulator [with Linux's starts]."""
    frame = found["linux_rtts"].with_columns(cls=pl.format("{}, {} ms", pl.col("cc").replace(CLASSES), "rtt")).sort("k")
    order = [f"{cc}, {rtt} ms" for rtt in (50, 5) for cc in CLASSES.values()]

    def format_cell(row: dict[str, Any]) -> str:
        return f"{row['linux']:.2f} / {row['low']:.2f}-{row['high']:.2f} [{row['started']:.2f}]"

    return align_table(["K", *order], make_grid(frame, ["k"], "cls", order, format_cell))


def limit_table(found: Evidence) -> str:
    """Return BBRv2's relative throughput beside DCTCP over STEP with and without its limit on ECN."""
    frame = found["limit"].sort(pl.col("rtt", "n").cast(pl.Int64), pl.col("variant") != terms.NO_LIMIT)
    ks, named = sorted(set(frame["k"])), frame.with_columns(rtt=pl.format("{} ms", "rtt"))
    rows = make_grid(named, ["rtt", "n", "variant"], "k", ks, lambda row: f"{row['relative']:.2f}")
    return align_table(["RTT", "N", "answers ECN", *(f"K = {k:g}" for k in ks)], rows, words=(0, 2))


def format_acceptance_table(found: Evidence) -> str:
    """Return, of mixed cells in which STEP and PI2 are below 0.8, how many CSAQM shares at 0.95 or better."""
    col = pl.col("CSAQM")
    by = (
        select_hard(found)
        .with_columns(pl.col("rtt").cast(pl.String))
        .group_by("gbit", "rtt")
        .agg(cells=pl.len(), good=(col >= GOOD).sum(), fair=(col >= UNFAIR).sum(), least=col.min())
        .sort("gbit", pl.col("rtt").str.len_chars(), "rtt")
    )
    rows = [
        [f"{row['gbit']:g}", row["rtt"], *(str(row[name]) for name in ("cells", "good", "fair")), f"{row['least']:.2f}"]
        for row in by.iter_rows(named=True)
    ]
    rows.append(["all", "", *(str(by[name].sum()) for name in ("cells", "good", "fair")), f"{min(by['least']):.2f}"])
    head = ["Gbit/s", "RTT, ms", f"cells below {UNFAIR:g} over STEP and PI2"]
    return align_table([*head, f"CSAQM {GOOD:g} or better", f"{UNFAIR:g} or better", "least"], rows)


def format_weights_table(found: Evidence, experiment: str = "questions-weights") -> str:
    """Return the first class's share in percent, and how many cells are within 5 points of the weights."""
    frame = found["weights"].filter(pl.col("experiment") == experiment).sort("mix", "weights")
    columns = frame.select("window", "rate").unique().sort("window", "rate", descending=[True, False]).rows()

    def format_weights(row: dict[str, Any]) -> str:
        return f"{100 * row['share']:.1f}{'' if row['off'] <= runs.POINTS else ' *'}"

    frame = frame.with_columns(place=pl.format("{} {}", "window", "rate"))
    body = make_grid(
        frame, ["mix", "weights"], "place", [f"{window} {rate}" for window, rate in columns], format_weights
    )
    held = [sum(not line[place].endswith("*") for line in body) for place in range(2, 2 + len(columns))]
    body.append([f"within {100 * runs.POINTS:.0f} points", "", *(f"{count} of {len(body)}" for count in held)])
    header = [f"{rate:g} Mbit/s, window {window:g} ms" for window, rate in columns]
    return align_table(["flows", "weights", *header], body, words=(0, 1))


# Figures: K across, a panel for each number of flows


def _describe_point_runs(found: Evidence, rows: pl.DataFrame) -> str:
    """Return how many runs a point is the mean of, and how long they are."""
    return describe_runs(rows["seeds"], seconds=list_durations(found, *MATRIX))


def _name_interval(frame: pl.DataFrame, low: str, high: str) -> dict[str, Any]:
    """Return the columns of the interval, if there is one."""
    return {"low": low, "high": high} if (frame["seeds"] > 1).any() else {}


_GROUPS = {  # names for numbers of flows of two RTTs as the paper writes them
    **{"4-16": "4 at 50 ms, 16 at 5 ms", "8-32": "8 at 50 ms, 32 at 5 ms"},
    **{"2-2-8-8": "4 at 50 ms, 16 at 5 ms", "4-4-16-16": "8 at 50 ms, 32 at 5 ms"},
}


def _count_flows(frame: pl.DataFrame) -> pl.DataFrame:
    named = frame.with_columns(pl.col("aqm").cast(AQMS), pl.col("n").cast(pl.String))
    used = [n for n in terms.COUNTS if n in set(named["n"])]
    return named.with_columns(flows=map_names("n", {n: _GROUPS.get(n, f"{n} flows") for n in used}))


def _name_utilisation(shown: pl.DataFrame) -> str:
    """Return how much of the link two flows and forty leave idle, if two leave much more."""
    two, forty = ([100 - 100 * use for use in shown.filter(n=n, k=KS[0])["utilisation"]] for n in ("2", "40"))
    if two and forty and min(two) > 2 * max(forty):
        idle = f"{math.floor(min(two))} to {math.ceil(max(two))} %"
        few = f"Two DCTCP flows leave {idle} of the link idle at K = {KS[0]:g}"
        return f"{few}, 40 flows at most {math.ceil(max(forty))} %"
    return "Utilisation of DCTCP flows by queue discipline"


def draw_utilisation(found: Evidence) -> Picture:
    """Draw the utilisation of DCTCP alone at 5 ms (figure 1 of the paper)."""
    rtt = pl.col("rtt").cast(pl.String) == "5"
    shown = _count_flows(found["runs"].filter(pl.col("mix") == "dctcp", rtt, pl.col("gbit") == 1))
    picture = figures.lines(
        shown.sort("k"),
        "k",
        "utilisation",
        **_name_interval(shown, "use_low", "use_high"),
        by="flows",
        columns="aqm",
        log_x=True,
        bands=True,
        x_label="K (delay target over base RTT)",
        y_label="utilisation",
        title=f"{_name_utilisation(shown)}\nDCTCP alone at 1 Gbit/s and 5 ms, buffer 500 ms; "
        f"{_describe_point_runs(found, shown)}",
    )
    picture.name_lines({"2 flows": "2 flows", "10 flows": "10 flows", "100 flows": "40 and 100 flows"})
    picture.entries = []  # the line of 40 flows is under that of 100
    return picture.arrange()


def _pivot_classes(shown: pl.DataFrame) -> pl.DataFrame:
    named = shown.with_columns(pl.col("aqm").cast(pl.String))
    return named.pivot("cls", index=["aqm", "n", "k"], values="relative")


def _name_equal_rtts(shown: pl.DataFrame, rtt: str) -> str:
    """Return whom PI2 and STEP favour, if most cells agree, and in how many cells CSAQM is nearest to equal shares."""
    wide = _pivot_classes(shown)
    ratio = pl.col(f"dctcp-{rtt}") / pl.col(f"bbr2-{rtt}")
    each = wide.with_columns(dctcp=ratio > 1, off=ratio.log().abs())
    favours = []
    for aqm in ("STEP", "PI2"):
        share = float(each.filter(aqm=aqm)["dctcp"].mean() or 0.0)  # type: ignore[arg-type]
        if max(share, 1 - share) >= 0.7:
            mostly = "" if share in (0, 1) else "mostly "
            favours.append(f"{aqm} {mostly}favours {'DCTCP' if share > 0.5 else 'BBRv2'}")
    off = each.pivot("aqm", index=["n", "k"], values="off").drop_nulls()
    nearest = off.filter(pl.col("CSAQM") < pl.min_horizontal("STEP", "PI2")).height
    if not favours or nearest * 2 <= off.height:
        return f"BBRv2 and DCTCP, half each, at {rtt} ms"
    return f"At {rtt} ms {', '.join(favours)}, CSAQM is fairest in {nearest} of {off.height} cells"


def _name_two_rtts(shown: pl.DataFrame, mix: str) -> str:
    """Return what flows of two RTTs do to each other over each queue, if the evidence has it."""
    wide = _pivot_classes(shown)
    csaqm, other = wide.filter(aqm="CSAQM"), wide.filter(pl.col("aqm") != "CSAQM")
    if mix == "dctcp":
        if other["dctcp-50"].max() < 0.5 < csaqm["dctcp-50"].min():  # type: ignore[operator]
            return "DCTCP of 50 ms gets less than half of its share over STEP and PI2, and more over CSAQM"
        return "DCTCP of 50 ms and of 5 ms"
    if mix == "bbr2":
        ahead = (other["bbr2-50"] > other["bbr2-5"]).all()
        early, late = csaqm.filter(pl.col("k") <= 1)["bbr2-5"], csaqm.filter(pl.col("k") >= 2)["bbr2-5"]
        if ahead and early.min() > 0.8 and late.max() < 0.6:  # type: ignore[operator]
            return "BBRv2 of 50 ms takes the share of BBRv2 of 5 ms; over CSAQM only from K = 2 on"
        return "BBRv2 of 50 ms and of 5 ms"
    classes = [f"{cc}-{ms}" for cc, ms in _FOUR]
    most = float(wide.filter(aqm="PI2")["bbr2-50"].min())  # type: ignore[arg-type]
    least = min(float(csaqm[name].min()) for name in classes)  # type: ignore[arg-type]
    if most > 2:
        most, least = math.floor(10 * most) / 10, math.floor(100 * least) / 100
        return f"Over PI2 BBRv2 of 50 ms gets {most:g} times its share or more; over CSAQM all get {least:g} or more"
    return "BBRv2 and DCTCP of 50 ms and of 5 ms"


def draw_throughput(found: Evidence, mix: str, rtt: str, order: Sequence[tuple[str, str]]) -> Picture:
    """Draw relative throughput of the classes of a mix: a panel for each queue discipline and number of flows."""
    several = len({rtt for _, rtt in order}) > 1
    names = {f"{cc}-{ms}": f"{CLASSES[cc]}, {ms} ms" if several else CLASSES[cc] for cc, ms in order}
    chosen = found["classes"].filter(
        pl.col("mix") == mix, pl.col("rtt").cast(pl.String) == rtt, pl.col("gbit") == 1, pl.col("relative") > 0
    )
    shown = _count_flows(chosen).with_columns(who=map_names("cls", names))
    title = _name_two_rtts(shown, mix) if several else _name_equal_rtts(shown, rtt)
    notes = []
    if several:
        notes.append("panels: numbers of flows by base RTT")
    if mix == "both":
        notes.append("half of the flows BBRv2, half DCTCP")
    notes += ["1 Gbit/s, buffer 500 ms", _describe_point_runs(found, shown)]
    picture = figures.lines(
        shown.sort("k"),
        "k",
        "relative",
        **_name_interval(shown, "low", "high"),
        by="who",
        facet=["flows", "aqm"] if several else ["aqm", "flows"],
        columns=3 if several else 4,
        log_x=True,
        log_y=True,
        bands=True,
        x_label="K (delay target over the shorter base RTT)" if several else "K (delay target over base RTT)",
        y_label="throughput over the fair share",
        title=f"{title}\n{'; '.join(notes)}",
    )
    picture.draw_level(1.0)
    return picture.name_lines()


_FOUR = [(cc, rtt) for rtt in ("50", "5") for cc in CLASSES]
# number of the paper's figure → congestion controls, base RTTs, order of the classes
THROUGHPUTS: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "08": ("both", "5", [("bbr2", "5"), ("dctcp", "5")]),
    "11": ("both", "50", [("bbr2", "50"), ("dctcp", "50")]),
    "14": ("dctcp", "5+50", [("dctcp", "50"), ("dctcp", "5")]),
    "15": ("bbr2", "5+50", [("bbr2", "50"), ("bbr2", "5")]),
    "16": ("both", "5+50", _FOUR),
}


def _name_linux(mixed: pl.DataFrame) -> str:
    """Return in how many cells of two and of ten flows the simulator is near Linux."""
    counts = []
    for n in (2, 10):
        own = mixed.filter(n=n)
        counts.append(f"{own['share_ok'].sum()} of {own.height} cells of {format_count(n)} flows")
    return f"BBRv2's share is within {SHARE:g} of Linux in {join_words(counts)}"


def draw_with_linux(found: Evidence) -> Picture:
    """Draw BBRv2's share beside DCTCP over STEP in the simulator, by starts, and on Linux."""
    how_often = describe_runs(
        count_experiment_seeds(found, "coexistence"), seconds=list_durations(found, "coexistence")
    )
    mixed = judge_linux_cells(found).filter(pl.col("kind") == "both")
    places = pl.format("{} ms, {} flows", "rtt", "n")
    order = mixed.select(place=places, rtt="rtt", n="n").unique().sort("rtt", "n")["place"].to_list()
    random = mixed.select(
        *("limit", "k", "share", "rtt", "n"),
        value="share_sim",
        low="share_low",
        high="share_high",
        starts=pl.lit("random"),
    )
    none = pl.lit(None, pl.Float64)
    started = mixed.filter(pl.col("share_started").is_not_null()).select(
        *("limit", "k", "rtt", "n"),
        share=none,
        value="share_started",
        low=none,
        high=none,
        starts=pl.lit("as on Linux"),
    )
    limits = {"0": "ECN at any RTT", "5": "ECN up to 5 ms"}
    shown = pl.concat([random, started.select(random.columns)]).with_columns(
        limit=map_names("limit", limits),
        place=places.cast(pl.Enum(order)),
        starts=pl.format("simulator, starts {}", "starts").cast(
            pl.Enum(["simulator, starts random", "simulator, starts as on Linux"])
        ),
    )
    return draw_means(
        shown.sort("k"),
        "k",
        "value",
        by="starts",
        facet=["limit", "place"],
        columns=4,
        log_x=True,
        reference="share",
        reference_name="Linux",
        x_label="K (step over base RTT)",
        y_label="BBRv2's share of goodput",
        title=f"{_name_linux(mixed)}\nBBRv2, which answers ECN at any RTT or up to 5 ms, against as many DCTCP "
        f"flows over STEP at 1 Gbit/s; {how_often}; Linux: one start",
    )


TABLES: dict[str, Callable[[Evidence], str]] = {
    "claims": format_claims_table,
    "failing": format_failing_table,
    "hosts": format_hosts_table,
    "linux-hosts": format_linux_hosts_table,
    "scores": format_scores_table,
    "outside": format_outside_table,
    "linux-rtts": format_linux_rtts_table,
    "limit": limit_table,
    "acceptance": format_acceptance_table,
    "weights": format_weights_table,
    "classes": partial(format_weights_table, experiment="questions-classes"),
}
FIGURES: dict[str, Callable[[Evidence], Picture]] = {
    "coexistence-01": draw_utilisation,
    "coexistence-linux": draw_with_linux,
    **{
        f"coexistence-{number}": partial(draw_throughput, mix=mix, rtt=rtt, order=order)
        for number, (mix, rtt, order) in THROUGHPUTS.items()
    },
}
