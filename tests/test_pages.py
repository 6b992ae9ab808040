"""Pages of findings: statements are conditions, numbers come from evidence, and a page is what its evidence gives."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import dumbbell
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.pages import new as making
from dumbbell.pages import prose, study, template_words
from dumbbell.pages.evidence import Evidence
from dumbbell.pages.samples import find_changes, list_algorithms
from dumbbell.pages.summaries import choose_title
from dumbbell.pages.template import ContradictedError, render
from dumbbell.pages.values import PageError, Rows, find_highest, find_lowest, is_most_of
from dumbbell.words import join_words

STUDIES = study.list_studies()

SHARE = pl.DataFrame(
    {
        "cc": ["BBRv1"] * 3 + ["BBRv3"] * 3,
        "depth": [0.5, 1.0, 8.0] * 2,
        "share": [0.89, 0.88, 0.36, 0.56, 0.61, 0.49],
    }
)


def rendered(text: str, **facts: object) -> str:
    return render(text, Evidence({"share": SHARE}), facts).rstrip("\n")


def test_a_number_is_an_expression() -> None:
    assert rendered('{{ percents(share(cc="BBRv1", depth=between(0, 1)).share) }}') == "88 to 89 %"
    assert rendered('{{ percent(share(cc="BBRv3", depth=8).share.only) }}') == "49 %"
    assert rendered('{{ count(share(cc="BBRv3").share.n) }}') == "three"


def test_a_statement_that_holds_is_text() -> None:
    text = '{% says (share(cc="BBRv1", depth=between(0, 1)).share > 0.8).every %}BBRv1 starves CUBIC.{% endsays %}'
    assert rendered(text) == "BBRv1 starves CUBIC."


def test_a_statement_that_does_not_hold_is_named_with_its_condition() -> None:
    text = (
        "{% says (share.share > 0.3).every %}All are above.{% endsays %}\n"
        '{% says (share(cc="BBRv1").share > 0.8).every %}It starves in every buffer.{% endsays %}\n'
        "{% says share.share.max < 0.5 %}None has the half.{% endsays %}\n"
    )
    with pytest.raises(ContradictedError) as caught:
        rendered(text)
    assert [(line, said) for line, said, _ in caught.value.statements] == [
        (2, "It starves in every buffer."),
        (3, "None has the half."),
    ]
    assert 'not (share(cc="BBRv1").share > 0.8).every' in str(caught.value)


def test_a_statement_is_named_with_its_own_condition_and_not_with_that_of_its_line() -> None:
    text = (
        "{% why %}Why.{% endwhy %} {% says share.share.max > 0.1 %}First.{% endsays %} "
        "{% says share.share.max < 0.5 %}Second.{% endsays %}"
    )
    with pytest.raises(ContradictedError) as caught:
        rendered(text)
    assert caught.value.statements == [(1, "Second.", "not share.share.max < 0.5")]


def test_what_one_rendering_contradicts_is_not_held_against_the_next() -> None:
    text = "{% says holds %}It holds.{% endsays %}"
    with pytest.raises(ContradictedError):
        rendered(text, holds=False)
    assert rendered(text, holds=True) == "It holds."


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{{ share(cc="BBRv9").share.max }}', "no rows"),
        ("{{ share.goodput.max }}", "no column 'goodput'"),
        ("{{ nothing.at_all }}", "nothing"),
        ('{% says share(cc="BBRv1").share > 0.8 %}x{% endsays %}', "is not a condition"),
        ('{% says share(cc="BBRv1").share.max %}x{% endsays %}', "is not a condition"),
        ("{% if share.share > 0.8 %}x{% endif %}", "say .every"),
        ("{{ share.share.only }}", "6 values where one is meant"),
        ('{{ quoted("40 %", "") }}', "names its source"),
        ('{{ setup("share", "bottleneck.rate") }}', "no experiment 'share'"),
        ("{% says true %}x", "end of template"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ('{{ share("BBRv1") }}', "TypeError"),
    ],
)
def test_a_page_asks_for_what_is_there(text: str, error: str) -> None:
    with pytest.raises(PageError, match=error.replace("(", r"\(")):
        rendered(text)


def test_a_statement_at_the_end_of_a_paragraph_leaves_the_paragraph() -> None:
    text = "{% says true %}One.{% endsays %}\n\n{% why %}Two.{% endwhy %}\n{% if true %}\nThree.\n{% endif %}\n"
    assert rendered(text) == "One.\n\nTwo.\nThree."


def test_a_place_is_one_that_runs_have() -> None:
    assert rendered('{{ at("0.5 to 8 BDP") }}') == "0.5 to 8 BDP"
    with pytest.raises(PageError, match="no run has 4"):
        rendered('{{ at("4 BDP") }}')


def test_a_missing_value_is_no_number() -> None:
    rows = pl.DataFrame({"loss": [0.0, None]})
    with pytest.raises(PageError, match="1 of 2 are missing"):
        render("{{ loss.loss.mean }}", Evidence({"loss": rows}), {})


def test_pairs_need_every_counterpart() -> None:
    both = 'pairs(share(cc="BBRv1"), share(cc="BBRv3"), "depth", "share")'
    assert rendered(f"{{{{ fixed({both}.ratio.max, 2) }}}}") == "1.59"
    with pytest.raises(PageError, match="3 and 2 rows, 2 pairs"):
        rendered('{{ pairs(share(cc="BBRv1"), share(cc="BBRv3", depth=other(8)), "depth", "share") }}')


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (template_words.format_number(0.0468), "0.047"),
        (template_words.format_number(9.99), "10"),
        (template_words.format_number(12.6), "13"),
        (template_words.format_number(25_600), "25 600"),
        (template_words.format_fixed(-0.004, 2), "0.00"),
        (template_words.format_times(2.02), "twice"),
        (template_words.format_times(2.31), "2.3 times"),
        (template_words.format_times(5.95), "six times"),
        (template_words.format_span([0.26, 0.264], 2), "0.26"),
        (join_words(["a", "b", "c"]), "a, b and c"),
        (template_words.format_count(0), "no"),
        (template_words.format_upper_bound(0.0741, 2), "0.08"),
        (template_words.format_upper_bound(0.07, 2), "0.07"),
        (template_words.format_upper_bound(-0.0741, 2), "-0.07"),
        (template_words.format_lower_bound(121 / 148, 2), "0.81"),
        (template_words.format_percent_lower_bound(121 / 148), "81 %"),
        (template_words.format_percent_upper_bound(0.0134, 1), "1.4 %"),
        (template_words.format_percent_upper_bound(0.3), "30 %"),
        (template_words.format_bounds([0.472, 0.571], 2), "0.47 to 0.58"),
    ],
)
def test_words(found: str, text: str) -> None:
    assert found == text


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("BBRv1 has 88 % of the link.", ["88"]),
        ("It takes twice as much.", ["twice"]),
        ("It does so in every row.", ["every row"]),
        ("1. BBRv1 starves CUBIC", ["1. BBRv1"]),
        ("**BBRv1 starves CUBIC in deep buffers.**", ["**BBRv1 starves CUBIC in deep buffers.**"]),
        ("{% says true %}in 3 of four cells{% endsays %}", ["3"]),
        ('{{ "88 %" }}', ["88 %"]),
        ("| 2 | 0.36 |", ["2", "0.36"]),
        ("{% why %}The window is twice the BDP.{% endwhy %}", []),
        ("{% says true %}It takes twice as much.{% endsays %}", []),
        ("1. {% says true %}**BBRv1 starves CUBIC.**{% endsays %}", []),
        ("BBRv3 and DualPI2 on Linux 6.12 (RFC 9332, section 4.2), P99, ECT(1), (IMC 2019).", []),
        ("## 3. Loss\n\n    make bbr   # 2788 runs\n\n`limit = 100` [x](a-1.md)", []),
        ('{{ percent(0.3) }} of {{ quoted("40 %", "Ware et al.") }}', []),
    ],
)
def test_what_is_typed_by_hand_is_found(text: str, by_hand: list[str]) -> None:
    assert [problem.text for problem in prose.find_problems(text)] == by_hand


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("{% says share.share.mean > 0.3 %}BBRv1 has the largest share.{% endsays %}", "lowest(), highest()"),
        ('{% says highest(share, "share", {"cc": "BBRv1"}, "depth").some %}It has the largest.{% endsays %}', None),
        ('{% says share(cc="BBRv1").share.max == share.share.max %}Its share is the largest.{% endsays %}', None),
        ("{% says share.share.mean > 0.3 %}It mostly wins.{% endsays %}", ".most or most_of()"),
        ("{% says (share.share > 0.3).most %}It mostly wins.{% endsays %}", None),
        ("{% says share.share.mean > 0.3 %}It never loses.{% endsays %}", ".every, .none or an extreme"),
        ("{% says share.share.min > 0.3 %}It never loses.{% endsays %}", None),
        ("{% says share.share.min > 0.3 %}BBRv1 has more than BBRv3.{% endsays %}", "a comparison of two values"),
        ('{% says share(cc="a").share.min > share(cc="b").share.max %}It has more than b.{% endsays %}', None),
        ("It is within {{ fixed(share.share.max, 2) }}.", "a bound that fixed() rounds to nearest"),
        ("It is {{ percent(share.share.max) }} of the rate at most.", "a bound that percent() rounds to nearest"),
        ("It is within {{ at_most(share.share, 2) }}.", None),
        ("It is {{ fixed(share.share.mean, 2) }} on average.", None),
    ],
)
def test_a_condition_tests_the_words_of_its_statement(text: str, needed: str | None) -> None:
    found = [problem.what for problem in prose.find_problems(text)]
    assert (not found) if needed is None else (len(found) == 1 and needed in found[0])


def test_a_title_is_the_answer_that_the_evidence_gives_and_else_the_subject() -> None:
    rows, subject = Rows("share", SHARE), "Shares of BBR"

    def find_title(cc: str, least: float) -> str:
        answer = f"{cc} gets {least:.0%} or more"
        return choose_title(lambda: answer if rows(cc=cc).share.min >= least else None, subject)

    assert find_title("BBRv1", 0.3) == "BBRv1 gets 30% or more"
    assert find_title("BBRv1", 0.5) == subject == find_title("BBRv2", 0.0)  # false, and no row of BBRv2


def test_who_is_lowest_is_asked_in_each_place() -> None:
    rows = Rows("share", SHARE)
    assert find_lowest(rows, "share", {"cc": "BBRv1"}, "depth").answers == [False, False, True]
    assert find_highest(rows, "share", {"cc": "BBRv1"}, "depth").answers == [True, True, False]
    assert find_highest(rows, "share", {"cc": "BBRv1"}, "depth").most
    same = Rows("share", SHARE.with_columns(share=pl.lit(0.5)))
    assert find_lowest(same, "share", {"cc": "BBRv1"}, "depth").none, "a tie is no lowest value"
    with pytest.raises(PageError, match="nothing to compare"):
        find_lowest(rows(cc="BBRv1"), "share", {"cc": "BBRv1"}, "depth")
    with pytest.raises(PageError, match="no column 'rate'"):
        find_lowest(rows, "share", {"cc": "BBRv1"}, "rate")


def test_most_is_more_than_half() -> None:
    assert (Rows("share", SHARE).share > 0.5).most
    assert not (Rows("share", SHARE)(cc="BBRv3", depth=[0.5, 8.0]).share > 0.5).most
    assert (is_most_of(0.6, 1), is_most_of(0.5, 1), is_most_of(-1, -1)) == (True, False, False)


def test_evidence_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    frame = pl.DataFrame({"cc": ["a", None], "value": [1 / 3, float("nan")], "n": [1, 2]})
    Evidence({"one": frame}, {"x": {"runs": 1}}).save(tmp_path)
    first = Evidence.load(tmp_path)
    assert first["one"].to_dicts() == [{"cc": "a", "value": 0.333333, "n": 1}, {"cc": None, "value": None, "n": 2}]
    first.save(tmp_path / "again")
    assert (tmp_path / "again" / "one.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_is_what_its_evidence_gives(name: str) -> None:
    for path, text in study.find(name).render_files().items():
        assert text == path.read_text(encoding="utf-8"), f"dumbbell study page {name} makes {path.name} again"


# studies whose evidence is of an older engine, each with the reason
OUTDATED: dict[str, str] = {
    "bbr-suite": "make check-bbr makes its verdicts, and keeps no sample of its runs",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_engine_still_gives_what_a_page_rests_on(name: str) -> None:
    """A few runs of each experiment, which together use each of its algorithms, have the results that they had."""
    found = study.find(name)
    if name in OUTDATED:
        assert not all(one.get("samples") for one in found.read_evidence().made.values()), (
            "made again: take it off the list"
        )
        return
    simulated = {key: one for key, one in found.read_evidence().made.items() if one["runs"]}
    assert not simulated or any(one.get("samples") for one in simulated.values()), "evidence without samples"
    try:
        changes = found.list_changes()
    except InputError as error:
        if "build it with dumbbell stack build" not in str(error):
            raise
        pytest.skip("a QUIC stack of this study is not built (dumbbell stack build)")
    assert changes == [], f"dumbbell study run {name} and dumbbell study page {name} renew the page"


def test_samples_use_every_algorithm_and_notice_a_change(tmp_path: Path) -> None:
    made = tmp_path / "mine"
    making.make(made)
    mine = study.find(str(made))
    (sweep,) = mine.sweeps
    results = dumbbell.run(sweep.load_experiments(made)[0], output=tmp_path / sweep.results)
    evidence = mine.make_evidence([results.path])
    (one,) = evidence.made.values()
    algorithms = frozenset[str]().union(*(list_algorithms(json.loads(config)) for config in results.runs["config"]))
    rows = {row["cell"]: json.loads(row["config"]) for row in results.runs.iter_rows(named=True)}
    used = frozenset[str]().union(*(list_algorithms(rows[sample["cell"]]) for sample in one["samples"]))
    assert used == algorithms and len(one["samples"]) < len(rows)
    assert find_changes(mine.sweeps, made, evidence.made) == []
    one["samples"][0]["hash"] = "0" * 32
    one["samples"].append({"cell": "0" * 32, "seed": 1, "hash": ""})
    first, last = find_changes(mine.sweeps, made, evidence.made)
    assert "another result than in the evidence: " in first and "seed 1" in first
    assert "is no longer part of it" in last


def test_a_figure_needs_only_the_results_of_its_own_tables(tmp_path: Path) -> None:
    made = tmp_path / "mine"
    making.make(made)
    program = made / study.PROGRAM
    text = program.read_text(encoding="utf-8")
    for before, after in (
        ("RUNS = (", 'RUNS = (Sweep("other.duckdb", ("shares",), ("duration=5s",)), '),
        ("def make_evidence(results: Results)", "def make_evidence(other: Results, results: Results)"),
        ('{"runs": runs(results)}', '{"runs": lambda: runs(results), "others": lambda: runs(other)}'),
    ):
        assert before in text
        text = text.replace(before, after)
    program.write_text(text, encoding="utf-8")
    mine = study.find(str(made))
    dumbbell.run(mine.sweeps[1].load_experiments(made, quick=True)[0], output=tmp_path / "results.duckdb")
    found = mine.make_evidence([tmp_path])
    assert [path.name for path in mine.draw("shares", tmp_path, evidence=found)] == ["shares.svg"]
    with pytest.raises(InputError, match=r"other\.duckdb: there is no such file"):
        mine.gather([tmp_path])
    assert not (made / study.EVIDENCE).exists()


@pytest.mark.parametrize("name", STUDIES)
def test_no_number_of_a_page_is_typed_by_hand(name: str) -> None:
    assert [str(problem) for problem in study.find(name).list_problems()] == []


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_shows_every_figure_and_no_other(name: str) -> None:
    found = study.find(name)
    text = found.page.read_text(encoding="utf-8")
    for figure in found.figures:
        assert f"(figures/{figure}.svg)" in text, figure
        assert (found.folder / study.PICTURES / f"{figure}.svg").is_file(), figure


# a statement of each page, and what of its evidence would contradict it: table, column, factor, words of the statement
FALSIFIED: list[tuple[str, str, str, float, str]] = [
    ("abe", "runs", "rate_ratio", 0.5, "ECN itself causes most of this loss"),
    ("abe", "runs", "convergence", -1.0, "A new flow waits longer for its share"),
    ("abe", "closed", "utilisation", 1.02, "% low"),
    ("bbr_suite", "counts", "applies", 2.0, "v1, v2 and v3 fail it wherever it applies."),
    ("bbr_suite", "linux_probes", "round_trips", 3.0, "On Linux, PROBE_UP of BBRv2 over tail drop is over"),
    ("learning", "curve", "bound", 2.0, "Every training raises the reward"),
    ("learning", "controls", "score", -3.0, "each trained agent is better than BBRv3"),
    ("tuning", "targets", "use", 1.02, "derivation of CoDel's target holds"),
    ("hunting", "starts", "use", 0.8, "A search found a known bug again"),
    ("hunting", "bursts", "use", 1.2, "takes a burst of cross traffic for a policer"),
    ("hunting", "memory", "use", 0.5, "One difference is the simulator's"),
    ("hunting", "marks", "queue", 0.1, "BBRv3 fills FQ-CoDel for seconds"),
    ("hunting", "prague", "queue", 0.1, "Prague loses its answer to the first mark by chance"),
    ("hunting", "late", "share", 2, "A BBRv3 flow that starts into a queue stays small"),
    ("hunting", "stall", "use", 5, "Prague stands still on an empty link"),
    ("sce", "runs", "utilisation", 0.3, "The idle link at low rates"),
    ("sce", "runs", "sojourn", -1.0, "The higher RTT with SCE is the queue"),
    ("validation", "rows", "share", 1.5, "agrees with the lab's tables"),
    ("bbr_traces", "cells", "within", 1.5, "of 20 cells agree within 2 round trips"),
    ("bbr_traces", "cells", "beyond", 3.0, "of Linux's waits"),
    ("bbr", "share", "share", 0.7, "BBRv1 starves CUBIC in buffers of one BDP and less"),
    ("bbr", "late", "share", 0.8, "In the long run BBRv3 and the draft"),
    ("bbr", "ware_sources", "model", 1.1, "is close from 8 to 32 BDP"),
    ("bbr", "ware_sources", "sarpkaya", 0.9, "within"),
    ("bbr", "believes", "bw", 0.5, "BBRv2 keeps its high estimate"),
    ("bbr", "as_linux", "linux", 1.2, "gets the share of Linux"),
    ("bbr", "fair_queue", "share", 1.1, "Flow queues make two flows"),
    ("l4s_classic", "published", "ratio", 0.2, "Prague takes nearly all"),
    ("l4s_classic", "marks", "share", 3.0, "Marks are the cause"),
    ("l4s_classic", "tunnel", "share", 4.0, "A tunnel removes the protection"),
    ("l4s_classic", "dctcp", "ratio", 0.2, "Linux confirms the simulator's result for DCTCP"),
    ("dualpi2", "any_ect", "goodput", 3.0, "CUBIC starves, not Prague"),
    ("dualpi2", "fq", "ratio", 2.0, "With the threshold FQ-CoDel suits Prague"),
    ("dualpi2", "protection", "share", 4.0, "Under overload of L"),
    ("coexistence", "hosts", "use", 0.5, "leave the link half empty because of a flaw that Linux fixed"),
    ("coexistence", "marks", "balance", 0.8, "STEP marks both controls differently because of bursts"),
    ("coexistence", "linux", "share", 0.5, "The simulator agrees with real Linux"),
    ("coexistence", "limit", "relative", 0.7, "limit of 5 ms for ECN was lifted"),
    ("coexistence", "runs", "jain", 0.7, "or better over CSAQM"),
    ("coexistence", "classes", "relative", 8.0, "STEP and PI2 starve DCTCP flows of the longer RTT"),
    ("coexistence", "weights", "off", 3.0, "if the edge averages over a second"),
    ("dualpi2_versions", "changes", "change", -1.0, "Division of the controller's terms"),
    ("dualpi2_versions", "alike", "same", 0.5, "The commits"),
]


@pytest.mark.parametrize(("name", "table", "column", "factor", "said"), FALSIFIED)
def test_results_that_contradict_a_headline_are_refused(
    name: str, table: str, column: str, factor: float, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / name
    shutil.copytree(shipped.place() / name, folder)
    path = folder / study.EVIDENCE / f"{table}.csv"
    frame = pl.read_csv(path, infer_schema_length=None)
    frame.with_columns(pl.col(column) * factor).write_csv(path)
    with pytest.raises(ContradictedError) as caught:
        study.find(str(folder)).render_page()
    assert any(said in statement for _, statement, _ in caught.value.statements), caught.value


C = pl.col
# kind of guard, study, table, rows that are changed, column, its new value, words of the statement that is then false
CHANGED: list[tuple[str, str, str, pl.Expr, str, pl.Expr, str]] = [
    (
        *("superlative", "scoreboard", "alone", (C("queue") == "Cake") & (C("cc") == "CUBIC"), "delay", pl.lit(1.0)),
        "Prague over DualPI2 keeps the delay low",
    ),
    (
        *("superlative", "stacks", "steps", C("step").str.starts_with("paced") & (C("queue") == "FIFO")),
        *("drops", C("drops") * 9, "makes the largest difference in drops"),
    ),
    (
        *("superlative", "home", "cells", (C("queue") == "PIE") & (C("traffic") == "4 up") & (C("link") == "50/10")),
        *("ping_p99", pl.lit(99_999.0), "The FIFO gives the highest P99 of pings on every link"),
    ),
    (
        "most",
        "coexistence",
        "runs",
        C("aqm") == "CSAQM",
        "jain",
        pl.lit(0.1),
        "comes closest to equal shares in most cells",
    ),
    (
        *("most", "scoreboard", "measured", C("rate") == 50, "rtt_error", pl.lit(0.07)),
        "Most cells agree with real Linux",
    ),
    (
        *("most", "abe", "runs", (C("aqm") == "codel") & (C("rtt") == 20) & (C("beta") == 0.85), "rate_ratio"),
        *(C("rate_ratio") * 4, "ECN itself causes most of this loss"),
    ),
    (
        *("every", "scoreboard", "two", (C("queue") == "FQ-CoDel") & (C("rate") == 10) & (C("rtt") == 80)),
        *("share", pl.lit(0.7), "With flow queues, a control hardly affects others"),
    ),
    (
        *("every", "home", "cells", (C("queue") == "Cake") & (C("traffic") == "4 down, 4 up") & (C("link") == "100/2")),
        *("ping_p99", pl.lit(9_999.0), "Any queue that separates flows gives far shorter delays"),
    ),
    (
        *("range", "scoreboard", "two", (C("queue") == "CoDel") & (C("cc") == "BBRv1") & (C("other") == "Reno")),
        *("share", pl.lit(0.4), "leave Reno and CUBIC little"),
    ),
    (
        *("range", "abe", "runs", (C("cc") == "reno") & C("abe") & (C("rtt") == 160) & (C("experiment") == "gain")),
        *("goodput_total_mbit", pl.lit(1.0), "ABE raises the goodput of one flow over both queues"),
    ),
    (
        *("comparison", "stacks", "beside", C("sender") == "Linux BBRv3", "share", pl.lit(0.99)),
        "where Linux's BBRv3 takes",
    ),
    (
        *("comparison", "home", "cells", (C("queue") == "CoDel") & (C("traffic") == "1 down, 1 up"), "down"),
        *(pl.lit(48.0), "With traffic both ways CoDel loses much of its effect"),
    ),
]


@pytest.mark.parametrize(
    ("kind", "name", "table", "rows", "column", "value", "said"), CHANGED, ids=[f"{one[0]}-{one[1]}" for one in CHANGED]
)
def test_each_kind_of_guard_names_the_statement_that_became_false(
    kind: str, name: str, table: str, rows: pl.Expr, column: str, value: pl.Expr, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / name
    shutil.copytree(shipped.place() / name, folder)
    path = folder / study.EVIDENCE / f"{table}.csv"
    frame = pl.read_csv(path, infer_schema_length=None)
    changed = frame.with_columns(pl.when(rows).then(value).otherwise(pl.col(column)).alias(column))
    assert not changed.equals(frame), f"{kind}: nothing was changed"
    changed.write_csv(path)
    with pytest.raises(ContradictedError) as caught:
        study.find(str(folder)).render_page()
    assert any(said in statement for _, statement, _ in caught.value.statements), caught.value
