"""Runs as qlog, and figures of qlog files: ours, a QUIC stack's own, another tool's."""
