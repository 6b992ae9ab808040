"""The table of commands: what each does, in one sentence, and an example of it.

Help, man pages and docs/commands.md are made from this table. It imports nothing, so that `dumbbell --help` is fast.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandEntry:
    """One command: its sentence in lists of commands, and an example, one line for a shell or more."""

    summary: str
    example: str
    is_cheap: bool = True
    """Whether tests run the example; otherwise they only parse it: it builds something, takes minutes or a network."""


DESCRIPTION = "A laboratory for congestion control and active queue management."
EXAMPLE = """\
dumbbell run sce/one-flow-reno-cubic -o demo.duckdb
dumbbell table demo.duckdb --value goodput
dumbbell report demo.duckdb -o demo.html"""

GROUPS = {
    "Run": ("run", "watch", "play", "shell", "line", "import", "tc"),
    "Look and compare": ("table", "plot", "report", "explain", "trace", "export", "diff", "validate"),
    "Evaluate": ("search", "evaluate", "study"),
    "Extend": ("plugin", "stack", "linux"),
    "Look up": ("list", "describe", "doctor", "completion"),
}

# commands by their words after `dumbbell`; those of a group follow it
COMMANDS = {
    "run": CommandEntry(
        "Run experiments. Runs already in the results file are skipped.",
        "dumbbell run sce/one-flow-reno-cubic -o demo.duckdb",
    ),
    "watch": CommandEntry(
        "Show a run as it goes, a stored run, or a dumbbell shell.",
        "dumbbell watch sce/one-flow --cell 1 --interval 10s",
    ),
    "play": CommandEntry(
        "Open the playground, a page that simulates while you change it.",
        "dumbbell play sce/one-flow --cell 1 -o play.html",
        is_cheap=False,
    ),
    "shell": CommandEntry(
        "Put a shell or a command behind the bottleneck of an experiment.",
        "dumbbell shell home/evening --set bottleneck.aqm=cake -- ping -c 3 far",
        is_cheap=False,
    ),
    "line": CommandEntry(
        "Find the queue for the router of an access line, and its cost.",
        "dumbbell line --down 50Mbit --up 10Mbit --link vdsl --seeds 2 --duration 10s",
    ),
    "import": CommandEntry(
        "Turn measurements of other tools into results.",
        "dumbbell import upload.json -o lab.duckdb --propose lab.toml",
    ),
    "tc": CommandEntry(
        "Turn lines of tc or a configuration of SQM into an experiment.",
        "dumbbell tc 'cake bandwidth 50mbit besteffort' --rtt 30ms -o cake.toml",
    ),
    "table": CommandEntry(
        "Print means with 95 % intervals, by the keys that you choose.",
        "dumbbell table demo.duckdb --rows rate --columns base_rtt --value goodput",
    ),
    "plot": CommandEntry(
        "Draw the figure that suits the results, or the one you ask for.",
        "dumbbell plot demo.duckdb --value rtt --against base_rtt -o rtt.png",
    ),
    "report": CommandEntry(
        "Write a page with findings, figures, tables and every run.",
        "dumbbell report demo.duckdb -o demo.html",
    ),
    "explain": CommandEntry(
        "Explain in sentences what happened in one run.",
        "dumbbell explain sce/one-flow --cell 1",
    ),
    "trace": CommandEntry(
        "Write the packets of one run, for Wireshark or as qlog.",
        "dumbbell trace sce/one-flow --cell 1 --time 1s..2s -o run.pcapng",
    ),
    "export": CommandEntry(
        "Write results as CSV, Parquet or data files of Flent.",
        "dumbbell export demo.duckdb --format parquet -o tables",
    ),
    "diff": CommandEntry(
        "Print how two results, two values of a key or two runs differ.",
        "dumbbell diff demo.duckdb --by cc",
    ),
    "validate": CommandEntry(
        "Compare results with published numbers or another engine.",
        "dumbbell validate demo.duckdb linux-6.12 --scores",
    ),
    "search": CommandEntry(
        "Find parameters, or networks, whose runs are best or worst.",
        "dumbbell search tuning.toml -o tuning.duckdb --plot front.png",
        is_cheap=False,
    ),
    "evaluate": CommandEntry(
        "Grade a control, a queue, a QUIC stack, a trace or results.",
        "dumbbell evaluate cc reno --quick --only 5.1.3",
    ),
    "evaluate cc": CommandEntry(
        "Grade a congestion control by RFC 9743, or by another suite.",
        "dumbbell evaluate cc reno --quick --only 5.1.3",
    ),
    "evaluate aqm": CommandEntry(
        "Grade a queue discipline by RFC 7928, or by a suite of yours.",
        "dumbbell evaluate aqm fq_codel --quick --only 5.2",
    ),
    "evaluate media": CommandEntry(
        "Grade a control of media by RFC 8867, or by a suite of yours.",
        "dumbbell evaluate media nada --quick --only 5.1",
    ),
    "evaluate results": CommandEntry(
        "Print whether the statements of a paper hold in results.",
        "dumbbell evaluate results results.duckdb --suite coexistence --format csv",
        is_cheap=False,
    ),
    "evaluate stack": CommandEntry(
        "Grade a QUIC stack alone, next to others and on difficult paths.",
        "dumbbell evaluate stack quinn --against picoquic --only use",
        is_cheap=False,
    ),
    "evaluate trace": CommandEntry(
        "Grade the log of another BBR by the test cases of the draft.",
        "dumbbell evaluate trace docs/check-bbr-sample.sqlog --rate 1Mbit --rtt 40ms",
        is_cheap=False,
    ),
    "evaluate history": CommandEntry(
        "Show how versions or commits of a stack differ in an evaluation.",
        "dumbbell evaluate history quinn --versions 0.11.14,0.11.16,0.11.19 --only use",
        is_cheap=False,
    ),
    "evaluate bisect": CommandEntry(
        "Find the commit since which a stack is worse in an evaluation.",
        "dumbbell evaluate bisect quinn --tree . --commits v1..v2 --only use",
        is_cheap=False,
    ),
    "study": CommandEntry(
        "Run studies and papers; make their tables, figures and verdicts.",
        "dumbbell study list",
    ),
    "study list": CommandEntry(
        "List the studies with their questions and figures.",
        "dumbbell study list",
    ),
    "study run": CommandEntry(
        "Run the experiments of a study.",
        "dumbbell study run sce --quick --dry-run",
    ),
    "study new": CommandEntry(
        "Make a folder for a study of your own, ready to be changed.",
        "dumbbell study new mine",
    ),
    "study page": CommandEntry(
        "Write the page of a study from its evidence, or from results.",
        "dumbbell study page sce --no-figures -o pages",
    ),
    "study check": CommandEntry(
        "Check that a page of a study is what its evidence gives.",
        "dumbbell study check l4s-classic",
        is_cheap=False,
    ),
    "study tables": CommandEntry(
        "Print the tables of a study or of its paper.",
        "dumbbell study tables sce demo.duckdb --only 12,13",
    ),
    "study figure": CommandEntry(
        "Draw figures of a study, from its evidence or from results.",
        "dumbbell study figure sce sce-fair -o figures --format svg",
    ),
    "plugin": CommandEntry(
        "Write and test a queue, a congestion control or a stack.",
        "dumbbell plugin new queue mine --language python",
    ),
    "plugin new": CommandEntry(
        "Make a folder with a plugin that works, ready to be changed.",
        "dumbbell plugin new control fast --language python",
    ),
    "plugin test": CommandEntry(
        "Test a plugin with random operations and runs.",
        "dumbbell plugin test fast/fast.py --runs 2",
    ),
    "plugin trust": CommandEntry(
        "Allow experiments to load the plugins of a folder.",
        "dumbbell plugin trust fast",
        is_cheap=False,
    ),
    "stack": CommandEntry(
        "Build, list and remove QUIC stacks, which run in virtual time.",
        "dumbbell stack list",
    ),
    "stack build": CommandEntry(
        "Build a QUIC stack with cargo, or picoquic with cmake.",
        "dumbbell stack build quinn",
        is_cheap=False,
    ),
    "stack list": CommandEntry(
        "List the stacks that are built, with their congestion controls.",
        "dumbbell stack list --format json",
    ),
    "stack remove": CommandEntry(
        "Remove stacks. Removing the last one also clears the build cache.",
        "dumbbell stack remove quinn-0.11.19",
        is_cheap=False,
    ),
    "linux": CommandEntry(
        "Build, list and remove Linux kernels, which run in virtual time.",
        "dumbbell linux list",
    ),
    "linux build": CommandEntry(
        "Build a kernel. Steps already done are skipped.",
        "dumbbell linux build --name mine --patch my.patch",
        is_cheap=False,
    ),
    "linux list": CommandEntry(
        "List the kernels that are built, with their congestion controls.",
        "dumbbell linux list",
    ),
    "linux keys": CommandEntry(
        "Print which keys of an experiment reach the kernel.",
        "dumbbell linux keys",
    ),
    "linux remove": CommandEntry(
        "Remove kernels and what was built for them.",
        "dumbbell linux remove mine",
        is_cheap=False,
    ),
    "list": CommandEntry(
        "List algorithms, links and experiments that come with dumbbell.",
        "dumbbell list experiments",
    ),
    "describe": CommandEntry(
        "Describe a key, table, algorithm or column.",
        "dumbbell describe cake",
    ),
    "doctor": CommandEntry(
        "Check what each engine needs, and say how to get what is missing.",
        "dumbbell doctor sim",
    ),
    "completion": CommandEntry(
        "Print a script that completes words in bash, zsh or fish.",
        'eval "$(dumbbell completion bash)"',
    ),
}

# words and options that are no longer commands, with the ones to use
RETIRED_COMMANDS = {
    "check": "evaluate stack NAME, and evaluate cc NAME --suite bbr",
    "check bbr": "evaluate cc NAME --suite bbr, and evaluate trace FILE",
    "check stack": "evaluate stack NAME",
    "claims": "evaluate results RESULTS --suite NAME",
    "compare": "validate RESULTS REFERENCE",
    "draft": "study tables NAME RESULTS",
    "paper": "study tables NAME RESULTS, and study figure NAME --from RESULTS",
    "qlog": "trace FILE -o DIR to write qlog, plot FILE.sqlog to draw it",
    "qlog plot": "plot FILE.sqlog",
    "qlog write": "trace FILE -o DIR",
    "schema": "describe --schema",
    "study claims": "evaluate results RESULTS --suite NAME",
}
RETIRED_OPTIONS = {
    **{f"--{name}": f"--format {name}" for name in ("csv", "flent", "json", "latex", "markdown", "parquet", "raw")},
    "--check": "study check NAME",
    "--claims": "--suite NAME",
}
