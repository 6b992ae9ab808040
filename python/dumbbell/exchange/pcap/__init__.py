"""Captures: pcap and pcapng of TCP, UDP and pings.

`records` reads the container, `packets` the headers, `connection` works out what one TCP connection did, `read` makes
flows of all of them.
"""

from dumbbell.exchange.pcap.read import read

__all__ = ["read"]
