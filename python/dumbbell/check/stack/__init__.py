"""A QUIC stack judged from outside: `dumbbell check stack`.

`model` says what a case is, `scenes` makes the experiments, `cases` has the cases with their limits, `measured` reads
what their runs left, `suite` runs them all, `against` holds two stacks against each other, `report` says it.
`docs/check-stack.md` describes it for users.
"""
