"""A QUIC stack judged from outside: `dumbbell check stack`. The other suites are in `evaluate`."""
