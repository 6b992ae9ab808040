"""`dumbbell check`: suites of test cases; here `stack`, a QUIC stack judged from outside."""

from __future__ import annotations

from typing import Any

import typer

from dumbbell.cli.check_stack import stack
from dumbbell.cli.commands import CommandGroup
from dumbbell.errors import UnknownName, find_nearest, quote_value


class _Suites(CommandGroup):
    """The suites, of which an unknown one gets one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            known = [*self.commands]
            raise UnknownName(
                quote_value(args[0]), among=known, command="check", nearest=find_nearest(args[0], known), what="check"
            )
        return super().resolve_command(ctx, args)


check = typer.Typer(cls=_Suites, rich_markup_mode=None)


check.command()(stack)
