"""Runs in a terminal: as they go, or replayed, with pause, step and speed; as lines where there is no terminal."""
