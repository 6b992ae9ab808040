"""Formulas as MathML, which browsers draw without any script."""

from typing import Any

from latex2mathml.converter import convert


def format_fence(source: str, *_: Any, **__: Any) -> str:
    """Return a block of `math`, one formula a line, in the form that superfences asks for."""
    lines = [line for line in source.replace("\\\\\n", "\n").splitlines() if line.strip()]
    return "\n".join(f'<div class="formula">{convert(line, display="block")}</div>' for line in lines)
