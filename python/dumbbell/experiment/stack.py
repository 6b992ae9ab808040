"""The key `stack` of a flow or an application: a QUIC stack in place of TCP becomes the plugin of its `cc`."""

from collections.abc import Mapping
from typing import Any

from dumbbell.errors import InputError, Unfit, WrongValue, quote_value
from dumbbell.experiment.plugins import built, trust

CARRIED = ("flows", "app")  # sections whose entries may have a stack
ONLY_TCP = ("connect", "app_rate_from", "app_pause", "app_resume", "ecn_echo")  # keys of these entries
DOC = (
    "A QUIC stack in place of TCP: its name in `dumbbell stack list`, the file of its library, or a table with name or "
    "plugin and its parameters. `cc` is one of its own congestion controls then."
)
_ALLOWED = "the name of a stack that `dumbbell stack list` shows, the file of one, or a table with either"


def make_plugin_table(flow: Mapping[str, Any], stack: Any) -> dict[str, Any]:
    """Return what stands for the `stack` of an entry in its `cc`: its library, its control and its other keys.

    Raises InputError without file, said of the keys of the entry.
    """
    if refused := [key for key in ONLY_TCP if key in flow]:
        raise Unfit(
            "a flow with a stack is not TCP", f"omit {refused[0]}, which sets TCP, or omit stack", key=f".{refused[0]}"
        )
    control = flow.get("cc")
    if control is not None and not isinstance(control, str):
        raise WrongValue(quote_value(control), "the name of one of the stack's congestion controls", key=".cc")
    keys: dict[Any, Any] = {"control": control} if control is not None else {}
    match stack:
        case str(name):
            pass
        case {"plugin": str(name), **rest} | {"name": str(name), **rest}:
            keys |= rest
        case _:
            raise WrongValue(quote_value(stack), _ALLOWED, key=".stack")
    if "/" in name or name.endswith((".so", ".dylib")):
        return keys | {"plugin": name}
    try:
        library = built.find_library(name)
    except InputError as error:
        raise error.move("", f".stack{error.key}") from None
    trust.trust(library.parent)  # it was built here
    return keys | {"plugin": str(library.resolve())}
