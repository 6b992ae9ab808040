"""Sentences of specifications are quoted in the code as the list of quotations has them."""

import re
import tomllib
from pathlib import Path

CRATES = Path(__file__).parents[1] / "crates"
QUOTATION = re.compile(r"^ *//= (.+), section (\S+)\n((?: *//# .+\n)+)", re.MULTILINE)


def find_quotations(code: str) -> list[tuple[str, str, str]]:
    """Document, section and sentence of each quotation in `code`."""
    return [(one[1], one[2], " ".join(re.findall(r"//# (.+)", one[3]))) for one in QUOTATION.finditer(code)]


def test_each_quotation_is_listed_and_each_that_is_listed_is_quoted() -> None:
    listed = [
        (document, section, sentence)
        for document, sections in tomllib.loads((CRATES / "dumbbell-core/quotations.toml").read_text()).items()
        for section, sentences in sections.items()
        if section != "url"
        for sentence in sentences
    ]
    code = "".join(path.read_text() for path in CRATES.rglob("*.rs"))
    quoted = find_quotations(code)
    assert sorted(quoted) == sorted(listed)
    assert len(re.findall(r"^ *//= ", code, re.MULTILINE)) == len(quoted), "a quotation is malformed"


def test_a_quotation_is_a_document_a_section_and_the_lines_of_a_sentence() -> None:
    two = "  //= RFC 1, section A.1\n  //# One\n  //# sentence.\n  //= RFC 1, section 2\n  //# Two.\n"
    assert find_quotations(two) == [("RFC 1", "A.1", "One sentence."), ("RFC 1", "2", "Two.")]
    assert find_quotations("//= RFC 1, section 2\nlet x;\n") == []
