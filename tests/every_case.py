"""One test over many cases: for checks that take milliseconds, of which a thousand would only be names to collect."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def every_case(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test once for each case, as `pytest.mark.parametrize` does, but as one test.

    `names` are the arguments that a case has, with commas. All cases run; the message has the cases that failed.
    """
    keys, listed = [name.strip() for name in names.split(",")], list(cases)
    assert listed, "there is no case"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = []
            for case in listed:
                values = (case,) if len(keys) == 1 else case
                try:
                    test(**dict(zip(keys, values, strict=True)), **fixtures)
                except Exception as error:
                    failed.append(f"{', '.join(map(str, values))}: {type(error).__name__}: {error}")
            assert not failed, f"{len(failed)} of {len(listed)} cases:\n" + "\n".join(failed)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[one for name, one in signature.parameters.items() if name not in keys]
        )
        return run

    return decorate
