"""Kinds of access lines: the link of each direction, the framing that a shaper counts, and the queue in the modem."""

from __future__ import annotations

from dataclasses import dataclass, field

_NETALYZR = (
    "Kreibich et al., Netalyzr, IMC 2010, section 5.2: most access lines buffer more than 100 ms, uplinks often "
    "several hundred"
)


@dataclass(frozen=True)
class AccessLink:
    """A kind of access line.

    `down` and `up` are keys of a hop, as an experiment file has them; `layer` is the `link_layer` of both directions
    and of the shaper in the router. `modem_queues` are queues that such modems have besides a FIFO, by what they are
    called.
    """

    title: str
    layer: str
    down: dict[str, str] = field(default_factory=dict)
    up: dict[str, str] = field(default_factory=dict)
    modem_queues: dict[str, tuple[str, str]] = field(default_factory=dict)
    """For each name the queue of the way down and of the way up, as TOML."""
    assumed: str = ""
    """The assumption of this kind of line, as a noun phrase."""
    varies: bool = False
    """Whether its rate varies, so that no fixed shaper fits."""
    modem_buffer_ms: int = 200
    buffer_source: str = _NETALYZR


LINKS = {
    "fibre": AccessLink("fibre or Ethernet", "ethernet"),
    "docsis": AccessLink(
        "cable",
        "docsis",
        up={"link": "docsis"},
        modem_queues={
            "the modem's own PIE": ("", '{ name = "pie", target = "10ms", version = "rfc8033" }'),
        },
        assumed="grants of the cable's way up as CableLabs models them",
    ),
    "vdsl": AccessLink("VDSL2 with PPPoE", "pppoe-ptm"),
    "adsl": AccessLink("ADSL with PPPoE over ATM", "pppoe-llcsnap"),
    "leo": AccessLink(
        "a low-earth-orbit satellite such as Starlink",
        "ethernet",
        down={"link": "leo"},
        up={"link": "leo"},
        varies=True,
        assumed="rates and delays that change every 15 s, drawn apart for the two directions",
    ),
}
"""By the name that the command takes."""
