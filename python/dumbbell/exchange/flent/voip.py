"""The call of a Flent test: datagrams at an even pace, of which one-way delay, jitter and loss were measured."""

from __future__ import annotations

import numpy as np
import polars as pl

from dumbbell.exchange import measurement
from dumbbell.exchange.flent.file import Data
from dumbbell.exchange.measurement import Floats, ImportedFlow, derive_fact
from dumbbell.exchange.spelt import spell_rate

_HEADERS = 42  # Ethernet, IPv4 and UDP
_DELAYS = {"delay_p95_ms": 95.0, "delay_p99_ms": 99.0}


def read_flow(data: Data, name: str, points: Floats) -> ImportedFlow | None:
    """Return a call as a flow of UDP, which this host sends; None if nothing of it was measured."""
    samples = data.raw.get(name)
    plotted = {key: data.results.get(f"{name}::{key}", np.zeros(0)) for key in ("bitrate", "delay", "jitter", "loss")}
    found = ImportedFlow(name, "udp", "up")
    if samples is not None and len(samples.times) > 1:
        _take_packets(found, samples.times, samples.values)
    elif not any(np.isfinite(values).any() for values in plotted.values()):
        return None
    else:
        _take_points(found, data.x, plotted)
    bits = plotted["bitrate"]
    if np.isfinite(bits).any():
        mbit = measurement.hold_values(data.x, bits * 1e-3, points)
        lives = (points > found.start_s) & (points <= found.end_s + 1e-9)
        found.series = pl.DataFrame(
            {"time_s": points, "goodput_mbit": measurement.make_column(np.where(lives, mbit, np.nan))}
        )
    return found


def _take_packets(found: ImportedFlow, times: Floats, values: dict[str, Floats]) -> None:
    """Take what single packets say: one-way delays, jitter as RFC 3550 has it, gaps in their numbers."""
    found.start_s, found.end_s = max(0.0, float(times.min())), float(times.max())
    seconds = float(times.max() - times.min())
    delays = values.get("val", np.full(len(times), np.nan))
    known = np.isfinite(delays)
    if known.any():
        found.figures |= _summarise_delays(delays[known])
    if known.sum() > 1:
        jitter, total = 0.0, 0.0
        for step in np.abs(np.diff(delays[known])).tolist():
            jitter += (step - jitter) / 16  # RFC 3550, section 6.4.1
            total += jitter
        found.figures |= {"jitter_ms": jitter, "jitter_mean_ms": total / int(known.sum())}
    sizes, numbers = values.get("size", np.zeros(0)), values.get("seq", np.zeros(0))
    numbers = np.unique(numbers[np.isfinite(numbers)])
    sent = int(numbers[-1] - numbers[0]) + 1 if len(numbers) > 1 else len(times)
    if 0 < sent < 2 * MOST_LOST * len(times):
        found.figures["sent"], found.lost = sent, max(0, sent - len(numbers)) if len(numbers) > 1 else 0
    if np.isfinite(sizes).any() and seconds > 0:
        size = float(np.nanmedian(sizes))
        if not 0 < size <= measurement.FRAME_BYTES:
            return
        found.figures["goodput_mbit"] = float(np.nansum(sizes[1:])) * 8e-6 / seconds
        found.frames_per_payload = (size + _HEADERS) / size
        found.size = derive_fact(
            f"{round(size) + _HEADERS}B", f"its datagrams of {size:.0f} bytes, with headers", "+-0 B"
        )
        pace = max(sent - 1, 1) * (size + _HEADERS) * 8 / seconds
        found.rate = derive_fact(spell_rate(max(pace, 1000.0)), "its datagrams, those that were lost too", "+-0.5 %")


MOST_LOST = 100  # times as many as arrived: numbers beyond are of something else


def _take_points(found: ImportedFlow, x: Floats, plotted: dict[str, Floats]) -> None:
    """Take what was plotted, where single packets are not kept."""
    there = np.any([np.isfinite(values) for values in plotted.values() if len(values)], axis=0)
    found.start_s, found.end_s = max(0.0, float(x[there].min())), float(x[there].max())
    means = {key: float(np.nanmean(values)) for key, values in plotted.items() if np.isfinite(values).any()}
    if "bitrate" in means:
        found.figures["goodput_mbit"] = means["bitrate"] * 1e-3
    if "delay" in means:
        found.figures["delay_mean_ms"] = means["delay"]
    if "jitter" in means:
        found.figures["jitter_mean_ms"] = means["jitter"]


def _summarise_delays(delays: Floats) -> dict[str, float | int]:
    at = np.percentile(delays, list(_DELAYS.values()), method="inverted_cdf")
    found: dict[str, float | int] = dict(zip(_DELAYS, map(float, at), strict=True))
    return found | {
        "delay_mean_ms": float(delays.mean()),
        "delay_min_ms": float(delays.min()),
        "delay_max_ms": float(delays.max()),
    }
