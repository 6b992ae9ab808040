"""Commands of tc(8), read into devices: a tree of queue disciplines each, classes, and what filters do."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from dumbbell.errors import Missing, Unfit, UnknownName, Unsupported, WrongValue, quote_value
from dumbbell.experiment.other_names import explain_tc_word
from dumbbell.tc import policer, qdiscs
from dumbbell.tc.lexer import Source, Word, place_error, split_commands
from dumbbell.tc.options import ENGINE, refuse_variable

Place = tuple[int, int]  # handle: the number of a discipline, and of one of its classes
SHAPERS = ("htb", "tbf", "netem", "prio")
# disciplines without a queue, which devices have that nobody set up
NO_QUEUE = ("noqueue", "noop", "ingress", "clsact")
KINDS = (*qdiscs.KINDS, *SHAPERS, *NO_QUEUE, "pfifo_fast", "mq")
_OBJECTS = ("qdisc", "class", "filter")
_VERBS = ("add", "append", "replace", "change", "chg", "link", "del", "delete", "show", "list", "ls", "get")
_STAB = ("mtu", "tsize", "mpu", "overhead", "linklayer")
_IMPLIED = "eth0"  # of a line that does not name its device
_INGRESS_HANDLE = 0xFFFF
_OPTIONS_OF_TC = re.compile(r"-[a-z].*")


@dataclass
class QdiscNode:
    """A queue discipline where a command puts it."""

    kind: Word
    options: list[Word]
    handle: Place | None
    stab: list[Word] = field(default_factory=list)
    stab_word: Word | None = None
    is_implied: bool = False
    """Whether a class alone was given, without its discipline."""


@dataclass
class HtbClass:
    """A class of HTB."""

    word: Word
    place: Place
    parent: Place
    options: list[Word]


@dataclass
class Device:
    """A device, and what its packets pass as they leave or enter it."""

    name: str
    root: QdiscNode | None = None
    children: dict[Place, QdiscNode] = field(default_factory=dict)
    """By the class, or the discipline, that they are below."""
    classes: dict[Place, HtbClass] = field(default_factory=dict)
    redirect: tuple[str, Word] | None = None
    """The device that packets that enter go through."""
    policed: dict[str, tuple[Word, list[Word]]] = field(default_factory=dict)
    """The policer of what enters ("ingress") and of what leaves ("egress")."""
    filters: int = 0
    """To classes."""


@dataclass
class System:
    """All devices that the commands name, in their order."""

    devices: dict[str, Device] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    others: int = 0
    """Lines that are not of tc."""
    texts: list[str] = field(default_factory=list)
    """The commands that were read."""
    last: QdiscNode | None = None
    """The discipline that was read last: `tc -d qdisc show` prints its stab in a line of its own."""

    def get_device(self, name: str) -> Device:
        """Return a device, which is new if no line had it."""
        return self.devices.setdefault(name, Device(name))


def read_commands(sources: Iterable[Source]) -> System:
    """Return the devices that commands set up; raises InputError for a command that no tc takes."""
    system = System()
    for source in sources:
        for words in split_commands(source):
            _read_command(system, words, only_commands=source.only_commands)
    return system


def _read_command(system: System, words: list[Word], *, only_commands: bool) -> None:
    first, place = words[0], ""
    if [*words[:3]] == ["ip", "netns", "exec"] and len(words) > 4:
        place, words = f"{words[3]}:", words[4:]
    is_tc = PurePath(words[0]).name in ("tc", "$TC", "${TC}")
    if is_tc:
        words = words[1:]
        while words and _OPTIONS_OF_TC.fullmatch(words[0]):
            option, words = words[0], words[1:]
            if option in ("-n", "-netns") and words:
                place, words = f"{words[0]}:", words[1:]
        if not words:
            raise place_error(Missing("qdisc, class or filter", key="tc"), first)
    if words[0] == "linklayer" and not only_commands and system.last is not None:
        system.last.stab_word, system.last.stab = words[0], words
        system.texts.append(f" {' '.join(words)}")
        return
    if not is_tc and words[0] not in _OBJECTS and not _begins_fragment(words[0], only_commands=only_commands):
        system.others += 1
        return
    what = _match_prefix(words[0], _OBJECTS) if is_tc else str(words[0])
    if what is None:
        if is_tc and words[0] in ("action", "actions", "chain", "monitor", "exec"):
            system.left[f"tc {words[0]}"] = "it sets up no queue"
            return
        if is_tc:
            refuse_variable(words[0])
            raise place_error(UnknownName(quote_value(str(words[0])), among=_OBJECTS, what="object of tc"), words[0])
        what = str(words[0])
    system.texts.append(f"{'tc ' * is_tc}{' '.join(words)}")
    if what not in _OBJECTS:
        _read_fragment(system, words)
        return
    _READERS[what](system, words[0], words[1:], place)


def _match_prefix(word: str, names: Sequence[str]) -> str | None:
    """Return the first of the names that a word is or begins, as tc does."""
    return next((name for name in names if word and name.startswith(word)), None)


def _begins_fragment(word: Word, *, only_commands: bool) -> bool:
    """Whether a line without `tc qdisc` begins with a discipline; what stands alone as an argument has to."""
    return only_commands or word in (*KINDS, "stab", "police", "root") or _is_refused_kind(word)


def _is_refused_kind(word: str) -> bool:
    return word in ("sfq", "hfsc", "drr", "qfq")


def parse_place(word: Word) -> Place:
    """Return a handle such as `1:`, or a class such as `1:10`, whose numbers are hexadecimal."""
    refuse_variable(word)
    match = re.fullmatch(r"([0-9a-fA-F]{0,4}):([0-9a-fA-F]{0,4})|([0-9a-fA-F]{1,4})", word)
    if match is None:
        raise place_error(WrongValue(quote_value(str(word)), "a handle such as 1: or a class such as 1:10"), word)
    return int(match[1] or match[3] or "0", 16), int(match[2] or "0", 16)


@dataclass
class _Head:
    """The words before the kind of a discipline or class."""

    device: str = ""
    parent: Place | None = None
    place: Place | None = None
    is_root: bool = False
    is_ingress: bool = False
    stab: list[Word] = field(default_factory=list)
    stab_word: Word | None = None
    kind: Word | None = None
    rest: list[Word] = field(default_factory=list)


def _read_head(words: list[Word], namespace: str, last: Word) -> _Head:
    """Read the words up to the kind."""
    head = _Head()
    rest = list(words)

    def take_word(after: Word, what: str) -> Word:
        if not rest:
            raise place_error(Missing(what, key=str(after)), after)
        refuse_variable(rest[0])
        return rest.pop(0)

    while rest:
        word = rest.pop(0)
        last = word
        refuse_variable(word)
        if word == "dev":
            head.device = namespace + take_word(word, "the name of a device")
        elif word == "root":
            head.is_root = True
        elif word in ("ingress", "clsact"):
            head.is_ingress, head.kind, head.rest = True, word, rest
            return head
        elif word == "parent":
            parent = take_word(word, "a handle, such as 1:")
            head.is_root = head.is_root or parent == "root"
            head.parent = None if parent in ("root", "none", "ffff:fff1") else parse_place(parent)
        elif word in ("handle", "classid"):
            head.place = parse_place(take_word(word, "a handle, such as 1:"))
        elif word in ("estimator", "est"):
            take_word(word, "an interval"), take_word(word, "an average")
        elif word == "refcnt":
            take_word(word, "a number")
        elif word in ("offloaded", "deleted"):
            continue
        elif word == "stab":
            head.stab_word = word
            while len(rest) > 1 and rest[0] in _STAB:
                head.stab += [rest.pop(0), rest.pop(0)]
        else:
            head.kind, head.rest = word, rest
            return head
    if head.place is None and head.parent is None and not head.is_root:
        raise place_error(Missing("a device and a discipline", key=str(last)), last)
    return head


def _read_qdisc(system: System, what: Word, words: list[Word], namespace: str) -> None:
    verb, words = _take_verb(what, words)
    if verb in ("show", "list", "ls", "get"):
        return
    if verb in ("del", "delete"):
        head = _read_head(words, namespace, what)
        _delete_qdisc(system.devices.get(head.device), head)
        return
    if verb == "shown":  # as `tc qdisc show` prints it: kind, handle, device, where
        kind, handle, rest = words[0], words[1:2], words[2:]
        head = _read_head(rest, namespace, kind)
        known = ["dev", "root", "parent", "refcnt", "offloaded", "deleted"]
        if head.kind is not None:
            head.rest = [head.kind, *head.rest] if head.kind not in known else head.rest
        head.kind = kind
        head.place = parse_place(handle[0]) if handle else None
        head.is_ingress = kind in ("ingress", "clsact")
    else:
        head = _read_head(words, namespace, what)
    device = system.get_device(head.device or _get_only_device(system))
    if head.is_ingress:
        return
    if head.kind is None:
        raise place_error(Missing("a queue discipline", key=f"qdisc {verb}"), what)
    system.last = _place_qdisc(device, head, verb)


def _delete_qdisc(device: Device | None, head: _Head) -> None:
    """Forget what a command deletes: the whole tree with its root."""
    if device is None or head.is_ingress:
        return
    if head.is_root:
        device.root = None
        device.children.clear()
        device.classes.clear()
    elif head.parent is not None:
        device.children.pop(head.parent, None)


def _place_qdisc(device: Device, head: _Head, verb: str) -> QdiscNode:
    """Put a discipline into the tree of a device, and return it."""
    kind = head.kind
    assert kind is not None
    _check_kind(kind)
    qdisc = QdiscNode(kind, head.rest, head.place, head.stab, head.stab_word)
    at = None if head.is_root or head.parent is None else head.parent
    old = device.root if at is None else device.children.get(at)
    if verb in ("change", "chg") and old is not None:
        if old.kind != kind:
            raise place_error(Unfit(f"change cannot make {kind} of {old.kind}", "replace", key=f"qdisc {verb}"), kind)
        old.options = [*old.options, *head.rest]
        return old
    taken = [one for one in (device.root, *device.children.values()) if one is not None and one is not old]
    if head.place and head.place[0] and any(one.handle and one.handle[0] == head.place[0] for one in taken):
        raise place_error(
            Unfit(f"two disciplines of {device.name} have the handle {head.place[0]:x}:", "another"), kind
        )
    if at is None:
        if verb in ("add", "shown") and device.root is not None and not device.root.is_implied:
            raise place_error(
                Unfit(f"{device.name} has a root already, {device.root.kind}", "replace, or another dev"), kind
            )
        device.root = qdisc
        device.children.clear()
    else:
        device.children[at] = qdisc
    return qdisc


def _check_kind(kind: Word) -> None:
    """Raise InputError for a discipline that is none, or which is not here."""
    if kind in KINDS:
        return
    if instead := explain_tc_word(kind):
        raise place_error(Unfit(f"{ENGINE} has no {kind}: {instead}"), kind)
    among = [one for one in KINDS if one not in NO_QUEUE]
    raise place_error(UnknownName(quote_value(str(kind)), among=among, what="queue discipline"), kind)


def _read_class(system: System, what: Word, words: list[Word], namespace: str) -> None:
    verb, words = _take_verb(what, words)
    if verb in ("del", "delete", "show", "list", "ls", "get"):
        return
    if verb == "shown":
        kind, place = words[0], words[1:2]
        if kind != "htb" or not place:  # classes that disciplines make by themselves
            return
        head = _read_head(words[2:], namespace, kind)
        head.rest = [head.kind, *head.rest] if head.kind is not None else []
        head.place, head.kind = parse_place(place[0]), kind
        head.parent = head.parent or (head.place[0], 0)
    else:
        head = _read_head(words, namespace, what)
    device = system.get_device(head.device or _get_only_device(system))
    if head.kind is None:
        raise place_error(Missing("htb", key=f"class {verb}"), what)
    if head.kind != "htb":
        _check_kind(head.kind)
        raise place_error(Unsupported(f"classes of {head.kind}", "htb", where=ENGINE), head.kind)
    if head.place is None or head.parent is None:
        raise place_error(Missing("parent and classid", key=f"class {verb}"), what)
    device.classes[head.place] = HtbClass(head.kind, head.place, head.parent, head.rest)


def _read_filter(system: System, what: Word, words: list[Word], namespace: str) -> None:
    verb, words = _take_verb(what, words)
    if verb not in ("add", "append", "replace", "change", "chg"):
        return
    name = next((after for word, after in itertools.pairwise(words) if word == "dev"), None)
    device = system.get_device(namespace + name if name is not None else _get_only_device(system))
    parent = next((after for word, after in itertools.pairwise(words) if word == "parent"), None)
    enters = "ingress" in words or (parent is not None and parent.startswith(("ffff:", "ffff:fff2")))
    if parent == "ffff:fff3":
        enters = False
    if "police" in words:
        number = [*map(str, words)].index("police")
        options = list(_list_policer_words(words[number + 1 :]))
        device.policed["ingress" if enters else "egress"] = (words[number], options)
        return
    if "redirect" in words:
        rest = words[[*map(str, words)].index("redirect") :]
        target = next((after for word, after in itertools.pairwise(rest) if word == "dev"), None)
        if target is None:
            raise place_error(Missing("dev and a device", key="mirred redirect"), rest[0])
        refuse_variable(target)
        if not enters:
            found = "a redirection of what leaves a device"
            raise place_error(Unsupported(found, "the lines of one device", where=ENGINE), rest[0])
        device.redirect = (namespace + target, target)
        system.get_device(namespace + target)
        return
    device.filters += 1


def _list_policer_words(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words of a policer, up to those of the filter behind it."""
    rest = iter(words)
    for word in rest:
        if word not in policer.KEYS and word in ("action", "protocol", "prio", "pref"):
            return
        yield word


def _take_verb(what: Word, words: list[Word]) -> tuple[str, list[Word]]:
    """Return the verb, or "shown" for a line that tc printed, and the words behind it."""
    if not words:
        raise place_error(Missing(f"one of {', '.join(_VERBS[:4])}", key=f"tc {what}"), what)
    word = words[0]
    is_printed = word in KINDS or (len(words) > 1 and re.fullmatch(r"[0-9a-fA-F]*:[0-9a-fA-F]*", words[1]) is not None)
    if is_printed or (what.startswith("f") and word in ("parent", "protocol", "ingress")):
        return "shown", words
    verb = _match_prefix(word, _VERBS)
    if verb is None:
        refuse_variable(word)
        raise place_error(UnknownName(quote_value(str(word)), among=_VERBS, what=f"command of tc {what}"), word)
    return verb, words[1:]


def _get_only_device(system: System) -> str:
    """Return the device of a line that names none: the last one."""
    return next(reversed(system.devices), _IMPLIED)


# lines without `tc qdisc add dev … root`


def _read_fragment(system: System, words: list[Word]) -> None:
    """Read a discipline alone: the root of the device, or what is below the one before it."""
    device = system.get_device(_get_only_device(system))
    head = _read_head(words, "", words[0])
    kind = head.kind
    if kind is None:
        raise place_error(Missing("a queue discipline", key=str(words[-1])), words[-1])
    if kind == "police":
        device.policed["ingress"] = (kind, head.rest)
        return
    _check_kind(kind)
    is_class = kind == "htb" and "rate" in head.rest
    below = _find_lowest(device)
    if is_class:
        if device.root is None:
            device.root = QdiscNode(kind.replace_text("htb"), [], (1, 0), head.stab, head.stab_word, is_implied=True)
        elif device.root.kind != "htb":
            raise place_error(Unfit(f"{device.root.kind} has no classes of htb", "a line of htb first"), kind)
        root = device.root.handle or (1, 0)
        device.root.handle = root
        number = len(device.classes) + 1
        parent = (root[0], number - 1)
        device.classes[root[0], number] = HtbClass(kind, (root[0], number), parent, head.rest)
        return
    handle = (1, 0) if kind in ("htb", "tbf", "netem") else None
    if below is not None and kind in ("tbf", "netem"):
        handle = (1 + max(one.handle[0] for one in (device.root, *device.children.values()) if one and one.handle), 0)
    qdisc = QdiscNode(kind, head.rest, handle, head.stab, head.stab_word)
    if device.root is None:
        device.root = qdisc
    elif below is None:
        raise place_error(
            Unfit(f"a queue is there already, {device.root.kind}, and nothing can be below it", "one of both"), kind
        )
    else:
        device.children[below] = qdisc


def _find_lowest(device: Device) -> Place | None:
    """Return where the next fragment goes: below the lowest shaper."""
    if device.root is None:
        return None
    if device.root.kind == "htb":
        lowest: Place | None = max(device.classes, default=None)
    else:
        lowest = device.root.handle if device.root.kind in ("tbf", "netem") else None
    while lowest is not None and (child := device.children.get(lowest)) is not None:
        lowest = child.handle if child.kind in ("tbf", "netem") else None
    return lowest


_READERS = {"qdisc": _read_qdisc, "class": _read_class, "filter": _read_filter}
