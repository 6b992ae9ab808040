import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import stdtr, stdtrit

from dumbbell.results.student import compute_t_quantile, compute_tails


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_quantiles_are_those_of_scipy(level: float) -> None:
    for freedom in [*range(1, 40), 99, 1000, 9999, 10_000, 10_001, 10**6, 1.001, 1.5, 2.5, 17.25, 333.3, 1e5 + 0.5]:
        assert compute_t_quantile(freedom, level) == pytest.approx(float(stdtrit(freedom, 0.5 + level / 2)), rel=1e-10)


def test_tails_are_those_of_scipy() -> None:
    freedom, t = np.meshgrid([0.5, 1, 1.5, 2, 7.3, 30, 99.9, 100.1, 1e4, 1e6], [0, 1e-9, 0.3, 1, 2, 5, 12, 1e6])
    assert compute_tails(freedom, -t) == pytest.approx(2 * stdtr(freedom, -t), rel=1e-9, abs=1e-300)
    assert float(compute_tails(4, 2.5)) == pytest.approx(0.0667665448)
    odd = compute_tails(np.array([math.nan, 3.0, 3.0]), np.array([1.0, math.nan, math.inf]))
    assert np.isnan(odd).tolist() == [True, True, False] and odd[2] == 0
    assert (
        compute_t_quantile(2.5, 0.95) == pytest.approx(float(stdtrit(2.5, 0.975)))
        and compute_tails(2.5, compute_t_quantile(2.5, 0.9)) < 0.1001
    )


def test_quantiles_are_those_of_tables() -> None:
    """Abramowitz and Stegun, table 26.10."""
    found = [round(compute_t_quantile(freedom, 0.95), 3) for freedom in (1, 2, 3, 10, 30, 120)]
    assert found == [12.706, 4.303, 3.182, 2.228, 2.042, 1.980]
    assert math.isnan(compute_t_quantile(math.nan, 0.95))


def test_a_table_of_whole_freedoms_does_without_scipy_and_arrow() -> None:
    code = (
        "import sys; from dumbbell.results import student, store, tables; student.compute_t_quantile(4, 0.95);"
        "print(*({'scipy', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
