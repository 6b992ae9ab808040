"""Packets of runs: as pcapng, which Wireshark reads, as Parquet, and as frames."""
