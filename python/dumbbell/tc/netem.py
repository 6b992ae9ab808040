"""netem of tc(8): delay, jitter, loss, reordering and a rate, as base RTTs, stages of a path and a link."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dumbbell.errors import Missing, UnknownName, Unsupported, quote_value
from dumbbell.experiment import units
from dumbbell.tc import quantities
from dumbbell.tc.lexer import Word, place_error
from dumbbell.tc.options import ENGINE, Value, refuse_variable

_LIMIT = 1000  # packets; tc-netem(8)


@dataclass
class Netem:
    """The effects of a netem."""

    word: Word
    delay: int = 0
    """The constant part of its delay, ns."""
    mean: int = 0
    """Its mean delay, ns, in which packets count towards `limit`."""
    delay_text: str = ""
    rate: Value | None = None
    limit: int = _LIMIT
    limit_text: str = f"netem's default limit, {_LIMIT} packets"
    overhead: int = 0
    """Bytes for each packet at its rate."""
    stages: list[Value] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


@dataclass
class _Reader:
    """The words of a netem that are left, and what those before them say."""

    words: list[Word]
    found: Netem
    jitter: tuple[int, Word] | None = None
    loss: Value | None = None
    reorder: tuple[float, str] | None = None

    def take_word(self, after: Word, what: str) -> Word:
        """Take the next word; raises InputError if there is none."""
        if not self.words:
            raise place_error(Missing(what, key=f"netem {after}"), after)
        refuse_variable(self.words[0])
        return self.words.pop(0)

    def take_number(self) -> Word | None:
        """Take the next word if it is a quantity."""
        return self.words.pop(0) if self.words and quantities.is_number(self.words[0]) else None

    def refuse_correlation(self, word: Word, of: str) -> None:
        """Raise InputError for a correlation, unless it is 0."""
        given = self.take_number()
        if given is not None and quantities.parse_share(given) > 0:
            raise place_error(
                Unsupported(
                    f"a correlation of {of} ({given})", f"{word} without it: {of} is independent", where=ENGINE
                ),
                given,
            )


def _read_delay(reader: _Reader, word: Word) -> None:
    time = reader.take_word(word, "a time, such as 20ms")
    reader.found.delay = reader.found.mean = quantities.parse_time(time)
    reader.found.delay_text = f"netem {word} {time}"
    jitter = reader.take_number()
    if jitter is None:
        return
    reader.jitter = (quantities.parse_time(jitter), jitter)
    reader.found.delay_text += f" {jitter}"
    reader.refuse_correlation(word, "the delay")


def _read_distribution(reader: _Reader, word: Word) -> None:
    name = reader.take_word(word, "uniform")
    if name != "uniform":
        raise place_error(
            Unsupported(f"the distribution {name}", "uniform, the only one of jitter here", where=ENGINE), name
        )


def _read_loss(reader: _Reader, word: Word) -> None:
    model = reader.take_word(word, "a percentage, such as 1%")
    if model == "random":
        model = reader.take_word(word, "a percentage, such as 1%")
    if model == "state":
        raise place_error(Unsupported("loss state", "gemodel, which is the stage burst_loss", where=ENGINE), model)
    if model == "gemodel":
        # p, r, 1-h and 1-k; without r each packet changes the state alone
        shares = [quantities.parse_share(one) for one in iter(reader.take_number, None)]
        if not 1 <= len(shares) <= 4:
            raise place_error(Missing("one to four percentages: p, r, 1-h, 1-k", key="netem loss gemodel"), model)
        p, r, in_bad, in_good = [*shares, *(1 - shares[0], 1.0, 0.0)[len(shares) - 1 :]]
        stage = {"name": "burst_loss", "p": p, "r": r, "h": 1 - in_bad, "k": 1 - in_good}
        reader.loss = Value(stage, "netem loss gemodel")
        return
    reader.loss = Value({"name": "loss", "probability": quantities.parse_share(model)}, f"netem {word} {model}")
    reader.refuse_correlation(word, "losses")


def _read_reorder(reader: _Reader, word: Word) -> None:
    share = reader.take_word(word, "a percentage, such as 25%")
    reader.reorder = (quantities.parse_share(share), f"netem {word} {share}")
    reader.refuse_correlation(word, "reordering")


def _read_gap(reader: _Reader, word: Word) -> None:
    gap = reader.take_word(word, "a number of packets")
    if quantities.parse_count(gap) > 1:
        raise place_error(Unsupported(f"a gap of {gap}", "reorder with a probability alone", where=ENGINE), gap)


def _read_rate(reader: _Reader, word: Word) -> None:
    rate = reader.take_word(word, "a rate, such as 10mbit")
    reader.found.rate = Value(units.show("rate", quantities.parse_rate(rate)), f"netem {word} {rate}")
    if reader.words and reader.words[0].lstrip("-").isdigit():
        overhead = reader.words.pop(0)
        if overhead.startswith("-") or not 0 <= quantities.parse_count(overhead) <= 200:
            raise place_error(Unsupported(f"an overhead of {overhead} bytes", "0 to 200", where=ENGINE), overhead)
        reader.found.overhead = quantities.parse_count(overhead)
    cells = reader.take_number()
    if cells is not None and quantities.parse_count(cells):
        raise place_error(
            Unsupported("cells of netem", "stab linklayer atm, or framing in the file", where=ENGINE), cells
        )
    reader.take_number()


def _read_limit(reader: _Reader, word: Word) -> None:
    limit = reader.take_word(word, "a number of packets")
    reader.found.limit, reader.found.limit_text = quantities.parse_packets(limit), f"netem {word} {limit}"


def _read_seed(reader: _Reader, word: Word) -> None:
    seed = reader.take_word(word, "a number")
    reader.found.left[f"netem {word} {seed}"] = "seeds of the file take its place"


_REMEDIES = {
    "duplicate": "a netem without duplicates",
    "corrupt": "loss: a wrong checksum makes a receiver drop the packet",
    "slot": "the stage batch in the file",
    "ecn": "loss without ecn, or a queue with ecn",
}


def _refuse_word(_reader: _Reader, word: Word) -> None:
    raise place_error(Unsupported(f"{word} of netem", _REMEDIES[word], where=ENGINE), word)


_READERS: dict[str, Callable[[_Reader, Word], None]] = {
    "delay": _read_delay,
    "latency": _read_delay,
    "distribution": _read_distribution,
    "loss": _read_loss,
    "drop": _read_loss,
    "reorder": _read_reorder,
    "gap": _read_gap,
    "rate": _read_rate,
    "limit": _read_limit,
    "seed": _read_seed,
    **dict.fromkeys(_REMEDIES, _refuse_word),
}


def read_netem(kind: Word, words: Sequence[Word]) -> Netem:
    """Return what a netem does; raises InputError for what it cannot do here."""
    reader = _Reader(list(words), Netem(kind))
    while reader.words:
        word = reader.take_word(kind, "an option")
        read = _READERS.get(word)
        if read is None:
            raise place_error(UnknownName(quote_value(str(word)), among=list(_READERS), what="word of netem"), word)
        read(reader, word)
    _finish(reader)
    return reader.found


def _finish(reader: _Reader) -> None:
    found = reader.found
    stages: list[Value] = []
    if reader.loss is not None:
        stages.append(reader.loss)
    if reader.reorder is not None:
        share, text = reader.reorder
        if reader.jitter and reader.jitter[0]:
            raise place_error(Unsupported("reorder with jitter", "one of them", where=ENGINE), reader.jitter[1])
        if share < 1 and found.delay:
            # netem delays all others: an undelayed packet overtakes them
            stage: dict[str, Any] = {"name": "reorder", "probability": round(1 - share, 12)}
            stage["delay"] = units.show("time", found.delay)
            stages.append(Value(stage, f"{found.delay_text} {text}: all packets but these are delayed"))
            found.delay = 0
        else:
            found.left[text] = "no packet is delayed more than another"
            found.delay = 0
    elif reader.jitter and reader.jitter[0]:
        stages.append(_make_jitter(found, *reader.jitter))
    found.stages = stages


def _make_jitter(found: Netem, jitter: int, word: Word) -> Value:
    """Return the stage of a delay that varies by +- `jitter`; the smallest delay stays part of the base RTT."""
    if found.rate is None:
        raise place_error(
            Unsupported(
                f"the jitter of {word}, with which packets overtake each other",
                "rate in the same netem, with which Linux keeps the order, too, or delay alone",
                where=ENGINE,
            ),
            word,
        )
    if jitter > found.delay:
        raise place_error(
            Unsupported(f"a jitter of {word} around a smaller delay", "a delay as long as the jitter", where=ENGINE),
            word,
        )
    found.delay -= jitter
    stage = {"name": "jitter", "max": units.show("time", 2 * jitter)}
    return Value(stage, f"{found.delay_text}: from {units.show('time', found.delay)} on")
