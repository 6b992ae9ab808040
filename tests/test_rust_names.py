"""Names in Rust: one public type, one name; a function is named by a verb or by what it returns."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("src", "build", "tests", "examples", "benches")
    for path in ROOT.glob(f"crates/*/{folder}/**/*.rs")
)
# not the associated types of traits, which are indented and not public
TYPE = re.compile(
    r"^(?! +type )[ ]*(pub(?:\([\w:]+\))? )?(?:unsafe )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE
)
FUNCTION = re.compile(r"\bfn (\w+)")
# the items of an algorithm's file, which the registries name by the module: `codel::Params`, `pie::State`
UNIFORM = {"Params", "State"}
# a bare participle, but no noun or verb that ends like one
PARTICIPLE = re.compile(
    r"(?!seed|speed|feed|need)[a-z]+ed|begun|built|come|coming|doing|done|drawn|found|given|gone|grown|heard|held|kept|known|left|lost|made"
    r"|overslept|overtaken|said|seen|sent|shown|shrunk|spelt|split|taken|told|undone|written"
)
FRAGMENT = re.compile(
    r"above|after|ahead|alike|all|alone|also|and|any|at|bare|before|behind|below|beside|between|beyond|both|by|even|in|news|of|on|or|over"
    r"|through|to|together|under|up|whole|whose|with|within|without"
)
# what people do, and no part: it reports, reads, writes, records
PEOPLE = re.compile(r"adds|asks|belief|believes|fits|hears?|looks?|passes|says?|sees?|speaks|tells?|wants|tell_\w+")
FORMER_TYPE = re.compile(
    r"Additions|Back|Beginning|Belief|Chosen|Due|Ends?|Foreign|Hears|Lines?|Maker|Moment|Place|Said|Speech|Told|Way|WayBack"
)


def is_test(path: Path) -> bool:
    """Return whether a file has tests, examples or benchmarks alone: their types are seen by nobody else."""
    parts = path.relative_to(ROOT / "crates").parts
    return parts[1] != "src" or any(re.fullmatch(r"tests?(\.rs)?|\w+_tests\.rs|properties\.rs", part) for part in parts)


def without_tests(text: str) -> str:
    """Return a file up to its module of tests."""
    return re.split(r"^#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", text, maxsplit=1, flags=re.MULTILINE)[0]


def test_a_name_says_its_thing_and_no_two_public_types_share_one() -> None:
    """Over all crates. `from` is the method of the trait `From`."""
    wrong = []
    public: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        text, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        for name in FUNCTION.findall(text):
            if any(pattern.fullmatch(name) for pattern in (PARTICIPLE, FRAGMENT, PEOPLE)):
                wrong.append(f"{place}: fn {name}: neither a verb with its object nor a noun")
        for is_public, name in TYPE.findall(without_tests(text)):
            if FORMER_TYPE.fullmatch(name):
                wrong.append(f"{place}: type {name}: not the noun of the field")
            if is_public and not is_test(path):
                public[name].append(place)
    wrong += [
        f"{name}: a public type in each of {', '.join(places)}"
        for name, places in public.items()
        if len(places) > 1 and name not in UNIFORM
    ]
    assert len(public) > 300 and public["Sender"] and len(public["Params"]) > 30
    assert not wrong, "\n".join(wrong)
