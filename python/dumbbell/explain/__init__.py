"""Explains one run: facts from its tables and its trace, and the sentences that say them."""
