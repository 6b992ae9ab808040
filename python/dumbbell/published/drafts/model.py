"""What a paper's tables are: numbered grids, rate by delay, of one measure of one or two flows."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["one-flow", "two-flow", "difference"]


@dataclass(frozen=True)
class Grid:
    """Rates (Mbit/s) and delays (ms) of a table's rows and columns, and what the paper's captions say of them."""

    rates: tuple[float, ...]
    delays: tuple[float, ...]
    caption: str


@dataclass(frozen=True)
class Table:
    """One table; of a difference, `cc2` is what is subtracted from `cc1`, each measured with one flow."""

    number: int
    section: str
    title: str
    kind: Kind
    qdisc: str
    cc1: str
    cc2: str
    metric: str
    decimals: int
    grid: Grid

    @property
    def flows(self) -> tuple[int, ...]:
        """Which flows a cell has a figure of; 0 is the whole run."""
        if self.metric == "jain":
            return (0,)
        return (1, 2) if self.kind == "two-flow" else (1,)

    @property
    def group(self) -> str:
        """Name of the tables that differ only in their congestion controls."""
        return f"{self.kind}-{self.qdisc.replace(' ', '-')}-{self.metric}"


@dataclass(frozen=True)
class Draft:
    """A paper: its tables in its own order, and the file in `references` that holds their figures."""

    name: str
    title: str
    reference: str
    tables: tuple[Table, ...]
