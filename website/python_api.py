"""The Python reference, from the docstrings of what `dumbbell` exports."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args

import dumbbell
from dumbbell import gym, notebook
from website.markdown import join_paragraphs

# what the classes call lists of words that a parameter may be
CHOICES = {name: " | ".join(f'"{one}"' for one in get_args(getattr(notebook, name))) for name in ("To", "Parts")}


def _format_docstring(thing: Any) -> str:
    """Return a docstring as Markdown."""
    return (inspect.getdoc(thing) or "").replace("<", "&lt;")


def _format_signature(name: str, thing: Any) -> str:
    """Return a call, one parameter a line if it is long."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"```python\n{name}()\n```"
    kept = [
        parameter.replace(annotation=_simplify_annotation(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    line = str(signature.replace(parameters=kept, return_annotation=_simplify_annotation(signature.return_annotation)))
    line = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", line)
    if len(name + line) > 90:
        inner, _, returned = line.rpartition(")")
        parts = re.split(r", (?=\*?\w*(?::|=|,|$)|\*,|\*\*)", inner[1:])
        line = "(\n" + "".join(f"    {part},\n" for part in parts) + ")" + returned
    return f"```python\n{name}{line}\n```"


def _simplify_annotation(annotation: Any) -> Any:
    """Return an annotation as text, by the last words of its names."""
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    return re.sub("|".join(rf"\b{name}\b" for name in CHOICES), lambda found: CHOICES[found[0]], text)


def list_names() -> list[str]:
    """Return the public names, functions first."""
    return sorted(dumbbell.__all__, key=lambda name: (inspect.isclass(getattr(dumbbell, name)), name.lower()))


# what users of results need first
FIRST = ("table", "plot", "where", "diff", "run", "tidy", "sql", "frame", "runs", "flows", "classes", "series")


def _list_members(name: str, thing: type) -> Iterator[str]:
    """Yield what is public in a class, with a docstring."""
    order = {member: place for place, member in enumerate(FIRST)}
    own = [one for one in reversed(thing.__mro__) if one.__module__.startswith("dumbbell")]
    members = {member: value for one in own for member, value in vars(one).items()}
    for member, value in sorted(members.items(), key=lambda item: order.get(item[0], len(order))):
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            if value.fget and value.__doc__:
                yield f"### {name}.{member}"
                annotation = inspect.signature(value.fget).return_annotation
                yield f"```python\n{member}: {_simplify_annotation(annotation)}\n```"
                yield _format_docstring(value)
            continue
        function = getattr(thing, member)
        if callable(function) and function.__doc__:
            yield f"### {name}.{member}"
            yield _format_signature(
                member, value.__func__ if isinstance(value, staticmethod | classmethod) else function
            )
            yield _format_docstring(function)


def make_page() -> str:
    """Return what follows the introduction of the page."""
    parts = []
    for name in list_names():
        thing = getattr(dumbbell, name)
        parts.append(f"## dumbbell.{name}")
        if inspect.isclass(thing):
            own_error = issubclass(thing, Exception)
            parts += [_format_docstring(thing), *([] if own_error else _list_members(name, thing))]
        else:
            parts += [_format_signature(f"dumbbell.{name}", thing), _format_docstring(thing)]
    parts += ["## Run", _format_docstring(notebook.Run), *_list_members("Run", notebook.Run)]
    parts += ["## dumbbell.gym", _format_docstring(gym)]
    for name in list_gym_names():
        thing = getattr(gym, name)
        signature = _format_signature(f"dumbbell.gym.{name}", thing)
        parts += [f"### dumbbell.gym.{name}", signature, _format_docstring(thing)]
    return join_paragraphs(parts)


def list_gym_names() -> list[str]:
    """Return what `dumbbell.gym` offers that can be called, functions first; its tables are in the how-to."""
    names = [name for name in gym.__all__ if callable(getattr(gym, name))]
    return sorted(names, key=lambda name: (inspect.isclass(getattr(gym, name)), name.lower()))
