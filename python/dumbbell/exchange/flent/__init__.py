"""Data files of Flent, read and written from what its format is, without its code."""
