"""`dumbbell schema`."""

import json


def schema() -> None:
    from dumbbell.experiment import json_schema

    print(json.dumps(json_schema.make_schema(), indent=2))
