"""Several qlog files in one: JSON with all traces, instead of JSON text sequences with one each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dumbbell.experiment.cell import Cell
from dumbbell.qlog import write as writing
from dumbbell.scratch import Scratch
from dumbbell.writing import report_write_failures


def run(cell: Cell, output: Path, flows: Sequence[int] = ()) -> None:
    """Run a cell and write the traces of its senders and of the network as one file.

    `flows` are numbers as in table `flows`; all of `[[flows]]` by default. Raises InputError.
    """
    with Scratch() as folder:
        sequences = writing.write(cell, folder, flows).files
        with report_write_failures(output, "a file to write to", command="trace", option="--output"):
            write(sequences, output)


def write(sequences: Sequence[Path], output: Path) -> None:
    """Write the traces of JSON text sequences as one file, as in draft-ietf-quic-qlog-main-schema-14 section 3.

    Raises OSError.
    """
    with output.open("w", encoding="utf-8") as file:
        for number, path in enumerate(sequences):
            with path.open(encoding="utf-8") as records:
                head = json.loads(next(records).removeprefix("\x1e"))
                if number == 0:
                    form = {
                        "file_schema": "urn:ietf:params:qlog:file:contained",
                        "serialization_format": "application/qlog+json",
                    }
                    title = {"title": str(head["title"]).rpartition(": ")[0]}
                    file.write(json.dumps(form | title)[:-1] + ', "traces": [')
                file.write(", " * bool(number) + json.dumps(head["trace"])[:-1] + ', "events": [')
                for line, record in enumerate(records):
                    file.write(",\n" * bool(line) + record.removeprefix("\x1e").rstrip("\n"))
                file.write("]}")
        file.write("]}\n")
