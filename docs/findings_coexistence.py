"""Tables and figures of docs/findings/coexistence.md, from experiments/csaqm and experiments/linux/coexistence.toml.

python docs/findings_coexistence.py MATRIX QUESTIONS PAGE

MATRIX are results of the paper's matrix, QUESTIONS those of questions-*.toml and linux/coexistence.toml. Writes the
tables into PAGE, each between `<!-- table NAME -->` and `<!-- end -->`, and the figures beside it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
from questions import Found, fill

from dumbbell import coexistence, coexistence_paper, figures
from dumbbell.claims import judging, language
from dumbbell.claims.report import value
from dumbbell.errors import InputError
from dumbbell.results import Results
from dumbbell.tables import aligned

LINUX = Path(__file__).parent.parent / "references" / "linux-coexistence.csv"
EXPERIMENTS = ("questions-hosts", "questions-weights", "questions-classes", "coexistence", "coexistence-rtts")
FIGURES = ("01", "04", "06", "08", "11", "14", "15", "16", "17")  # of the paper's, those that the page shows
USE, SHARE, RTT = 0.03, 0.08, 0.10  # bars of a cell: of the rate, of the payload, relative


def _host(profile: str, prr: str, offload: str, tso_rtt: bool, pacing: str, gro: float, batch: float) -> str:
    """Return what is not as in the kernel of a profile; `gro` and `batch` in us."""
    kernel = profile.removeprefix("linux-")
    changes = {
        "PRR of 5.15 on": kernel == "5.4" and prr == "rfc6937bis",
        "the old PRR": kernel == "6.1" and prr == "rfc6937",
        "no bursts": offload == "none",
        "bursts grow with short RTTs": kernel == "5.4" and tso_rtt,
        "paced by fq": pacing == "fq",
        f"receive offload, {gro:g} us": gro > 0,
        f"ACKs in batches of {batch:g} us": batch > 0,
    }
    return ", ".join([kernel, *(word for word, is_so in changes.items() if is_so)])


def _place(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    flows, hosts, bottleneck = config["flows"], config["hosts"], config["bottleneck"]
    aqm, first, last = bottleneck["aqm"], flows[0], flows[-1]
    stages = {stage["name"]: stage for stage in bottleneck["behind"]}
    marker = next((stage for stage in first["path"] if stage["name"] == "value_marker"), {"window": 0})
    ccs = [flow["cc"] for flow in flows]
    limits = [cc["ecn_max_rtt"] / 1e6 for cc in ccs if cc["name"] == "bbr2"]
    return {
        "key": row["key"],
        "experiment": row["experiment"],
        "seed": row["seed"],
        "use": row["utilisation"],
        "n": sum(flow["count"] for flow in flows),
        "ccs": [cc["name"] for cc in ccs],
        "half": first["count"],
        "limit": f"{limits[0]:g}" if limits else "",
        "step": aqm.get("min"),
        "buffer": aqm["limit"],
        "rtt": first["base_rtt"] / 1e6,
        "rate": bottleneck["rate"] / 1e6,
        "window": marker["window"] / 1e6,
        "weights": [flow["path"][0]["weight"] if flow["path"] else 1.0 for flow in (first, last)],
        "host": _host(
            hosts["profile"],
            hosts["prr"],
            hosts["offload"],
            hosts["tso_rtt"],
            hosts["pacing"],
            stages["gro"]["interval"] / 1e3 if "gro" in stages else 0.0,
            first["ack_path"][0]["interval"] / 1e3 if first["ack_path"] else 0.0,
        ),
    }


# The claims


def claims(matrix: Results) -> dict[str, str]:
    """Return how many of the paper's claims hold by section, and a table of those that do not."""
    paper = language.load("csaqm")
    verdicts = judging.judge(paper, judging.tables_of(paper, matrix))
    rows, failing = [], []
    total = [0, 0, 0, 0]
    for section in paper.sections.values():
        of = [one for one in verdicts if one.claim.section == section.id]
        found = [one.verdict for one in of]
        also = sum(one.verdict == judging.FAILS and one.claim.linux_fails is True for one in of)
        counts = [found.count(judging.HOLDS), found.count(judging.FAILS), also, found.count(judging.NO_DATA)]
        title = section.title if section.counted else f"{section.title} (not counted)"
        rows.append([title, *map(str, counts)])
        if section.counted:
            total = [a + b for a, b in zip(total, counts, strict=True)]
        failing += [
            [f"`{one.claim.id}`", one.claim.says, value(one), one.claim.reason or "-", one.claim.linux or "-"]
            for one in of
            if one.verdict == judging.FAILS and section.counted
        ]
    held, failed, also, _ = total
    share = f"{100 * held / (held + failed):.0f} %, {100 * (held + also) / (held + failed):.0f} % with those of Linux"
    rows.append([f"all counted: {share}", *map(str, total)])
    return {
        "claims": aligned(["section", "hold", "fail", "of which on Linux too", "no data"], rows),
        "failing": aligned(["claim", "it says", "found", "reason", "Linux"], failing, words=(0, 1, 2, 3, 4)),
    }


# Hosts


def hosts(found: Found) -> str:
    """Return the utilisation of DCTCP over a step by what of the host was changed."""
    runs = found.of("questions-hosts")
    steps = sorted(runs["step"].unique())
    body: dict[tuple[int, str], dict[int, float]] = {}
    for row in runs.iter_rows(named=True):
        cell = body.setdefault((row["n"], row["host"]), {})
        cell.setdefault(row["step"], 0.0)
        cell[row["step"]] += row["use"]
    seeds = runs["seed"].n_unique()
    lines = [
        [str(n), host, *(f"{100 * cell[step] / seeds:.0f}" for step in steps)]
        for (n, host), cell in sorted(body.items())
    ]
    return aligned(["N", "host", *(f"{step / 625_000:g}" for step in steps)], lines, words=(0, 1))


# Beside Linux


def _cells(found: Found) -> pl.DataFrame:
    """Return runs of the simulator: the sum of goodputs, the share of the first half and the mean RTT, over seeds."""
    runs = found.of("coexistence")
    rows = []
    for row in runs.iter_rows(named=True):
        flows = found.flows.filter(pl.col("key") == row["key"]).sort("flow")
        goodput, rtt = flows["goodput_mbit"].to_list(), flows["rtt_mean_ms"].to_list()
        rows.append(
            {
                "mix": "+".join(sorted(set(row["ccs"]))),
                "limit": row["limit"],
                "n": row["n"],
                "rtt": row["rtt"],
                "step": row["step"],
                "small": row["buffer"] < 10_000_000,
                "use": sum(goodput) / row["rate"],
                "share": sum(goodput[: row["half"]]) / sum(goodput),
                "srtt": sum(rtt) / len(rtt),
            }
        )
    keys = ["mix", "limit", "n", "rtt", "step", "small"]
    return pl.DataFrame(rows).group_by(keys).agg(pl.col("use", "share", "srtt").mean())


def linux_cells() -> pl.DataFrame:
    """Return the same of Linux, for hosts as in 5.4 and those of 5.10; the share is that of BBRv2."""
    frame = pl.read_csv(LINUX, infer_schema_length=None).filter(
        pl.col("host").is_in(["5.4 model", "5.10"]),
        pl.col("aqm") == "step",
        pl.col("seconds").is_in([20, 30]),
        pl.col("ccs") != "2-2-8-8",
    )
    run = ["host", "ccs", "ecn_limit_ms", "target_bytes", "buffer_bytes", "delay_ms", "stagger_ms", "seed"]
    rows = []
    for place, part in frame.group_by(run, maintain_order=True):
        whole = dict(zip(run, place, strict=True))
        n = part["flow"].n_unique()
        names = set(part["cc"])
        rows.append(
            {
                "mix": "+".join(sorted(names)),
                "limit": "" if whole["ecn_limit_ms"] is None else f"{whole['ecn_limit_ms']:g}",
                "n": n,
                "rtt": float(whole["delay_ms"]),
                "step": whole["target_bytes"],
                "small": whole["buffer_bytes"] < 10_000_000,
                "use": part["goodput_mbit"].sum() / 1000 * n / part.height,
                "share": part.filter(cc="bbr2")["goodput_mbit"].sum() / part["goodput_mbit"].sum(),
                "srtt": part["rtt_ms"].mean(),
            }
        )
    keys = ["mix", "limit", "n", "rtt", "step", "small"]
    return pl.DataFrame(rows).group_by(keys).agg(pl.col("use", "share", "srtt").mean())


def linux(found: Found) -> dict[str, str]:
    """Return every cell of Linux beside the simulator, and how many are within the bars."""
    keys = ["mix", "limit", "n", "rtt", "step", "small"]
    both = linux_cells().join(_cells(found), on=keys, suffix="_sim").sort("mix", "limit", "rtt", "n", "small", "step")
    rows = []
    counts: dict[str, list[int]] = {}
    for row in both.iter_rows(named=True):
        mixed = "+" in row["mix"]
        good = [
            abs(row["use_sim"] - row["use"]) <= USE,
            abs(row["share_sim"] - row["share"]) <= SHARE,
            abs(row["srtt_sim"] / row["srtt"] - 1) <= RTT,
        ]
        for name, is_good in zip(("use", "share", "RTT"), good, strict=True):
            if name != "share" or mixed:
                count = counts.setdefault(name, [0, 0])
                count[0] += is_good
                count[1] += 1
        shares = [f"{row['share']:.2f}", f"{row['share_sim']:.2f}"] if mixed else ["-", "-"]
        limit = {"": "", "0": ", no limit", "5": ", limit 5 ms"}[row["limit"]]
        rows.append(
            [
                f"{row['mix']}{limit}",
                f"{row['rtt']:g}",
                str(row["n"]),
                "1.33 K" if row["small"] else "500 ms",
                f"{row['step'] / 125_000 / row['rtt']:g}",
                *(f"{100 * row[name]:.0f}" for name in ("use", "use_sim")),
                *shares,
                *(f"{row[name]:.1f}" for name in ("srtt", "srtt_sim")),
            ]
        )
    head = [
        "flows",
        "RTT, ms",
        "N",
        "buffer",
        "K",
        "use, Linux",
        "sim",
        "BBRv2's part, Linux",
        "sim",
        "RTT, Linux",
        "sim",
    ]
    bars = {"use": "use within 3 points", "share": "BBRv2's part within 0.08", "RTT": "mean RTT within 10 %"}
    scores = [[bars[name], f"{good} of {of}", f"{100 * good / of:.0f} %"] for name, (good, of) in counts.items()]
    return {
        "linux": aligned(head, rows, words=(0, 3)),
        "linux-scores": aligned(["bar", "cells", "share"], scores),
    }


def linux_rtts(found: Found) -> str:
    """Return relative throughput by class where both controls and RTTs differ, of Linux and of the simulator."""
    of_linux = pl.read_csv(LINUX, infer_schema_length=None).filter(pl.col("ccs") == "2-2-8-8")
    keys = ["step", "cc", "rtt"]
    measured = of_linux.group_by(step="target_bytes", cc="cc", rtt=pl.col("delay_ms").cast(pl.Float64)).agg(
        linux=pl.col("goodput_mbit").mean() / 50
    )
    each = found.of("coexistence-rtts").select("key", "step").join(found.results.frame("flows"), on="key")
    simulated = each.group_by("step", "cc", rtt="base_rtt_ms").agg(sim=pl.col("goodput_mbit").mean() / 50)
    both = measured.join(simulated, on=keys)
    shown = {row[:3]: f"{row[3]:.2f} / {row[4]:.2f}" for row in both.select(*keys, "linux", "sim").rows()}
    order = [("bbr2", 50.0), ("dctcp", 50.0), ("bbr2", 5.0), ("dctcp", 5.0)]
    steps = sorted(set(both["step"]))
    rows = [[f"{step / 625_000:g}", *(shown[step, cc, rtt] for cc, rtt in order)] for step in steps]
    return aligned(["K", *(f"{cc}-{rtt:g}" for cc, rtt in order)], rows)


# Weights


def _shares(found: Found, experiment: str) -> pl.DataFrame:
    rows = []
    for row in found.of(experiment).iter_rows(named=True):
        goodput = found.flows.filter(pl.col("key") == row["key"]).sort("flow")["goodput_mbit"].to_list()
        first, last = row["weights"]
        ccs = row["ccs"]
        rows.append(
            {
                "mix": f"{ccs[0]} and {ccs[-1]}" if len(ccs) == 2 else ", ".join(ccs[: len(ccs) // 2]),
                "weights": f"{first:g}:{last:g}",
                "rate": row["rate"],
                "window": row["window"],
                "wanted": first / (first + last),
                "share": sum(goodput[: len(goodput) // 2]) / sum(goodput),
            }
        )
    keys = ["mix", "weights", "rate", "window", "wanted"]
    return pl.DataFrame(rows).group_by(keys).agg(pl.col("share").mean())


def weights(found: Found, experiment: str) -> str:
    """Return the first class's share in percent, and how many cells are within 5 points of the weights."""
    shares = _shares(found, experiment)
    columns = sorted(set(shares.select("window", "rate").rows()), key=lambda column: (-column[0], column[1]))
    header = [f"{rate:g} Mbit/s, window {window:g} ms" for window, rate in columns]
    rows: dict[tuple[str, str], dict[tuple[float, float], tuple[float, float]]] = {}
    for row in shares.sort("mix", "weights").iter_rows(named=True):
        cell = rows.setdefault((row["mix"], row["weights"]), {})
        cell[row["window"], row["rate"]] = (row["share"], row["wanted"])

    def shown(share: float, wanted: float) -> str:
        return f"{100 * share:.1f}{'' if abs(share - wanted) <= 0.05 else ' *'}"

    body = [[mix, by, *(shown(*cells[column]) for column in columns)] for (mix, by), cells in rows.items()]
    held = [sum(abs(cells[c][0] - cells[c][1]) <= 0.05 for cells in rows.values()) for c in columns]
    body.append(["within 5 points", "", *(f"{count} of {len(rows)}" for count in held)])
    return aligned(["flows", "weights", *header], body, words=(0, 1))


# Fairness where others have none


def acceptance(matrix: Results) -> str:
    """Return, of mixed cells in which STEP and PI2 are below 0.8, how many CSAQM shares at 0.95 or better."""
    runs = coexistence.runs(matrix).filter(
        pl.col("mix") == "both", pl.col("buffer") == coexistence.LARGE, pl.col("variant") == coexistence.NO_LIMIT
    )
    place = ["rate_gbit", "rtt", "n", "k"]
    wide = runs.group_by(*place, "aqm").agg(pl.col("jain").mean()).pivot(on="aqm", index=place, values="jain")
    hard = wide.drop_nulls().filter(pl.col("STEP") < 0.8, pl.col("PI2") < 0.8)
    by = hard.group_by("rate_gbit", "rtt").agg(
        cells=pl.len(),
        good=(pl.col("CSAQM") >= 0.95).sum(),
        fair=(pl.col("CSAQM") >= 0.8).sum(),
        least=pl.col("CSAQM").min(),
    )
    rows = [
        [
            f"{row['rate_gbit']:g}",
            row["rtt"],
            *(str(row[name]) for name in ("cells", "good", "fair")),
            f"{row['least']:.2f}",
        ]
        for row in by.sort("rate_gbit", pl.col("rtt").str.len_chars(), "rtt").iter_rows(named=True)
    ]
    rows.append(["all", "", *(str(by[name].sum()) for name in ("cells", "good", "fair")), f"{by['least'].min():.2f}"])
    head = ["Gbit/s", "RTT, ms", "cells below 0.8 over STEP and PI2", "CSAQM 0.95 or better", "0.8 or better", "least"]
    return aligned(head, rows)


def main(matrix: str, questions: str, page: str) -> None:
    """Fill the tables of the page and draw its figures."""
    whole, found = Results(matrix), Found(questions, EXPERIMENTS, _place)
    tables = {
        **claims(whole),
        "hosts": hosts(found),
        **linux(found),
        "linux-rtts": linux_rtts(found),
        "weights": weights(found, "questions-weights"),
        "classes": weights(found, "questions-classes"),
        "acceptance": acceptance(whole),
    }
    path = Path(page)
    path.write_text(fill(path.read_text(), tables))
    paper = coexistence_paper.Results(matrix)
    for name in FIGURES:
        figure = coexistence_paper.FIGURES[name]
        frame = paper.of(figure)
        if not frame.is_empty():
            figures.save(coexistence_paper.picture(figure, frame), path.with_name(f"coexistence-{name}.png"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except InputError as error:
        sys.exit(str(error))
