"""What people feel of queues: measures of calls, pings and pages, the verdict of a report, the default figure."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest

import dumbbell
from conftest import described
from dumbbell import Results
from dumbbell.report import setting, verdict
from dumbbell.results import felt
from dumbbell.results.felt import Felt, SettingComparison

HOME = described(
    duration="8s",
    seeds=[1, 2, 3],
    hosts={"ecn": True},
    bottleneck={"rate": "20Mbit", "aqm": "pfifo", "shaper": "htb"},
    reverse={"rate": "5Mbit", "aqm": "pfifo", "shaper": "htb", "link_layer": "pppoe-ptm"},
    flows=[
        {"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}},
        {"cc": "cubic", "base_rtt": "20ms", "direction": "up", "start": {"uniform": ["0s", "500ms"]}},
    ],
    web=[{"cc": "cubic", "base_rtt": "20ms", "arrivals": "5/s", "size": "10kB"}],
    udp=[
        {"rate": "100kbit", "size": "250B"},
        {"rate": "100kbit", "size": "250B", "direction": "up"},
        {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"},
    ],
    record={"from": "2s"},
    matrix={"bottleneck.aqm, reverse.aqm": [["pfifo", "pfifo"], ["fq_codel", "fq_codel"], ["codel", "codel"]]},
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return dumbbell.run(HOME, output=tmp_path_factory.mktemp("home") / "r.duckdb", progress=False)


def test_what_is_felt_is_what_the_tables_have(home: Results) -> None:
    (one,) = felt.compare_settings(home._runs)
    assert one.keys == ["bottleneck.aqm", "reverse.aqm"] and one.settings == ["pfifo", "fq_codel", "codel"]
    assert one.seeds == 3 and not one.where
    for name in one.settings:
        flows = home.where(f"bottleneck.aqm={name}").flows

        def mean(column: str, **of: str) -> float:
            return fmean(flows.filter(**of)[column])  # noqa: B023

        assert one.compute_mean(name, "call up, delay P99, ms") == pytest.approx(
            mean("delay_p99_ms", cc="udp", direction="up")
        )
        assert one.compute_mean(name, "ping, RTT P99, ms") == pytest.approx(mean("rtt_p99_ms", cc="ping"))
        assert one.compute_mean(name, "ping, loss, %") == pytest.approx(100 * mean("loss_share", cc="ping"))
        assert one.compute_mean(name, "upload, Mbit/s") == pytest.approx(
            mean("goodput_mbit", cc="cubic", direction="up")
        )
        hops = home.where(f"bottleneck.aqm={name}").hops.filter(hop="reverse")
        assert one.compute_mean(name, "utilisation of reverse, %") == pytest.approx(100 * fmean(hops["utilisation"]))
        pages = home.where(f"bottleneck.aqm={name}").short_flows.filter(pl.col("slowdown").is_not_nan())
        slow = pages.group_by("key").agg(pl.col("slowdown").quantile(0.99, "higher"))["slowdown"].mean()
        assert one.compute_mean(name, "page, slow-down P99") == pytest.approx(slow)


@pytest.mark.slow
def test_flow_queues_win_by_what_waits_and_the_cost_is_said(home: Results, tmp_path: Path) -> None:
    (one,) = felt.compare_settings(home._runs)
    ranked = verdict.rank_settings(one)
    assert (ranked.order[0], ranked.order[-1]) == ("fq_codel", "pfifo")
    page = home.report(tmp_path / "x.html").read_text(encoding="utf-8")
    section = page.partition('id="verdict"')[2].partition("</section>")[0]
    assert 0 < page.find('id="verdict"') < page.find('id="run"') < page.find('id="findings"')
    rows = [row.partition("</th>")[0].rpartition(">")[2] for row in section.split("<tr>")[2:]]
    assert rows == ranked.order
    up = {name: one.compute_mean(name, "upload, Mbit/s") or math.nan for name in one.settings}
    most = max(up, key=lambda name: up[name])
    less = float(f"{up[most] - up['fq_codel']:.3g}")
    cost = f"{less:.4g} less than the most, with {most}" if less else "the most of all"
    got = float(f"{up['fq_codel']:.3g}")
    assert f"upload {got:.4g} Mbit/s, {cost}" in section
    assert "3 seeds are few" in section
    # flows of two directions share no link
    assert "How the flows share" not in page and "for sure" not in page and "not sure" not in page
    # all that was run
    said = page.partition('id="run"')[2].partition("</section>")[0]
    for part in (
        '<th scope="row">reverse</th><td>rate 5Mbit',
        "link_layer pppoe-ptm",
        "pings, rate 7.84kbit",
        "arrivals 5/s",
    ):
        assert part in said, part
    assert said.count("direction up") == 2


@pytest.mark.slow
def test_the_default_figure_of_queues_is_of_what_waits(home: Results, tmp_path: Path) -> None:
    picture = home.plot()
    assert (picture.why or "").startswith("kind felt: 3 queue disciplines")
    labels = [" ".join(axes.get_xlabel().replace("-\n", "-").split()) for axes in picture.panels.values()]
    assert labels[:4] == [
        "call down, delay P99, ms",
        "call up, delay P99, ms",
        "ping, RTT P99, ms",
        "page, slow-down P99",
    ]
    assert labels[-2:] == ["download, Mbit/s", "upload, Mbit/s"]
    # bulk transfers alone wait for nobody but themselves
    bulk = described(duration="2s", seeds=[1, 2], matrix={"bottleneck.aqm": ["pfifo", "codel", "pie"]})
    results = dumbbell.run(bulk, output=tmp_path / "bulk.duckdb", progress=False)
    assert not felt.compare_settings(results._runs) and not (results.plot().why or "").startswith("kind felt")
    # nor do two sources of UDP that fill the link
    flood = bulk | {"udp": [{"rate": "5Mbit"}]}
    results = dumbbell.run(flood, output=tmp_path / "flood.duckdb", progress=False)
    assert not felt.compare_settings(results._runs)


def comparison(delays: dict[str, list[float]], losses: dict[str, float]) -> SettingComparison:
    """Return settings with these delays of a ping, ms, by seed, and losses, %."""
    columns = [Felt("ping", "a ping takes {}", "ping", "delay"), Felt("loss", "it loses {}", "ping", "loss")]
    rows = [
        {"setting": name, "seed": seed, "hash": f"{name} {delay} {seed}", "label": label, "value": value}
        for name, values in delays.items()
        for seed, delay in enumerate(values)
        for label, value in (("ping", delay), ("loss", losses.get(name, 0.0)))
    ]
    seeds = len(next(iter(delays.values())))
    return SettingComparison(["bottleneck.aqm"], {}, list(delays), columns, pl.DataFrame(rows), seeds)


def test_settings_are_ordered_by_loss_and_then_by_delay() -> None:
    delays = {"a": [30.0, 31.0, 30.5], "b": [20.0, 20.5, 21.0], "c": [10.0, 10.1, 10.2], "d": [20.1, 20.4, 21.1]}
    one = comparison(delays, {"c": 1.0, "d": 0.9})
    ranked = verdict.rank_settings(one)
    # 1 % of the packets of c never arrive, so that it has no P99, however short the others wait
    assert ranked.order == ["b", "d", "a", "c"]
    assert ranked.worse["a"] is True and ranked.worse["d"] is False
    text = " ".join(verdict.describe_verdict(one, ranked))
    assert "By what people feel, b and d are not distinguished by 3 seeds" in text and "3 seeds are few" in text
    # logarithms of a / b: 0.405, 0.413, 0.373: mean 0.397, deviation 0.0212, t = 32.5; with 2 degrees p = 0.0009
    assert "No flow measures what it costs." in text


def test_one_seed_and_less_than_a_bin_decide_nothing() -> None:
    alone = comparison({"a": [10.0], "b": [20.0]}, {})
    assert verdict.rank_settings(alone).worse == {"b": None}
    assert "one seed" in " ".join(verdict.describe_verdict(alone, verdict.rank_settings(alone)))
    # always 1 % longer, which is less than a bin of the histogram that percentiles are read from
    bins = comparison({"a": [10.0, 11.0, 12.0, 13.0], "b": [10.1, 11.11, 12.12, 13.13]}, {})
    assert verdict.rank_settings(bins).worse == {"b": False}
    wider = comparison({"a": [10.0, 11.0, 12.0, 13.0], "b": [10.3, 11.33, 12.36, 13.39]}, {})
    assert verdict.rank_settings(wider).worse == {"b": True}
    same = comparison({"a": [10.0, 11.0], "b": [10.0, 11.0]}, {})
    assert "a and b have the same values in every run" in " ".join(
        verdict.describe_verdict(same, verdict.rank_settings(same))
    )


def test_each_combination_of_other_keys_has_a_verdict(tmp_path: Path) -> None:
    table = described(
        seeds=[1, 2],
        udp=[{"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"}],
        matrix={"bottleneck.aqm": ["pfifo", "fq_codel"], "bottleneck.rate": ["5Mbit", "10Mbit"]},
    )
    results = dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False)
    found = felt.compare_settings(results._runs)
    assert [one.where for one in found] == [{"bottleneck.rate": "5Mbit"}, {"bottleneck.rate": "10Mbit"}]
    assert all(one.settings == ["pfifo", "fq_codel"] for one in found)


def test_keys_that_change_with_a_queue_are_named_with_it(tmp_path: Path) -> None:
    table = described(
        seeds=[1, 2],
        udp=[{"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"}],
        matrix={"bottleneck.aqm, bottleneck.rate": [["pfifo", "5Mbit"], ["fq_codel", "10Mbit"]]},
    )
    (one,) = felt.compare_settings(dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False)._runs)
    assert sorted(one.keys) == ["bottleneck.aqm", "bottleneck.rate"] and not one.where
    assert [set(setting.split(" / ")) for setting in one.settings] == [{"pfifo", "5Mbit"}, {"fq_codel", "10Mbit"}]


def test_every_key_that_is_not_usual_is_said() -> None:
    usual = {"rate": 10**7, "path": [], "delay": 0}
    first = {"aqm": {"name": "pfifo", "limit": 1000}, "shaper": "link"}
    second = {"aqm": {"name": "pfifo", "limit": 50}, "shaper": "htb"}
    configs = [{"bottleneck": usual | one} for one in (first, second)]
    assert setting.describe_sections(configs) == [
        ("bottleneck", "rate 10Mbit, aqm pfifo | pfifo(limit=50), shaper link | htb")
    ]


def test_where_no_link_is_used_much_the_verdict_says_that_the_queue_matters_little() -> None:
    one = comparison({"a": [10.0, 10.1, 10.2], "b": [14.0, 14.1, 14.3]}, {})
    use = Felt("utilisation of bottleneck, %", "the link is used to {}", "bottleneck", "use", " %", more_is_better=True)

    def add_use(share: float) -> SettingComparison:
        rows = one.frame.filter(label="ping").with_columns(label=pl.lit(use.label), value=pl.lit(share))
        frame = pl.concat([one.frame, rows])
        return dataclasses.replace(one, columns=[*one.columns, use], frame=frame)

    said = {share: verdict.describe_verdict(add_use(share), verdict.rank_settings(one)) for share in (11.2, 80.0)}
    assert said[11.2][1].startswith("No link is used to more than 11.2 %, so that little waits")
    assert said[80.0][1] == "No flow measures what it costs."
