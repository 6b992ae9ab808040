"""Kinds of access lines: the link of each direction, the framing that a shaper counts, and the queue in the modem."""

from __future__ import annotations

from dataclasses import dataclass, field

MODEM_BUFFER = 200_000_000  # ns at the rate of the line, of the queues at both ends of the line: ours


@dataclass(frozen=True)
class AccessLink:
    """A kind of access line.

    `down` and `up` are keys of a hop in an experiment file, with their values as TOML; `layer` is the `link_layer` of
    both directions and of the shaper in the router.
    """

    title: str
    layer: str
    down: dict[str, str] = field(default_factory=dict)
    up: dict[str, str] = field(default_factory=dict)
    modem_queue: str = ""
    """The queue of the modem, as TOML without braces; empty: a FIFO."""
    buffers: tuple[str, str] | None = None
    """Limits of the FIFOs at both ends of the line, down and up, as TOML without braces; none: `MODEM_BUFFER`."""
    buffer_text: str = ""
    """The assumption about `buffers`, as a noun phrase."""
    assumed: str = ""
    """The assumption of this kind of line, as a noun phrase."""
    varies: bool = False
    """Whether its rate varies, so that no fixed shaper fits."""
    note: str = ""
    """A sentence on where queues of this line are and who can change them."""


_NOTE = (
    "The queues of this line are in the {}, where a router cannot change them: it only keeps them empty, as long as it "
    "sends less than the line carries."
)


def _make_cellular(title: str, harq: str, requests: str) -> AccessLink:
    """Return a kind of cellular line, by the stage of its retransmissions and the keys of its requests, as TOML."""
    behind = f"[{{ {harq} }}]"
    return AccessLink(
        title,
        "ethernet",
        down={"link": '"cellular"', "behind": behind},
        up={"link": f'{{ name = "cellular", {requests} }}', "behind": behind},
        buffers=('name = "bfifo", limit = "10MB"', 'name = "pfifo", limit = 1000'),
        buffer_text="a queue of 10 MB at the base station (OpenAirInterface), and one of 1000 packets in the modem "
        "(Linux's default)",
        varies=True,
        assumed="rates that change from second to second between a tenth and the whole of those given, independently "
        "in each direction",
        note=_NOTE.format("base station and in the modem"),
    )


LINKS = {
    "fibre": AccessLink("fibre or Ethernet", "ethernet"),
    "docsis": AccessLink(
        "cable",
        "docsis",
        up={"link": '"docsis"'},
        modem_queue='name = "docsis_pie"',
        assumed="grants of the cable's upstream as in CableLabs' model, and DOCSIS-PIE (RFC 8034) in the modem",
    ),
    "vdsl": AccessLink("VDSL2 with PPPoE", "pppoe-ptm"),
    "adsl": AccessLink("ADSL with PPPoE over ATM", "pppoe-llcsnap"),
    "leo": AccessLink(
        "a low-earth-orbit satellite such as Starlink",
        "ethernet",
        down={"link": '{ name = "leo", terminal = 1 }'},
        up={"link": '{ name = "leo", terminal = 1 }'},
        varies=True,
        assumed="one satellite for both directions, another one every 15 s, with rates between 14 and 100 % of those "
        "given, drawn independently for each direction",
        note=_NOTE.format("ground station and in the terminal"),
    ),
    "lte": _make_cellular(
        "LTE",
        'name = "harq", slot = "1ms", round_trip = "8ms"',
        'request = "10ms", grant = "8ms"',
    ),
    "5g": _make_cellular(
        "5G below 6 GHz",
        'name = "harq"',
        'request = "5ms", grant = "4ms"',
    ),
}
"""Kinds of lines by their names on the command line."""
OTHER_NAMES = {"cable": "docsis", "starlink": "leo", "4g": "lte", "nr": "5g", "fiber": "fibre", "ethernet": "fibre"}
"""Other names of kinds of lines."""


def find_kind(text: str) -> str:
    """Return the name of a kind of line by one of its names; any other text unchanged."""
    name = text.strip().lower()
    return OTHER_NAMES.get(name, name if name in LINKS else text)
