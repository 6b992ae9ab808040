"""`police` of tc(8), in a filter or as an action: the stage policer of a path."""

from collections.abc import Sequence

from dumbbell.errors import Missing, Unsupported, WrongValue, quote_value
from dumbbell.tc import quantities
from dumbbell.tc.lexer import Word, place_error
from dumbbell.tc.options import ENGINE, Option, Table, Value, leave, read_options, refuse, spell_rate, spell_size, take

_EXCEEDS = ("drop", "shot", "reclassify", "continue", "pass", "ok", "pipe")
_LAYER = "overhead of the hop, in the file: the policer counts frames of Ethernet"
_LONGEST = 1514  # bytes of a frame: what is shorter than `mtu` passes it

_POLICE: Table = {
    "rate": take("rate", spell_rate),
    **dict.fromkeys(("burst", "buffer", "maxburst"), take("burst", spell_size)),
    **dict.fromkeys(("mtu", "minburst"), take("mtu", quantities.parse_size)),
    **dict.fromkeys(("conform-exceed", "action"), take("exceed", str)),
    **{one: Option("exceed", value=one) for one in _EXCEEDS},
    "mpu": refuse(_LAYER, spell_size),
    "overhead": refuse(_LAYER, spell_size),
    "linklayer": refuse(_LAYER, str),
    "peakrate": refuse("rate and burst alone", spell_rate),
    "avrate": refuse("rate and burst, a token bucket", spell_rate),
    "pkts_rate": refuse("rate and burst, in bytes", str),
    "pkts_burst": refuse("rate and burst, in bytes", str),
    "index": leave("it names the policer for other filters", str),
    "flowid": leave("packets that conform are all in the same queue", str),
    "classid": leave("packets that conform are all in the same queue", str),
}
KEYS = tuple(_POLICE)


def read_policer(kind: Word, words: Sequence[Word]) -> Value:
    """Return the stage; raises InputError for a policer that does something else than drop what exceeds its rate."""
    keys: dict[str, str] = {}
    exceed, exceed_word = "reclassify", kind
    texts = []
    for given in read_options(kind, words, _POLICE, kind):
        if given.option.key == "exceed":
            exceed, exceed_word = str(given.value).partition("/")[0], given.argument or given.word
        elif given.option.key == "mtu":
            if given.value < _LONGEST:
                allowed = f"{_LONGEST} or more: no frame here is longer"
                raise place_error(WrongValue(f"{given.value} bytes", allowed, key="police mtu"), given.word)
        elif given.option.key:
            keys[given.option.key] = given.value
            texts.append(given.text)
    for key in ("rate", "burst"):
        if key not in keys:
            raise place_error(Missing(f"{key} of the policer", key=f"police {key}"), kind)
    if exceed not in _EXCEEDS:
        known = ", ".join(_EXCEEDS)
        raise place_error(WrongValue(quote_value(exceed), known, key="police action"), exceed_word)
    if exceed not in ("drop", "shot"):
        found = f"{exceed} for packets that exceed the rate" + (", tc's default," if exceed_word is kind else "")
        raise place_error(Unsupported(found, "drop behind the burst", where=ENGINE), exceed_word)
    return Value({"name": "policer", **keys}, f"police {' '.join(texts)}")
