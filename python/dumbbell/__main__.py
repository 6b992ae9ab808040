"""`python -m dumbbell` is the command `dumbbell`."""

from dumbbell.cli.program import main

main()
