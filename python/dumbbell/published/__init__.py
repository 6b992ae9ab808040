"""Results held against published numbers and against another engine.

`compare` cells, `by_class`, `by_flow`, `by_way`; `reference` chooses among these by the columns of a file; `engines`;
`pictures` draws errors.
"""
