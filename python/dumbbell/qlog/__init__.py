"""Runs as qlog, the events of qlog files, ours, a QUIC stack's own or another tool's, and figures of them."""
