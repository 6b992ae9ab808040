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
    assumed: str = ""
    """The assumption of this kind of line, as a noun phrase."""
    varies: bool = False
    """Whether its rate varies, so that no fixed shaper fits."""


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
        assumed="one satellite for both directions, another one every 15 s, with rates that are drawn independently "
        "for each direction",
    ),
}
"""Kinds of lines by their names on the command line."""
