"""A QUIC stack judged from outside: `dumbbell check stack`.

`stack_case` defines a case, `scenes` makes the experiments, `cases` has the cases with their limits, `outcomes` reads
what their runs measured, `suite` runs them all, `against` compares two stacks, `stack_report` writes the report.
`docs/check-stack.md` describes it for users.
"""
