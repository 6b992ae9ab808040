"""Captures of other links and in tunnels: the packets inside are read, or one line says what they are."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures import Frame, ethernet, ip, pcap
from conftest import examples
from dumbbell.errors import InputError
from dumbbell.exchange import formats
from dumbbell.exchange.measurement import ImportedFlow
from every_case import every_case
from test_captures import bulk, only, read

ETHERNET, RAW = 1, 101
MORE = 14  # bytes of the frames of bulk() ahead of IP


def outer(payload: bytes, protocol: int, more: int, six: bool = False, ecn: int = 0) -> bytes:
    """Return a packet of a tunnel, whose payload goes on for `more` bytes that were not captured."""
    hosts = ("fd00:1::1", "fd00:1::2") if six else ("192.0.2.1", "192.0.2.2")
    return ip(payload, *hosts, protocol, ecn, more)


def datagram(payload: bytes, port: int, more: int) -> bytes:
    return struct.pack(">HHHH", 49152, port, 8 + len(payload) + more, 0) + payload


def label(last: bool) -> bytes:
    return struct.pack(">I", 16 << 12 | int(last) << 8 | 64)


PPP_4 = b"\x00\x21"
# of each: link type, bytes ahead of IP and behind the link's own start, made of the IP packet and what it lacks
FORMS: dict[str, tuple[int, Callable[[bytes, int], bytes]]] = {
    "PPP": (9, lambda p, _: PPP_4 + p),
    "PPP with address": (9, lambda p, _: b"\xff\x03" + PPP_4 + p),
    "PPP, short protocol": (9, lambda p, _: b"\x21" + p),
    "PPP in HDLC": (50, lambda p, _: b"\xff\x03" + PPP_4 + p),
    "Cisco HDLC": (104, lambda p, _: b"\x0f\x00\x08\x00" + p),
    "Cisco HDLC as serial": (50, lambda p, _: b"\x0f\x00\x08\x00" + p),
    "PPP with direction": (204, lambda p, _: b"\x01\xff\x03" + PPP_4 + p),
    "PPPoE as link": (51, lambda p, m: b"\x11\x00\x00\x01" + struct.pack(">H", len(p) + m + 2) + PPP_4 + p),
    "loopback of BSD": (0, lambda p, _: b"\x02\x00\x00\x00" + p),
    "loopback of OpenBSD": (108, lambda p, _: b"\x00\x00\x00\x02" + p),
    "raw": (101, lambda p, _: p),
    "raw, of IPv4": (228, lambda p, _: p),
    "cooked": (113, lambda p, _: bytes(14) + b"\x08\x00" + p),
    "cooked, version 2": (276, lambda p, _: b"\x08\x00" + bytes(18) + p),
    "MPLS as link": (219, lambda p, _: label(True) + p),
    "PPPoE": (1, lambda p, m: bytes(12) + b"\x88\x64\x11\x00\x00\x01" + struct.pack(">H", len(p) + m + 2) + PPP_4 + p),
    "VLAN": (1, lambda p, _: bytes(12) + b"\x81\x00\x00\x05\x08\x00" + p),
    "QinQ": (1, lambda p, _: bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00" + p),
    "three tags": (1, lambda p, _: bytes(12) + b"\x91\x00\x00\x05\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00" + p),
    "PPPoE in VLAN": (
        1,
        lambda p, m: (
            bytes(12) + b"\x81\x00\x00\x07\x88\x64\x11\x00\x00\x01" + struct.pack(">H", len(p) + m + 2) + PPP_4 + p
        ),
    ),
    "MPLS": (1, lambda p, _: bytes(12) + b"\x88\x47" + label(False) + label(True) + p),
    "MPLS with Ethernet": (1, lambda p, _: bytes(12) + b"\x88\x47" + label(True) + bytes(4) + ethernet(p)),
    "SNAP": (1, lambda p, _: bytes(12) + b"\x05\xdc\xaa\xaa\x03\x00\x00\x00\x08\x00" + p),
    "IP-in-IP": (1, lambda p, m: ethernet(outer(p, 4, m))),
    "IPv4 in IPv6": (1, lambda p, m: ethernet(outer(p, 4, m, six=True))),
    "GRE": (1, lambda p, m: ethernet(outer(b"\x00\x00\x08\x00" + p, 47, m))),
    "GRE with key and number": (1, lambda p, m: ethernet(outer(b"\x30\x00\x08\x00" + bytes(8) + p, 47, m))),
    "GRE with Ethernet": (1, lambda p, m: ethernet(outer(b"\x00\x00\x65\x58" + ethernet(p), 47, m))),
    "PPTP": (1, lambda p, m: ethernet(outer(b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\x03" + PPP_4 + p, 47, m))),
    "VXLAN": (1, lambda p, m: ethernet(outer(datagram(b"\x08" + bytes(7) + ethernet(p), 4789, m), 17, m))),
    "VXLAN in IPv6, Linux's port": (
        1,
        lambda p, m: ethernet(outer(datagram(b"\x08" + bytes(7) + ethernet(p), 8472, m), 17, m, six=True)),
    ),
    "Geneve": (
        1,
        lambda p, m: ethernet(outer(datagram(b"\x02\x00\x65\x58" + bytes(12) + ethernet(p), 6081, m), 17, m)),
    ),
    "Geneve with IP": (1, lambda p, m: ethernet(outer(datagram(b"\x00\x00\x08\x00" + bytes(4) + p, 6081, m), 17, m))),
    "GTP-U": (1, lambda p, m: ethernet(outer(datagram(b"\x30\xff" + bytes(6) + p, 2152, m), 17, m))),
    "GTP-U with an extension": (
        1,
        lambda p, m: ethernet(outer(datagram(b"\x34\xff" + bytes(9) + b"\x85\x01\x00\x00\x00" + p, 2152, m), 17, m)),
    ),
    "GRE in PPP": (9, lambda p, m: PPP_4 + outer(b"\x00\x00\x08\x00" + p, 47, m)),
    "VXLAN in VLAN": (
        1,
        lambda p, m: (
            bytes(12) + b"\x81\x00\x00\x05\x08\x00" + outer(datagram(b"\x08" + bytes(7) + ethernet(p), 4789, m), 17, m)
        ),
    ),
}


def wrapped(frames: list[Frame], form: Callable[[bytes, int], bytes]) -> list[Frame]:
    made = []
    for one in frames:
        lacks = one.length - len(one.content)
        content = form(one.content[MORE:], lacks)
        made.append(Frame(one.time, content, len(content) + lacks))
    return made


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ImportedFlow:
    return only(read(tmp_path_factory.mktemp("plain"), pcap(bulk(lost=(7,)))))


@pytest.mark.parametrize("name", FORMS)
def test_packets_on_any_link_and_in_any_tunnel_say_the_same(name: str, plain: ImportedFlow, tmp_path: Path) -> None:
    link, form = FORMS[name]
    found = read(tmp_path, pcap(wrapped(bulk(lost=(7,)), form), link=link))
    flow = only(found)
    assert flow.ends == plain.ends and flow.figures.keys() == plain.figures.keys()
    for key, value in plain.figures.items():
        assert flow.figures[key] == pytest.approx(value, rel=1e-4), key
    tunnels = [one for one in ("PPPoE", "MPLS", "GRE", "VXLAN", "Geneve", "GTP-U", "IP-in-IP") if one in name]
    for one in tunnels:
        assert any(f"in {one}" in note and "the packets inside are read" in note for note in found.notes), found.notes


def test_six_in_four_is_read(tmp_path: Path) -> None:
    hosts = ("fd00::1", "fd00::2")
    frames = wrapped(bulk(hosts=hosts), lambda p, m: ethernet(outer(p, 41, m)))
    assert only(read(tmp_path, pcap(frames))).ends == ("[fd00::1]:40000", "[fd00::2]:5201")


def test_a_mark_on_a_tunnel_counts_for_the_packets_in_it(tmp_path: Path) -> None:
    frames = wrapped(bulk(near=0.0399), lambda p, m: ethernet(outer(p, 4, m, ecn=3)))
    marked = only(read(tmp_path, pcap(frames)))
    assert marked.figures["ce_received"] == marked.figures["packets"] == 80


def test_what_is_no_ip_is_named(tmp_path: Path) -> None:
    plain = bulk()
    esp = [Frame(one.time, ethernet(outer(one.content[MORE:], 50, 0)), one.length + 20) for one in plain]
    arp = [Frame(0.1 * n, bytes(12) + b"\x08\x06" + bytes(28), 42) for n in range(3)]
    for content, words in (
        (pcap(plain, link=105), "link type 105, IEEE 802.11, is not read"),
        (pcap(plain, link=127), "link type 127, IEEE 802.11 behind radiotap, is not read"),
        (pcap(plain, link=149), "link type 149 is not known"),
        (pcap(esp), f"left out: {len(esp)} packets of ESP, which is encrypted"),
        (pcap(arp), "left out: 3 packets of ARP"),
        (pcap([Frame(0, bytes(12) + b"\x88\x63" + bytes(20), 34)]), "left out: 1 packet of PPPoE discovery"),
    ):
        path = tmp_path / "x.pcap"
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            formats.read(path)
        assert words in str(error.value) and len(str(error.value).splitlines()) == 1
    found = read(tmp_path, pcap(sorted([*plain, *esp], key=lambda one: one.time)))
    assert any(note.startswith(f"left out: {len(esp)} packets of ESP") for note in found.notes)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(FORMS)), place=st.integers(0, 5000), junk=st.binary(min_size=1, max_size=40))
def test_damaged_headers_are_read_or_told(name: str, place: int, junk: bytes, tmp_path: Path) -> None:
    link, form = FORMS[name]
    whole = pcap(wrapped(bulk(rounds=3), form), link=link)
    at = 24 + place % (len(whole) - 24)
    try:
        read(tmp_path, whole[:at] + junk + whole[at + len(junk) :])
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@every_case("name, kept", [(name, kept) for name in FORMS for kept in (0, 1, 13, 15, 18, 33, 40, 60)])
def test_headers_that_end_anywhere_are_read_or_told(name: str, kept: int, tmp_path: Path) -> None:
    link, form = FORMS[name]
    frames = [Frame(one.time, one.content[:kept], one.length) for one in wrapped(bulk(rounds=3), form)]
    try:
        read(tmp_path, pcap(frames, link=link))
    except InputError as error:
        assert len(str(error).splitlines()) == 1
