import math
import subprocess
import sys

import pytest
from scipy.special import stdtrit

from dumbbell.results.student import quantile


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_quantiles_are_those_of_scipy(level: float) -> None:
    for freedom in [*range(1, 40), 99, 1000, 9999, 10_000, 10_001, 10**6, 2.5, 17.25]:
        assert quantile(freedom, level) == pytest.approx(float(stdtrit(freedom, 0.5 + level / 2)), rel=1e-10)


def test_quantiles_are_those_of_tables() -> None:
    """Abramowitz and Stegun, table 26.10."""
    found = [round(quantile(freedom, 0.95), 3) for freedom in (1, 2, 3, 10, 30, 120)]
    assert found == [12.706, 4.303, 3.182, 2.228, 2.042, 1.980]
    assert math.isnan(quantile(math.nan, 0.95))


def test_a_table_of_whole_freedoms_does_without_scipy_and_arrow() -> None:
    code = (
        "import sys; from dumbbell.results import student, store, tables; student.quantile(4, 0.95);"
        "print(*({'scipy', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
