"""Settings that a kernel reports, next to those that it was given: iproute2 leaves out what it takes for "not given".

tc(8) sends many attributes only if they are not zero, rounds times and rates, and says nothing of either; a parameter
of a module that the kernel does not know is ignored. So everything that a plan tells is read back after the run.

What may differ is the kernel's own granularity, and that of what tc prints:

- CoDel counts in units of 1024 ns (include/net/codel.h, CODEL_SHIFT) and drops the rest.
- PIE's target and netem's delay are ticks of 64 ns (include/net/pkt_sched.h, PSCHED_SHIFT); tc prints whole us of them.
- Rates are bytes per second; of HTB's, tc without JSON prints three to six digits.
- HTB's burst is the time that it takes at the rate: tc(8) counts that in whole us when it tells, and when it prints.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Read = Callable[[str], Any]
_CODEL_SHIFT, _PSCHED_SHIFT = 10, 6  # of ns
_PRINTED = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZES = {"": (1, 0), "K": (1024, 16), "M": (1024**2, 1024)}  # and how far tc rounds: iproute2, lib/utils.c, print_size


@dataclass(frozen=True)
class Setting:
    """A value that the kernel was given: `asked`, in words, and what it may say that it has, `least` to `most`."""

    key: str
    """The key of the experiment file, or what it becomes in the kernel."""
    asked: str
    command: str
    """Prints what the kernel has: a command of the shell, or `read SPACE FILE…`, which guest.c does itself."""
    read: Read
    """Finds it in what is printed; None, or any LookupError, ValueError or TypeError, if it is not there."""
    least: Any
    most: Any

    def find_difference(self, printed: str) -> str | None:
        """Return what the kernel has instead, in words; None if it has what it was given."""
        try:
            got = self.read(printed)
        except (LookupError, ValueError, TypeError):
            got = None
        if got is not None and type(got) in (int, float) and type(self.least) in (int, float):
            fits = self.least <= got <= self.most
        else:
            fits = got == self.least
        return None if fits else f"{self.key}: asked {self.asked}, got {_show_value(got)}"


def _show_value(value: Any) -> str:
    """Return what a kernel has, in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value is None else str(value)


def make_exact_setting(key: str, value: Any, command: str, read: Read) -> Setting:
    """Return a setting without any rounding."""
    return Setting(key, _show_value(value), command, read, value, value)


def find_differences(settings: Iterable[Setting], printed: Mapping[str, str]) -> list[str]:
    """Return the settings in which a kernel differs from its plan; `printed` has what each command printed."""
    said = (one.find_difference(printed.get(one.command, "")) for one in settings)
    return list(dict.fromkeys(text for text in said if text is not None))


def list_commands(settings: Iterable[Setting]) -> list[str]:
    """Return the commands that print the settings, in order."""
    return list(dict.fromkeys(one.command for one in settings))


# queue disciplines


def _find_options(printed: str, **found: str) -> dict[str, Any]:
    """Return the options of the discipline with these fields, of `tc -j qdisc show`; raises LookupError."""
    for one in json.loads(printed):
        if all(one.get(name) == value for name, value in found.items()):
            return dict(one["options"])
    raise LookupError


def _round_as_codel(us: int) -> int:
    """Return the whole us that tc prints of a time that CoDel has in units of 1024 ns."""
    return (us * 1000 >> _CODEL_SHIFT << _CODEL_SHIFT) // 1000


def _round_as_pie(us: int) -> int:
    """Return the whole us that tc prints of a time in ticks of 64 ns."""
    return (us * 1000 >> _PSCHED_SHIFT << _PSCHED_SHIFT) // 1000


_Us = Callable[[int], int]
_TIMES: dict[str, dict[str, _Us]] = {
    "codel": dict.fromkeys(("target", "interval", "ce_threshold"), _round_as_codel),
    "fq_codel": dict.fromkeys(("target", "interval", "ce_threshold"), _round_as_codel),
    "pie": {"target": _round_as_pie, "tupdate": int},
    "fq_pie": {"target": _round_as_pie, "tupdate": int},
    "cake": {"rtt": int},
}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "pfifo": ("limit",),
    "bfifo": ("limit",),
    "codel": ("limit",),
    "fq_codel": ("limit", "flows", "quantum", "memory_limit", "drop_batch"),
    "pie": ("limit", "alpha", "beta"),
    "fq_pie": ("limit", "flows", "quantum", "alpha", "beta", "ecn_prob"),
    "red": ("limit", "min", "max"),
    "cake": ("overhead", "mpu", "memlimit"),
    "fq": ("limit", "flow_limit"),
}
# words alone: the key, the field of JSON, and its value; tc prints some flags only if they are set
_Flags = dict[str, tuple[str, str, Any]]


def _make_flags(*names: str, off: str = "no") -> _Flags:
    return {word: (name, name, on) for name in names for word, on in ((name, True), (f"{off}{name}", False))}


_FRAMINGS = {"noatm": "none", "atm": "atm", "ptm": "ptm"}
_CAKE: _Flags = {
    **{word: ("diffserv", "diffserv", word) for word in ("besteffort", "diffserv3", "diffserv4", "diffserv8")},
    "precedence": ("diffserv", "diffserv", "precedence"),
    **{
        word: ("isolation", "flowmode", word)
        for word in ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost")
    },
    "triple-isolate": ("isolation", "flowmode", "triple-isolate"),
    "ingress": ("ingress", "ingress", True),
    "egress": ("ingress", "ingress", False),
    "no-ack-filter": ("ack_filter", "ack-filter", "disabled"),
    "ack-filter": ("ack_filter", "ack-filter", "enabled"),
    "ack-filter-aggressive": ("ack_filter", "ack-filter", "aggressive"),
    "no-split-gso": ("split_gso", "split_gso", False),
    **{word: ("framing", "atm", word) for word in _FRAMINGS},
}
_WORDS: dict[str, _Flags] = {
    "codel": _make_flags("ecn"),
    "fq_codel": _make_flags("ecn"),
    "pie": _make_flags("ecn", "bytemode") | _make_flags("dq_rate_estimator", off="no_"),
    "fq_pie": _make_flags("ecn", "bytemode") | _make_flags("dq_rate_estimator", off="no_"),
    "red": _make_flags("ecn", "harddrop", "nodrop"),
    "cake": _CAKE,
}
# with a value, and not to be read back: RED's are what tc computes the kernel's from
_NOT_READ = {"red": ("avpkt", "burst", "bandwidth", "probability")}
# words for a whole set of values, which those behind them replace in part
_PRESETS = ("raw", "ethernet", "ether-vlan", "docsis")


def find_unknown_words(text: str) -> list[str]:
    """Return the words of a queue discipline that `read_back_queue` does not read back, and is not told to leave."""
    return [words for _, words, setting in _parse_options(text, "", "", lambda _: {}) if setting is None and words]


def read_back_queue(text: str, place: str, command: str) -> list[Setting]:
    """Return the settings of the queue discipline at `place`, which tc was given as `text` and has the handle 2:.

    Those of DualPI2 are not read back: no tc with it prints them alike.
    """
    kind = text.split()[0]

    def find_options(printed: str) -> dict[str, Any]:
        return _find_options(printed, kind=kind, handle="2:")

    return [setting for _, _, setting in _parse_options(text, place, command, find_options) if setting is not None]


def _parse_options(
    text: str, place: str, command: str, options: Callable[[str], dict[str, Any]]
) -> Iterator[tuple[str, str, Setting | None]]:
    """Yield the kind and the words of each option, with the setting that it is, if it is one."""
    kind, *words = text.split()
    if kind == "dualpi2":
        return
    while words:
        word = words.pop(0)
        key = f"{place}.aqm.{word}"
        if word in _NOT_READ.get(kind, ()):
            words.pop(0)
            yield kind, "", None
        elif word in _NUMBERS.get(kind, ()):
            value = int(words.pop(0))
            yield kind, word, Setting(key, str(value), command, _read_field(options, word, 0), value, value)
        elif word in _TIMES.get(kind, {}):
            asked = words.pop(0)
            value = _TIMES[kind][word](_parse_microseconds(asked))
            yield kind, word, Setting(key, asked, command, _read_field(options, word), value, value)
        elif word == "bandwidth" and kind == "cake":
            asked = words.pop(0)
            rate = int(asked.removesuffix("bit")) // 8
            yield kind, word, Setting(key, asked, command, _read_field(options, word), rate, rate)
        elif word == "unlimited" and kind == "cake":
            yield (
                kind,
                word,
                make_exact_setting(f"{place}.aqm.bandwidth", word, command, _read_field(options, "bandwidth")),
            )
        elif word == "ce_threshold_selector":
            asked = words.pop(0)
            bits, mask = (int(part, 16) for part in asked.split("/"))
            both = _read_field(options, "ce_threshold_selector", 0), _read_field(options, "ce_threshold_mask", 0)
            yield kind, word, Setting(key, asked, command, both[0], bits, bits)
            yield kind, word, Setting(key, asked, command, both[1], mask, mask)
        elif word in _WORDS.get(kind, {}):
            name, field, value = _WORDS[kind][word]
            missing = False if isinstance(value, bool) else "noatm" if field == "atm" else None
            yield (
                kind,
                word,
                Setting(f"{place}.aqm.{name}", word, command, _read_field(options, field, missing), value, value),
            )
        else:
            is_preset = kind == "cake" and (
                word in _PRESETS or word.startswith(("pppoe-", "pppoa-", "ipoa-", "bridged-"))
            )
            yield kind, "" if is_preset or word.endswith("-ptm") else word, None


def _read_field(options: Callable[[str], dict[str, Any]], name: str, missing: Any = None) -> Read:
    return lambda printed: options(printed).get(name, missing)


def _parse_microseconds(text: str) -> int:
    """Return a time that tc was given, in us."""
    return int(text[:-2]) if text.endswith("us") else int(text[:-1]) * 10**6


# shapers, links, delays


def read_back_netem(key: str, delay_ns: int, rate: int | None, limit: int, command: str, **found: str) -> list[Setting]:
    """Return the settings of a netem: its delay, which is whole us, its rate (bit/s) and its limit of packets."""

    def find_options(printed: str) -> dict[str, Any]:
        return _find_options(printed, kind="netem", **found)

    settings = [make_exact_setting(f"{key}: limit of netem", limit, command, _read_field(find_options, "limit"))]
    if delay_ns:
        us = delay_ns // 1000

        def find_delay(printed: str) -> int:
            return round(float(find_options(printed)["delay"]["delay"]) * 1e6)

        settings.append(Setting(key, f"{us} us", command, find_delay, us - 1, us))
    if rate is not None:
        whole = rate // 8
        settings.append(
            Setting(
                f"{key}: rate of netem",
                f"{rate} bit/s",
                command,
                lambda p: find_options(p)["rate"]["rate"],
                whole,
                whole,
            )
        )
    return settings


def read_back_htb(place: str, rate: int, burst: int, command: str) -> list[Setting]:
    """Return the settings of the class 1:1 of an HTB: rate and ceiling, burst and that of the ceiling."""
    per_second = rate // 8
    slack = 2 * per_second / 1e6 + 1  # two times up to 1 us, at the rate, and what is cut to whole bytes
    settings = []
    for name, asked in (("rate", rate), ("ceil", rate)):
        settings.append(
            Setting(f"{place}.rate: {name} of htb", f"{asked} bit/s", command, _read_class_rate(name, per_second), 0, 0)
        )
    printed = _SIZES["M" if burst >= 1024**2 else "K"][1]
    for name in ("burst", "cburst"):
        key, least = f"{place}.burst: {name} of htb", burst - slack - printed
        settings.append(Setting(key, f"{burst} B", command, _read_class_size(name), least, burst + printed))
    return settings


def _read_class_rate(name: str, per_second: int) -> Read:
    """Return what reads how far a rate of the class 1:1 is from `per_second`, beyond what is printed of it, bytes/s.

    As text tc prints whole kbit, Mbit and so on, and cuts the rest.
    """

    def read(printed: str) -> int | str:
        if printed.lstrip().startswith("["):
            found = next(one for one in json.loads(printed) if one.get("handle", one.get("classid")) == "1:1")
            rate = int(found.get("options", found)[name])
            return 0 if rate == per_second else f"{8 * rate} bit/s"
        match = re.search(rf"class htb 1:1 .*?\b{name} (\d+)([KMGT]?)bit", printed)
        if match is None:
            raise LookupError
        unit = _PRINTED[match[2]]
        return 0 if 8 * per_second // unit == int(match[1]) else f"{match[1]}{match[2]}bit"

    return read


def _read_class_size(name: str) -> Read:
    def read(printed: str) -> float:
        if printed.lstrip().startswith("["):
            found = next(one for one in json.loads(printed) if one.get("handle", one.get("classid")) == "1:1")
            return float(found.get("options", found)[name])
        match = re.search(rf"class htb 1:1 .*?\b{name} ([0-9.]+)([KM]?)b\b", printed)
        if match is None:
            raise LookupError
        return float(match[1]) * _SIZES[match[2]][0]

    return read


# hosts


def read_after(word: str, *, unit: str = "", missing: Any = None) -> Read:
    """Return what reads the number behind a word, as ip(8) prints it: `initcwnd 10`, `rto_min lock 400ms`."""

    def read(printed: str) -> Any:
        match = re.search(rf"(?:^|\s){word} (?:lock )?(\d+){unit}(?=\s|$)", printed)
        return missing if match is None else int(match[1])

    return read


def read_presence(words: str) -> Read:
    """Return what reads whether words are there."""
    return lambda printed: re.search(rf"(?:^|\s){re.escape(words)}(?=\s|$)", printed) is not None


def read_line(file: str, place: int = 0, *, missing: int | None = None) -> Read:
    """Return what reads a number of a file, by its place in the line, of what `read SPACE FILE` prints.

    `missing` is what a kernel without the file has. Y and N count as 1 and 0.
    """

    def read(printed: str) -> int | None:
        line = next((line for line in printed.splitlines() if line.startswith(f"{file}:")), None)
        if line is None:
            return missing
        word = line.removeprefix(f"{file}:").split()[place]
        return {"Y": 1, "N": 0}[word] if word in ("Y", "N") else int(word)

    return read


def read_link(device: str, read: Read) -> Read:
    """Return what reads something of one device, of what `ip -o -d link show` prints."""

    def find_value(printed: str) -> Any:
        lines = [line for line in printed.splitlines() if re.match(rf"\d+: {device}[@:]", line)]
        return read(lines[0])

    return find_value
