"""Tables of draft-heist-tsvwg-sce-one-and-two-flow-tests-00 (IETF, 2019), in its order.

Sections and captions of tables 1 to 11 are the draft's; it describes those of the appendix without their captions.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

from dumbbell.published.drafts.model import Draft, Grid, Kind, Table

# the order of the appendix
CCS = ("cubic", "reno", "reno-sce", "dctcp", "dctcp-sce")
PAIRS = tuple(combinations_with_replacement(CCS, 2))

ONE_FLOW = Grid(
    rates=(0.5, 1, 2, 5, 10, 25, 50, 100),
    delays=(0, 2, 5, 10, 20, 40, 80, 160),
    caption="Columns: netem bi-directional Delay (ms); Rows: Cake-limited Bandwidth (Mbit)",
)
TWO_FLOW = Grid(
    rates=(1, 5, 10, 50, 100),
    delays=(0, 10, 20, 80),
    caption="Columns: netem bi-dir Delay (ms); Rows: Cake Bandwidth (Mbit)",
)

SINGLE_QUEUE, SCE_SINGLE, FAIR_QUEUE = "flowblind", "flowblind sce-single", "triple-isolate"

THROUGHPUT, RTT, JAIN = "throughput_mbit", "rtt_ms", "jain"
THROUGHPUT_DIFFERENCE, RTT_DIFFERENCE = "throughput_difference", "rtt_difference_ms"
DECIMALS = {THROUGHPUT: 2, RTT: 2, JAIN: 3, THROUGHPUT_DIFFERENCE: 3, RTT_DIFFERENCE: 2}
NAMES = {THROUGHPUT: "TCP Throughput (Mbit)", RTT: "TCP RTT (ms)", JAIN: "Jain's fairness index"}

# section, metric, minuend, subtrahend
DIFFERENCES = (
    ("5.1.1. Reno-SCE TCP Throughput", THROUGHPUT_DIFFERENCE, "reno-sce", "reno"),
    ("5.1.2. Reno-SCE TCP RTT", RTT_DIFFERENCE, "reno-sce", "reno"),
    ("5.1.3. DCTCP-SCE TCP Throughput", THROUGHPUT_DIFFERENCE, "dctcp-sce", "dctcp"),
    ("5.1.4. DCTCP-SCE TCP RTT", RTT_DIFFERENCE, "dctcp-sce", "dctcp"),
)
# section, qdisc, pair
FAIRNESS = (
    ("5.2.1.1. Reno vs Reno", SINGLE_QUEUE, "reno", "reno"),
    ("5.2.1.2. Reno vs Reno-SCE", SINGLE_QUEUE, "reno", "reno-sce"),
    ("5.2.1.3. Cubic vs DCTCP-SCE", SINGLE_QUEUE, "cubic", "dctcp-sce"),
    ("5.2.2.1. Reno vs Reno-SCE", SCE_SINGLE, "reno", "reno-sce"),
    ("5.2.2.2. Cubic vs DCTCP-SCE", SCE_SINGLE, "cubic", "dctcp-sce"),
    ("5.2.3.1. Cubic vs DCTCP-SCE", FAIR_QUEUE, "cubic", "dctcp-sce"),
    ("5.2.3.2. DCTCP vs DCTCP-SCE", FAIR_QUEUE, "dctcp", "dctcp-sce"),
)
ONE_FLOW_RAW = (
    ("A.1. One-Flow TCP Throughput", THROUGHPUT),
    ("A.2. One-Flow TCP RTT", RTT),
)
TWO_FLOW_RAW = tuple(
    (f"A.{number}. Two-Flow {'TCP RTT' if metric == RTT else 'TCP Throughput'}, Cake {qdisc}", metric, qdisc)
    for number, (metric, qdisc) in enumerate(product((THROUGHPUT, RTT), (SINGLE_QUEUE, SCE_SINGLE, FAIR_QUEUE)), 3)
)

Row = tuple[str, Kind, str, str, str, str]


def _rows() -> Iterator[Row]:
    """Yield section, kind, qdisc, congestion controls and metric of every table."""
    for section, metric, cc1, cc2 in DIFFERENCES:
        yield section, "difference", FAIR_QUEUE, cc1, cc2, metric
    for section, qdisc, cc1, cc2 in FAIRNESS:
        yield section, "two-flow", qdisc, cc1, cc2, JAIN
    for (section, metric), cc in product(ONE_FLOW_RAW, CCS):
        yield section, "one-flow", FAIR_QUEUE, cc, "", metric
    for (section, metric, qdisc), (cc1, cc2) in product(TWO_FLOW_RAW, PAIRS):
        yield section, "two-flow", qdisc, cc1, cc2, metric


def _title(kind: Kind, cc1: str, cc2: str, metric: str) -> str:
    if metric == THROUGHPUT_DIFFERENCE:
        return f"Difference in TCP Throughput ({cc1} - {cc2}), normalized to Cake-limited Bandwidth"
    if metric == RTT_DIFFERENCE:
        return f"Difference in TCP RTT ({cc1} - {cc2})"
    return f"{f'{cc1} vs {cc2}' if kind == 'two-flow' else cc1} {NAMES[metric]}"


def _table(number: int, row: Row) -> Table:
    section, kind, qdisc, cc1, cc2, metric = row
    grid = TWO_FLOW if kind == "two-flow" else ONE_FLOW
    title = _title(kind, cc1, cc2, metric)
    return Table(number, section, title, kind, qdisc, cc1, cc2, metric, DECIMALS[metric], grid)


SCE = Draft(
    name="sce",
    title="Some Congestion Experienced: one- and two-flow tests, draft-heist-tsvwg-sce-one-and-two-flow-tests-00",
    reference="sce",
    tables=tuple(_table(number, row) for number, row in enumerate(_rows(), 1)),
)
