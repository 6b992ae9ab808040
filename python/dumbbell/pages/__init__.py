"""Pages of findings: templates whose every number and comparison is computed from stored results.

`values` are what a template may ask of the results, `evidence` the small tables that are stored with a page,
`template` renders, `prose` finds numbers that were typed by hand, `study` is the folder of one page, `sweeps` the
experiments that it rests on, `new` makes a folder.
"""
