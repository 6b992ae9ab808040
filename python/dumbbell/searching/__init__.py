"""Searches: parameters of an experiment, or of its network, whose runs are best, or worst, by chosen measures."""
