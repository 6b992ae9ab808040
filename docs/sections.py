"""Sections of a page that different commands write: each from its heading to the next one of level two."""

import re


def section(text: str, heading: str) -> str:
    """Return the section with this heading, heading included; "" if the page has none."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0].rstrip("\n") if found else ""


def replaced(text: str, heading: str, body: str) -> str:
    """Return the page with this section's text instead of what it had; raises ValueError if it has no such section."""
    old = section(text, heading)
    if not old:
        raise ValueError(f"no section {heading!r}")
    return text.replace(old, f"## {heading}\n\n{body.strip()}", 1)
