"""Kinds of access lines: the link of each direction, the framing that a shaper counts, and the queue in the modem."""

from __future__ import annotations

from dataclasses import dataclass, field

MODEM_BUFFER = 200_000_000  # ns at the rate of the line, of the queues at both ends of the line: ours


@dataclass(frozen=True)
class AccessLink:
    """A kind of access line.

    `down` and `up` are keys of a hop in an experiment file; `layer` is the `link_layer` of both directions and of the
    shaper in the router. `modem_queues` are queues of such modems other than a FIFO, by name.
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


LINKS = {
    "fibre": AccessLink("fibre or Ethernet", "ethernet"),
    "docsis": AccessLink(
        "cable",
        "docsis",
        up={"link": "docsis"},
        modem_queues={
            "PIE in the modem": ("", '{ name = "pie", target = "10ms", version = "rfc8033" }'),
        },
        assumed="grants of the cable's upstream as in CableLabs' model, and PIE of RFC 8033 with a target of 10 ms in "
        "place of the modem's DOCSIS-PIE (RFC 8034)",
    ),
    "vdsl": AccessLink("VDSL2 with PPPoE", "pppoe-ptm"),
    "adsl": AccessLink("ADSL with PPPoE over ATM", "pppoe-llcsnap"),
    "leo": AccessLink(
        "a low-earth-orbit satellite such as Starlink",
        "ethernet",
        down={"link": "leo"},
        up={"link": "leo"},
        varies=True,
        assumed="rates and delays that change every 15 s, drawn independently for each direction",
    ),
}
"""Kinds of lines by their names on the command line."""
