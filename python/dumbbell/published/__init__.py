"""Results held against published numbers and against another engine.

`compare` cells, `by_class`, `by_flow`, `engines`; `drafts` fills the tables of a draft, `pictures` draws errors.
"""
