"""The experiment file of a set-up, with a comment for each value that says where it is from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dumbbell.experiment.settings import format_toml
from dumbbell.tc.hop import TcHop
from dumbbell.tc.options import Value
from dumbbell.tc.setup import TcSetup

_COLUMN, _MOST_LINES = 32, 40
_PING = {"rate": "7840bit", "size": "98B", "echo": True}  # ten a second, as ping sends them
_ASSUMED = "ASSUMED"
_ORDER = ("rate", "shaper", "burst", "link_layer", "overhead", "mpu", "framing")  # of a hop's keys


def format_experiment(setup: TcSetup, title: str, lines: Sequence[str]) -> str:
    """Return the file."""
    return "\n".join([*_list_lines(setup, title, lines), ""])


def _list_lines(setup: TcSetup, title: str, lines: Sequence[str]) -> Iterator[str]:
    yield "# Made by dumbbell tc. Each value has its source: a word of tc, or ASSUMED, which is yours to change."
    for line in lines[:_MOST_LINES]:
        yield f"#   {_make_plain(line)}"
    if len(lines) > _MOST_LINES:
        yield f"#   and {len(lines) - _MOST_LINES} lines more"
    yield _format_key("title", Value(title, ""))
    yield _format_key("duration", Value("30s", _ASSUMED))
    yield _format_key("seeds", Value([1, 2, 3], _ASSUMED))
    for name, hop in setup.hops.items():
        yield from _list_hop(name, hop)
    if any(hop.is_ppp for hop in setup.hops.values()):
        yield from _list_table("[hosts]", {"mss": Value("1440B", "ASSUMED: an MTU of 1492 bytes, that of PPPoE")})
    yield from _list_traffic(setup)


def _list_hop(name: str, hop: TcHop) -> Iterator[str]:
    keys = {key: hop.keys[key] for key in _ORDER if key in hop.keys}
    if hop.path:
        source = "; ".join(one.source for one in hop.path)
        keys["path"] = Value([one.toml for one in hop.path], source)
    yield from _list_table(f"[{name}]", keys, f"what leaves {hop.device}")
    yield from _list_table(f"[{name}.aqm]", hop.aqm)


def _list_traffic(setup: TcSetup) -> Iterator[str]:
    start = Value({"uniform": ["0s", "1s"]}, "ASSUMED: so that seeds differ")
    for direction in ("down", "up") if setup.up else ("down",):
        flow = {"cc": Value("cubic", _ASSUMED), "count": Value(2, _ASSUMED), "base_rtt": setup.base_rtt, "start": start}
        hop = setup.up if direction == "up" else setup.down
        if direction == "up":
            flow["direction"] = Value("up", f"through {setup.up.device if setup.up else ''}")
        for dscp, name in (hop.traffic if hop else []) or [("", "")]:
            own = {"dscp": Value(dscp, f"ASSUMED: the traffic of class {name}")} if dscp else {}
            yield from _list_table("[[flows]]", flow | own)
    ping = {key: Value(value, "") for key, value in _PING.items()}
    yield from _list_table("[[udp]]", ping | {"base_rtt": setup.base_rtt}, "ASSUMED: pings, ten a second")


def _list_table(head: str, keys: Mapping[str, Value], comment: str = "") -> Iterator[str]:
    yield ""
    yield _append_comment(head, comment)
    for key, value in keys.items():
        yield _format_key(key, value)


def _format_key(key: str, value: Value) -> str:
    return _append_comment(f"{key} = {format_toml(value.toml)}", value.source)


def _append_comment(text: str, comment: str) -> str:
    return f"{text:<{_COLUMN - 2}}  # {_make_plain(comment)}" if comment else text


def _make_plain(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def list_remarks(left: Mapping[str, str], notes: Iterable[str]) -> list[str]:
    """Return what was left out and what differs, one line each."""
    return [*(f"left out: {what}: {why}" for what, why in left.items()), *(f"note: {one}" for one in notes)]
