"""The playground in headless Chromium: sizes, time until the first picture, frame times, and memory over a long run.

`python -m benches.playground` prints a table as docs/speed.md has it; `--minutes N` lets one run be played for so long
in real time as well. `make play` builds the page first.
"""

import argparse
import gzip
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dumbbell.figures.html import to_json
from dumbbell.play.play_page import GIVEN, PAGE
from website import browser

MODULE = Path(__file__).parent.parent / "target" / "wasm" / "dumbbell.wasm"
SIZE = (1400, 900)
MS, SECOND = 10**6, 10**9
HALF_AN_HOUR_S = 1800
_FLOWS = [{"cc": {"name": cc}, "base_rtt": 40 * MS} for cc in ("cubic", "bbr3", "reno", "cubic")]
# 100 Mbit/s with four flows
FOUR_FLOWS: dict[str, Any] = {
    "title": "100 Mbit/s, four flows",
    "duration": 60 * SECOND,
    "seed": 1,
    "bottleneck": {"rate": 100_000_000, "aqm": {"name": "fq_codel"}},
    "flows": _FLOWS,
}
LONG = FOUR_FLOWS | {
    "title": "Half an hour",
    "duration": HALF_AN_HOUR_S * SECOND,
    "bottleneck": {"rate": 20_000_000, "aqm": {"name": "fq_codel"}},
}
# collects the times between frames while a run plays
FRAMES = """
(async seconds => {
  const times = [];
  let last = performance.now();
  const end = last + 1000 * seconds;
  while (last < end) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times.slice(5).sort((a, b) => a - b);
})
"""
COUNTS = """
(({ side, now }) => ({
  now: Math.round(now / 1000),
  engine: side.memory / 1e6,
  snapshots: side.snapshots,
  samples: side.data.samples.length,
  sentences: side.data.stories.kept.length,
  states: side.data.states.kept.length,
}))(playground)
"""


def open_page(page: browser.Browser, folder: Path, experiment: dict[str, Any]) -> float:
    """Open the page with an experiment; return how long it took until the first picture was there, ms."""
    given = to_json({"experiment": experiment, "digest": None})
    file = folder / "play.html"
    file.write_text(PAGE.read_text(encoding="utf-8").replace(GIVEN, f"{GIVEN}{given}", 1), encoding="utf-8")
    page.set_window(SIZE)
    page.open_address(file.as_uri())
    while not page.evaluate("performance.getEntriesByName('first picture').length"):
        time.sleep(0.02)
    shown: float = page.evaluate("performance.getEntriesByName('first picture')[0].startTime")
    return shown


def set_speed(page: browser.Browser, speed: str) -> None:
    """Play at a speed."""
    page.evaluate(f"playground.pause(), playground.speed = {speed}, playground.play()")


def measure_frames(page: browser.Browser, seconds: float) -> dict[str, float]:
    """Return quantiles of the times between frames, ms."""
    times = page.evaluate(f"({FRAMES})({seconds})")
    return {f"p{share}": times[min(len(times) - 1, len(times) * share // 100)] for share in (50, 95, 99)}


def _list_descendants(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text(encoding="ascii").split()):
            yield child
            yield from _list_descendants(child)


def measure_memory(page: browser.Browser) -> dict[str, float]:
    """Return what the page keeps, its heap after a collection of garbage, and the memory of its process, MB."""
    page.call("HeapProfiler.collectGarbage")
    found: dict[str, float] = page.evaluate(COUNTS)
    resident = []
    for process in _list_descendants(os.getpid()):
        folder = Path(f"/proc/{process}")
        if b"--type=renderer" in (folder / "cmdline").read_bytes():
            resident.append(int((folder / "statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    heap = page.call("Runtime.getHeapUsage")["usedSize"]
    sizes = {"heap": heap / 1e6, "process": max(resident) / 1e6}
    return {key: round(value, 1) for key, value in (found | sizes).items()}


def measure_sizes() -> dict[str, int]:
    """Return the bytes of the page and of the engine's module, as files and compressed by gzip."""
    files = {"page": PAGE, "module": MODULE}
    sizes = {name: file.read_bytes() for name, file in files.items()}
    return {name: len(found) for name, found in sizes.items()} | {
        f"{name}, gzip": len(gzip.compress(found, 9)) for name, found in sizes.items()
    }


def measure_long_run(page: browser.Browser, folder: Path, speed: str, minutes: int) -> Iterator[dict[str, float]]:
    """Yield the memory at the end of each minute, in which a run of half an hour is played, repeatedly if need be."""
    open_page(page, folder, LONG)
    set_speed(page, speed)
    start = time.monotonic()
    for minute in range(1, minutes + 1):
        while time.monotonic() - start < 60 * minute:
            time.sleep(0.5)
            page.evaluate("playground.isPlaying || playground.play()")
        yield measure_memory(page)


def main() -> None:
    """Print what was measured."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long frames are counted")
    parser.add_argument("--minutes", type=int, default=0, help="how long a run is played in real time for its memory")
    parser.add_argument("--fast", type=int, default=0, help="minutes at the highest speed for its memory")
    options = parser.parse_args()
    program = browser.find_program()
    if program is None:
        raise SystemExit("Chromium is not installed")
    print(json.dumps(measure_sizes()))
    with tempfile.TemporaryDirectory() as name, browser.open_browser(program) as page:
        folder = Path(name)
        page.call("HeapProfiler.enable")
        print("first picture, ms", [round(open_page(page, folder, FOUR_FLOWS)) for _ in range(3)])
        for speed in ("0.01", "1", "Infinity"):
            open_page(page, folder, FOUR_FLOWS)
            set_speed(page, speed)
            frames = measure_frames(page, options.seconds)
            print(f"speed {speed}", {key: round(value, 1) for key, value in frames.items()}, measure_memory(page))
        for speed, minutes in (("Infinity", options.fast), ("1", options.minutes)):
            for found in measure_long_run(page, folder, speed, minutes) if minutes else ():
                print(f"speed {speed}", found, flush=True)
        print("errors", page.errors, "requests", page.outside)


if __name__ == "__main__":
    main()
