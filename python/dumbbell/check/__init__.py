"""Test cases of congestion controls as programs: `dumbbell check bbr`.

A judge knows a flow by its `Trace` and by the `Setup` of the path alone, so that any control of the registry, or a trace file of another implementation, can be
judged. `cases.CASES` are the cases, `suite.check` runs them, `docs/check-bbr.md` describes the interface.
"""
