"""Small pieces of Markdown."""

from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def escape_cell(text: str) -> str:
    """Return text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def format_code(text: str) -> str:
    """Return text as inline code, as a cell of a table takes it; nothing if it is empty."""
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `rows` are cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def join_paragraphs(parts: Iterable[str]) -> str:
    """Join what is not empty, with empty lines between."""
    return "\n\n".join(part for part in parts if part) + "\n"
