"""The guard: is the engine as cheap as the committed figures say.

python -m benches.guard                   make guard: fails if a case takes over 2 % more instructions per packet
python -m benches.guard --update REASON   make guard-update: writes the figures as they are now

Instructions do not depend on the machine's speed or load, so they can be held to 2 % where times cannot. They depend
on the compiler: with another one than the committed figures have, nothing is compared. What the system's library
executes (copies of memory, the allocator) is left out: it chooses its code by the processor.
"""

import json
import sys
import tomllib
from pathlib import Path

from benches import callgrind, program

FIGURES = Path(__file__).with_name("instructions.toml")
# It optimises every crate by itself, so that a change moves only what is compiled with it.
PROFILE = "guard"
ALLOWED = 0.02
# (simulated milliseconds of a run, and of a longer one): what is counted lies between the two
CASES = {"a": (500, 1000), "f": (70, 90), "h": (200, 400)}
SAME = 0.002  # of an update: a figure that has changed by less keeps its reason
HEAD = """\
# Instructions per packet of cases of crates/dumbbell-sim/benches/packets.rs, without those of the system's library.
# `make guard` fails if one takes over 2 % more; `make guard-update REASON="…"` writes the present ones.
"""


def count_instructions() -> dict[str, float]:
    """Return the instructions per packet of each case, as the engine is now."""
    binary = program.build_program(PROFILE)

    def count_total(case: str, millis: int) -> tuple[int, int]:
        profile = callgrind.run(binary, ["--only", case, str(millis)])
        return int(profile.printed), profile.sum_object(str(binary))

    found = {}
    for case, spans in CASES.items():
        (packets, before), (more_packets, after) = (count_total(case, millis) for millis in spans)
        found[case] = (after - before) / (more_packets - packets)
    return found


def update(reason: str) -> None:
    """Write the figures as they are now."""
    if not reason and sys.stdin.isatty():
        reason = input("Why do the figures change? ").strip()
    if not reason:
        raise SystemExit('a new figure needs its reason: make guard-update REASON="…"')
    if not callgrind.works():
        raise SystemExit("valgrind, which counts the instructions, is not installed or does not work here")
    before = tomllib.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    text = f'{HEAD}compiler = "{program.describe_compiler()}"\n'
    for case, now in count_instructions().items():
        then = before.get(case, {})
        kept = then and abs(now / then["instructions"] - 1) < SAME
        why = then["reason"] if kept else reason
        text += f"\n[{case}]\ninstructions = {now:.1f}\nreason = {json.dumps(why, ensure_ascii=False)}\n"
        print(f"{case}: {then['instructions']:.1f} -> {now:.1f}" if then else f"{case}: {now:.1f}")
    FIGURES.write_text(text, encoding="utf-8")


def check() -> None:
    """Compare the engine with the committed figures."""
    figures = tomllib.loads(FIGURES.read_text(encoding="utf-8"))
    if not callgrind.works():
        print("make guard: SKIPPED, no instructions are counted: valgrind is not installed or does not work here")
        return
    if (compiler := program.describe_compiler()) != figures["compiler"]:
        print(f"make guard: SKIPPED, the figures are of {figures['compiler']}, and this is {compiler}")
        print("            whoever moves to it writes new ones: make guard-update")
        return
    failed = False
    for case, now in count_instructions().items():
        then = figures[case]["instructions"]
        change = now / then - 1
        over = change > ALLOWED
        failed |= over
        verdict = "TOO MANY" if over else "fewer: make guard-update would keep it so" if change < -ALLOWED else "ok"
        print(f"case {case}: {now:.1f} instructions per packet, committed {then:.1f}, {100 * change:+.1f} %: {verdict}")
    if failed:
        raise SystemExit(
            f"over {100 * ALLOWED:.0f} % more instructions per packet. "
            'Who means it commits the new figures with the reason: make guard-update REASON="…"'
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--update"]:
        update(" ".join(sys.argv[2:]).strip())
    else:
        check()
