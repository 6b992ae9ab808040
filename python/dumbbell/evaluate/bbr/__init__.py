"""Judges of BBR as programs: the test cases of the draft, which suite bbr lists.

A judge knows a flow by its `Trace` and by the `Setup` of the path alone, so that any control of the registry, or a
trace file of another implementation, can be judged. `cases.CASES` are the cases, `grid.judge_points` runs them,
`docs/check-bbr.md` describes the interface.
"""
