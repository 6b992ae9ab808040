"""Tables for LaTeX: `tabular` with the rules of booktabs, the only package that a document has to load."""

import re
from collections.abc import Sequence

_SPECIAL = {c: f"\\{c}" for c in "_%&#${}"}
_SPECIAL |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
# in OT1, the encoding of fonts that LaTeX starts with, these are other characters
_SPECIAL |= {"<": "$<$", ">": "$>$", "|": r"\textbar{}", "±": r"$\pm$", "µ": r"$\mu$"}
_SPECIAL |= {"·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "…": r"\dots{}"}


def escape(text: str) -> str:
    """Return `text` as LaTeX prints it."""
    return "".join(_SPECIAL.get(c, c) for c in text)


def format_number(text: str) -> str:
    """Return a cell of numbers, such as `-1.2e-05 ± 3e-06`, with signs and powers as LaTeX prints them."""
    signs = re.sub(r"(?<![\w.])-(?=\d)", r"$-$", escape(text))
    return re.sub(r"(\d)e([+-]?)0*(\d+)", lambda m: f"{m[1]}$\\cdot10^{{{m[2].strip('+')}{m[3]}}}$", signs)


def format_tabular(
    title: str,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    words: int,
    notes: Sequence[str],
    lines: Sequence[str] = (),
) -> str:
    r"""Return a table with `title` and `notes` as comments; the first `words` columns are text, the others numbers.

    `lines` are sentences below the table, as wide as the text of the document.

    A row that begins with `[` or `*` has `{}` before it: LaTeX would take either for an option of the `\\` above.
    """

    def format_line(texts: Sequence[str]) -> str:
        whole = " & ".join(texts)
        return ("{}" if whole[:1] in ("[", "*") else "") + whole + r" \\"

    rows = [[*map(escape, row[:words]), *map(format_number, row[words:])] for row in cells]
    return "\n".join(
        [
            f"% {' '.join(title.split())}",
            rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(header) - words)}}}",
            r"\toprule",
            format_line([*map(escape, header)]),
            r"\midrule",
            *map(format_line, rows),
            r"\bottomrule",
            *(rf"\multicolumn{{{len(header)}}}{{p{{\linewidth}}}}{{{escape(text)}}} \\" for text in lines),
            r"\end{tabular}",
            *(f"% {' '.join(note.split())}" for note in notes),
        ]
    )
