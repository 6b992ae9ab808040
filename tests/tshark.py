"""What tshark says of a capture, for tests."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

FIELDS = (
    *(
        "tcp.stream",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.len",
        "tcp.seq",
        "tcp.ack",
        "tcp.window_size",
        "tcp.checksum",
        "tcp.checksum.status",
    ),
    *("ip.checksum.status", "_ws.malformed", "tcp.analysis.retransmission", "tcp.analysis.out_of_order"),
    *("tcp.analysis.duplicate_ack", "tcp.analysis.ack_rtt", "tcp.analysis.window_full", "tcp.analysis.lost_segment"),
    *(
        "tcp.analysis.ack_lost_segment",
        "tcp.analysis.zero_window",
        "tcp.analysis.bytes_in_flight",
        "frame.interface_name",
    ),
    *("frame.comment", "ip.dsfield.ecn", "tcp.flags.ace", "tcp.options.acc_ecn.eceb", "frame.len", "frame.cap_len"),
)
GOOD = "1"  # of a checksum


def flow(cc: str, rtt: str = "20ms", **more: Any) -> dict[str, Any]:
    """Return a flow of an experiment."""
    return {"cc": cc, "base_rtt": rtt, **more}


def program() -> str:
    """Return tshark, or skip the test."""
    found = shutil.which("tshark")
    if found is None:
        pytest.skip("tshark is not installed")
    return found


def seen(tshark: str, path: Path) -> pl.DataFrame:
    """Return what tshark says of each packet, a row each; a field that is not there is empty."""
    checks = [f"{protocol}.check_checksum:TRUE" for protocol in ("ip", "tcp", "udp")]
    command = [tshark, "-r", str(path), "-T", "fields", "-E", "separator=|"]
    command += [part for check in checks for part in ("-o", check)] + [part for name in FIELDS for part in ("-e", name)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = pl.DataFrame([line.split("|") for line in said.splitlines()], schema=list(FIELDS), orient="row")
    # Linux writes a sum of 0x0000 as 0xffff, which is the same number (RFC 1624); tshark calls it bad
    negative_zero = (pl.col("tcp.checksum") == "0xffff") & there("tcp.checksum.status")
    status = pl.when(negative_zero).then(pl.lit(GOOD)).otherwise("tcp.checksum.status")
    return found.with_columns(status.alias("tcp.checksum.status"))


def there(name: str) -> pl.Expr:
    return pl.col(name) != ""


def expected_duplicates(rows: pl.DataFrame) -> int:
    """Return how many acknowledgements are duplicates by RFC 5681: they say what the one before said."""
    acks = rows.filter(pl.col("direction") == "ack").select("ack", "window", "payload", "flags")
    same = (pl.col(name) == pl.col(name).shift(1) for name in ("ack", "window"))
    return acks.filter(*same, ~pl.col("flags").cast(pl.String).str.contains("SYN")).height


_SIDE, _STAMPS = "tcp.srcport", ("tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr")
_HEADERS = (
    *("ip.id", "ip.flags", "ip.dsfield", "frame.len", "tcp.seq", "tcp.ack", "tcp.len", "tcp.flags"),
    *("tcp.window_size_value", "tcp.option_kind", "tcp.options.mss_val", "tcp.options.wscale.shift"),
)


def headers(tshark: str, path: Path, count: int) -> list[dict[str, str | int]]:
    """Return the headers of the first packets of a file with one connection: what two runs of it have in common.

    Of the numbers that each end begins anywhere (identifications of IP packets, timestamps) how far they are from its
    first; 0 is an identification of its own. No ports, addresses, TTLs.
    """
    names = (_SIDE, *_HEADERS, *_STAMPS)
    command = [tshark, "-r", str(path), "-c", str(count), "-T", "fields", "-E", "separator=|"]
    command += [part for name in names for part in ("-e", name)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [dict(zip(names, line.split("|"), strict=True)) for line in said.splitlines()]
    sides = list(dict.fromkeys(row[_SIDE] for row in rows))
    tsval, tsecr = _STAMPS
    first = {side: int(next(row[tsval] for row in rows if row[_SIDE] == side)) for side in sides}
    numbers = {side: [int(row["ip.id"], 16) for row in rows if row[_SIDE] == side] for side in sides}
    ids = {side: next(filter(None, numbers[side]), 0) for side in sides}
    found: list[dict[str, str | int]] = []
    for row in rows:
        side = sides.index(row.pop(_SIDE))
        own, peer, number = sides[side], sides[1 - side], int(row["ip.id"], 16)
        found.append(
            row
            | {"side": side, "ip.id": (number - ids[own]) % 65_536 if number else "none"}
            | {tsval: int(row[tsval]) - first[own], tsecr: int(row[tsecr]) and int(row[tsecr]) - first[peer]}
        )
    return found
