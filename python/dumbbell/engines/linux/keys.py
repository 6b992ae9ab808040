"""Keys of a run without a counterpart in Linux: they may have the values that the kernel has anyhow, and no others."""

from collections.abc import Iterable
from typing import Any

from dumbbell.errors import Unsupported, spell_option
from dumbbell.experiment.registry import Param
from dumbbell.experiment.spelling import show_value


def list_changed(values: dict[str, Any], params: dict[str, Param], keys: Iterable[str]) -> list[str]:
    """Return those of `keys` that `values` has, and not with their default."""
    return [key for key in keys if key in values and values[key] != params[key].default]


def refuse_rest(section: str, values: dict[str, Any], params: dict[str, Param], kernel: dict[str, Any]) -> None:
    """Raise InputError for the first of `values` that is not what the kernel does: `kernel`, else the default."""
    for key, value in values.items():
        param = params.get(key)
        wanted = kernel.get(key, param.default if param else ())
        if param is None and value in ([], None):
            continue
        if value != wanted:
            found = show_value(param, value) if param else str(value)
            allowed = show_value(param, wanted) if param else "none"
            raise Unsupported(
                found, f"{allowed}, or {spell_option('engine')} sim", key=f"{section}.{key}", where="Linux"
            )
