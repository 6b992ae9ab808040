"""Parses the queue that the title of a Flent file names."""

from __future__ import annotations

import re

from dumbbell.exchange.flent.file import Data
from dumbbell.exchange.measurement import Measurement, Origin, SetupFact, assume_fact, derive_fact
from dumbbell.experiment.registry import read_registry

_KEY = re.compile(r"\b(?:qdisc|aqm|queue)[:=]\s*([A-Za-z][\w.+-]*)")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z][A-Za-z0-9_]*)*")
# queues that are not here, or that a name only hints at, and what is nearest to each
_NEAREST = {
    "lfq_cobalt": ("fq_codel", "a queue for each flow"), "cobalt": ("codel", "CoDel with BLUE"),
    "sfq": ("fq_codel", "a queue for each flow"), "sfqred": ("fq_codel", "a queue for each flow"),
    "fq": ("fq_codel", "a queue for each flow"), "lfq": ("fq_codel", "a queue for each flow"),
    "sqm": ("fq_codel", "SQM shapes with fq_codel or Cake"), "fifo": ("pfifo", "one queue"),
    "pfifo_fast": ("pfifo", "one queue"), "droptail": ("pfifo", "one queue"), "ared": ("red", "RED"),
}  # fmt: skip
_TOO_SHORT = ("step", "red", "pie", "fq")  # words that a name may have for other reasons: only after a key
_SECTIONS = {"bottleneck": "dsthost", "reverse": "srchost"}  # of dual isolation: whose fairness shapes which way


def read_queues(data: Data, found: Measurement) -> None:
    """Take queues from title or file name where tc says none."""
    for section, hosts in _SECTIONS.items():
        if f"{section}.aqm" not in found.setup and (fact := _find_queue(data, hosts)) is not None:
            found.setup[f"{section}.aqm"] = fact


def _find_queue(data: Data, hosts: str) -> SetupFact | None:
    """Return the queue that a file names; None if it names none."""
    title, name = data.get_text("TITLE"), data.get_text("DATA_FILENAME")
    for text, where in ((title, "the title"), (name, "the name of the file")):
        if (match := _KEY.search(text)) and (
            fact := _parse_word(match[1], hosts, f"{where} says {match[0]}")
        ) is not None:
            return fact
    words = [word for word in _WORD.findall(title) if word.lower() not in _TOO_SHORT]
    for word in words:
        if (fact := _parse_word(word, hosts, f"the title has {word}")) is not None:
            return SetupFact(fact.text, fact.source, Origin.ASSUMED) if fact.origin is Origin.FILE else fact
    for word in _WORD.findall(name):
        if word.lower() not in _TOO_SHORT and (fact := _parse_word(word, hosts, "")) is not None:
            return assume_fact(fact.text, f"the name of the file has {word[:40]}")
    return None


def _parse_word(word: str, hosts: str, where: str) -> SetupFact | None:
    """Return the queue that a word names, alone or with more; None if it names none."""
    plain = word.lower().replace("-", "_").strip("_")
    if plain in read_registry().aqm:
        return SetupFact(f'"{plain}"', f"{where}; with the parameters of Linux, which it does not say")
    known = sorted([*read_registry().aqm, *_NEAREST], key=len, reverse=True)
    inside = next((name for name in known if re.search(rf"(?:^|_){name}(?:_|\d*$)", plain)), None)
    if inside is None or (inside in _TOO_SHORT and plain != inside):
        return None
    if inside in _NEAREST:
        nearest, what = _NEAREST[inside]
        if inside != plain and inside == "sqm":
            what = f"{what}, and it does not say which"
        return assume_fact(f'"{nearest}"', f"{where}: {what}, of which {nearest} is the nearest here")
    if inside == "cake":
        return derive_fact(_parse_cake(plain, hosts), where, "what else its name says is not known")
    return derive_fact(f'"{inside}"', where, "what else its name says is not known")


def _parse_cake(plain: str, hosts: str) -> str:
    """Return Cake with the isolation and the tins that a word has."""
    parts = ['name = "cake"']
    tins = re.search(r"besteffort|precedence|diffserv[348]", plain)
    if tins:
        parts.append(f'diffserv = "{tins[0]}"')
    isolations = [word for word in ("dual_srchost", "dual_dsthost", "triple_isolate") if word in plain]
    if {"dual_srchost", "dual_dsthost"} <= set(isolations):
        isolations = [f"dual_{hosts}"]
    if isolations:
        parts.append(f'isolation = "{isolations[0].replace("_", "-")}"')
    return f"{{ {', '.join(parts)} }}" if len(parts) > 1 else '"cake"'
