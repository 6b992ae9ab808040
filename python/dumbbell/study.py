"""Names for programs of studies: results, evidence, sweeps, tables, figures and the words of captions.

`dumbbell study new` makes a program that imports this module alone.
"""

from dumbbell import figures
from dumbbell.errors import InputError, Nothing, Unreadable
from dumbbell.experiment import load, parse, shipped
from dumbbell.figures import Picture, Series
from dumbbell.notebook import Results
from dumbbell.pages.captions import count_experiment_seeds, count_seeds, describe_runs, list_durations
from dumbbell.pages.evidence import Evidence, Tables, list_members
from dumbbell.pages.summaries import (
    choose_title,
    compute_intervals,
    compute_means,
    draw_means,
    make_grid,
    map_names,
    order_names,
)
from dumbbell.pages.sweeps import Sweep
from dumbbell.pages.template_words import format_count
from dumbbell.pages.values import Answers, Rows
from dumbbell.results.aggregate import LEVEL, format_counts
from dumbbell.results.tables import align_table, explain_bins, format_half, format_mean, format_number
from dumbbell.words import join_words

__all__ = [
    "LEVEL",
    "Answers",
    "Evidence",
    "InputError",
    "Nothing",
    "Picture",
    "Results",
    "Rows",
    "Series",
    "Sweep",
    "Tables",
    "Unreadable",
    "align_table",
    "choose_title",
    "compute_intervals",
    "compute_means",
    "count_experiment_seeds",
    "count_seeds",
    "describe_runs",
    "draw_means",
    "explain_bins",
    "figures",
    "format_count",
    "format_counts",
    "format_half",
    "format_mean",
    "format_number",
    "join_words",
    "list_durations",
    "list_members",
    "load",
    "make_grid",
    "map_names",
    "order_names",
    "parse",
    "shipped",
]
