"""What `make docs` makes for the site: pages from the registry, the command line, docstrings and experiments.

`pages.py` says which page gets what; `hooks.py` gives it to MkDocs. Only `hooks.py` needs MkDocs.
"""
