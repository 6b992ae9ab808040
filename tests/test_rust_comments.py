"""Comments of the Rust sources begin with a noun or a verb, not with a clause whose noun is left out."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FRAGMENT = re.compile(r"(?:Who|What|Of|But|The same|That|Those|It|Its|Their|So many|And)\b(?!')")
COMMENT = re.compile(r"^\s*(//[/!]?) (\S.*)$")


def find_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with which a block of comments begins."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = COMMENT.match(line)
        kind = found[1] if found else line.strip() if line.strip() in {"//", "///", "//!"} else ""
        if found and kind != before:
            yield number, found[2]
        before = kind


def test_blocks_are_found_by_their_first_line() -> None:
    text = "//! One.\n//! Of two.\n\n/// Three.\n///\n/// It is four.\nfn five() {\n    // Of six.\n}\n"
    assert list(find_blocks(text)) == [(1, "One."), (4, "Three."), (8, "Of six.")]
    assert [bool(FRAGMENT.match(one)) for one in ("What it is.", "Its length.", "Items.", "The sum.")] == [1, 1, 0, 0]


def test_a_comment_begins_with_a_noun_or_a_verb() -> None:
    sources = [path for folder in ("crates", "fuzz/src", "fuzz/fuzz_targets") for path in (ROOT / folder).rglob("*.rs")]
    assert len(sources) > 200
    found = [
        f"{path.relative_to(ROOT)}:{number}: {text}"
        for path in sorted(sources)
        for number, text in find_blocks(path.read_text(encoding="utf-8"))
        if FRAGMENT.match(text)
    ]
    assert not found, "begin with a noun, or with a verb in the third person:\n" + "\n".join(found)
