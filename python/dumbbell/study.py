"""What the program of a study works with: results, evidence, sweeps, tables, figures and the words of captions.

`dumbbell study new` makes a program that imports this module alone.
"""

from dumbbell import figures
from dumbbell.errors import InputError, Nothing, Unreadable
from dumbbell.experiment import load, parse, shipped
from dumbbell.figures import Picture, Series
from dumbbell.notebook import Results
from dumbbell.pages.captions import of_runs, seconds_of, seeds_in, seeds_of
from dumbbell.pages.evidence import Evidence, Tables, members
from dumbbell.pages.summaries import cross, means, named, ordered
from dumbbell.pages.sweeps import Sweep
from dumbbell.pages.values import Answers, Rows
from dumbbell.pages.words import count, listed
from dumbbell.results.aggregate import LEVEL, half_width, times
from dumbbell.results.tables import aligned, bins_note, half_text, mean_text, number

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
    "aligned",
    "bins_note",
    "count",
    "cross",
    "figures",
    "half_text",
    "half_width",
    "listed",
    "load",
    "mean_text",
    "means",
    "members",
    "named",
    "number",
    "of_runs",
    "ordered",
    "parse",
    "seconds_of",
    "seeds_in",
    "seeds_of",
    "shipped",
    "times",
]
