"""The trained agents: small networks of two layers, kept as numbers, which need nothing but numpy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

AGENTS = Path(__file__).with_name("agents")
CLIP = 10.0  # of normalised observations: the default of stable-baselines3's VecNormalize


@dataclass(frozen=True)
class Policy:
    """Layers of weights and biases with tanh between them, of normalised observations."""

    mean: Floats
    deviation: Floats
    layers: tuple[tuple[Floats, Floats], ...]

    def choose_action(self, observation: NDArray[Any]) -> Floats:
        """Return the action for an observation, or an array of actions for one observation in each row."""
        values = np.clip((observation - self.mean) / self.deviation, -CLIP, CLIP)
        for place, (weights, biases) in enumerate(self.layers):
            values = values @ weights.T + biases
            if place < len(self.layers) - 1:
                values = np.tanh(values)
        return np.clip(values, -1, 1)

    def save(self, path: Path) -> None:
        """Write the numbers to a file, with six significant digits."""
        layers = [[_round(weights), _round(biases)] for weights, biases in self.layers]
        table = {"mean": _round(self.mean), "deviation": _round(self.deviation), "layers": layers}
        path.write_text(json.dumps(table) + "\n", encoding="utf-8")


def _round(values: Floats) -> Any:
    return json.loads(json.dumps(values.tolist()), parse_float=lambda text: float(f"{float(text):.6g}"))


def read_policy(path: Path) -> Policy:
    """Return the agent of a file."""
    table = json.loads(path.read_text(encoding="utf-8"))
    layers = tuple((np.array(weights), np.array(biases)) for weights, biases in table["layers"])
    return Policy(np.array(table["mean"]), np.array(table["deviation"]), layers)


def list_policies(kind: str) -> dict[int, Path]:
    """Return the files of agents by the seed of their training; kind `seed` are those after it."""
    return {int(path.stem.rpartition("-")[2]): path for path in sorted(AGENTS.glob(f"{kind}-*.json"))}
