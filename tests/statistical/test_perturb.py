"""What `perturb` really adds to a table is the law that is claimed: on every column, independently, whole or nothing.

2e5 cells a column; chi-square with alpha 1e-6, so each check fails by chance in one of a million runs (the noise is
seeded besides). Each check convicts the broken borders below.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from schemas.spec import Privacy
from schemas.table import TableSchema
from tasks.accounting import CellNoise, cell_noise
from tasks.accounting.groups import plain
from tasks.accounting.lattice import LATTICE_STEPS
from tasks.columns.layout import layout_of
from tasks.noise import SeededBits
from tasks.perturb import noise_on_cells, perturb
from tasks.staging import Staging
from tasks.tables import ConfidentialTable, NoiseAddedTable
from tasks.workspace import Workspace
from tests.sources import source_of
from tests.statistics import ALPHA, chi_square_p_value

N, P = 200_000, 3
TABLE = TableSchema.model_validate(
    {
        "label": "kind",
        "columns": {f"f{i}": {"type": "numeric", "bounds": [0, 1]} for i in range(P)}
        | {"kind": {"type": "categorical", "categories": ["x", "y"]}},
    }
)
MECHANISMS = ["dirac-laplace", "staircase", "dirac-staircase", "truncated-laplace", "gaussian", "optimal"]


def _mechanism(name: str) -> CellNoise:
    budget = {"epsilon": 100.0, "delta": 0.5}
    asked = {"unit": "element", "epsilon": 1.0, "delta": 1e-3, "mechanism": name, "budget": budget}
    return cell_noise(Privacy.model_validate(asked), plain(P), 2)


def _members() -> ConfidentialTable:
    random = np.random.default_rng(0)
    return ConfidentialTable(random.integers(0, 2**16 + 1, (N, P)), random.integers(0, 2, N), 2.0**-16)


def _released(members: ConfidentialTable, noise: CellNoise, folder: Path) -> NoiseAddedTable:
    """What the step keeps of the members, which are read in pieces and have random places in the release."""
    frame = pd.DataFrame({f"f{i}": members.lattice[:, i] / LATTICE_STEPS for i in range(P)})
    frame["kind"] = np.array(["x", "y"])[members.labels]
    order = np.random.default_rng(3).permutation(N)
    staging = Staging(Workspace(folder), "data", "r")
    staging.folder.mkdir(parents=True)
    drawn: list[bool] = []
    kept = perturb.function(
        source_of(frame.iloc[order].reset_index(drop=True), TABLE, rows=70_000),
        order,
        noise,
        TABLE,
        SeededBits(1),
        staging,
        lambda: drawn.append(staging.noise_added() is None),
    )
    assert drawn == [True]
    return kept.read()


def _worst(members: ConfidentialTable, released: NoiseAddedTable, noise: CellNoise) -> float:
    """The smallest p-value over columns' laws, in 64 cells a range, and over pairs of columns and of rows."""
    difference = released.lattice - members.lattice
    coarse = difference >> 10  # whole 64ths of the range
    edges = np.arange(-200, 201)
    masses = noise.law.cdf((edges + 1) * 1024 - 1) - noise.law.cdf(edges * 1024 - 1)

    def pmf(k: np.ndarray) -> np.ndarray:
        inside = (k >= -200) & (k <= 200)
        return np.where(inside, masses[np.clip(k + 200, 0, 400)], 0.0)

    values = [chi_square_p_value(coarse[:, column], pmf, (-200, 200)) for column in range(P)]
    signs = np.sign(difference)
    for one, other in [(signs[:, 0], signs[:, 1]), (signs[1:, 2], signs[:-1, 2])]:
        # under independence the mean product of fair signs is normal with variance at most 1 / N
        values.append(2 * float(np.exp(-0.5 * (np.mean(one * other) * np.sqrt(len(one))) ** 2)))
    return min(values)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_noise_on_the_table_is_the_law(name: str, tmp_path: Path) -> None:
    noise, members = _mechanism(name), _members()
    assert _worst(members, _released(members, noise, tmp_path), noise) > ALPHA


BROKEN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "no noise": lambda noise: 0 * noise,
    "80 % of the noise": lambda noise: noise * 4 // 5,
    "none on one column": lambda noise: noise * np.array([1, 0, 1]),
    "the same in every row": lambda noise: np.broadcast_to(noise[:1], noise.shape),
    "the same in two columns": lambda noise: noise[:, [0, 0, 2]],
    "each row twice": lambda noise: np.repeat(noise[::2], 2, axis=0),
}


@pytest.mark.parametrize("break_it", BROKEN.values(), ids=BROKEN)
def test_a_broken_border_is_convicted(break_it: Callable[[np.ndarray], np.ndarray]) -> None:
    noise, members = _mechanism("dirac-laplace"), _members()
    sound = noise_on_cells(members, noise, layout_of(TABLE), SeededBits(1))
    lattice = members.lattice + break_it(sound.lattice - members.lattice)
    broken = NoiseAddedTable(lattice, sound.labels, sound.spacing, sound.randomness)
    assert _worst(members, broken, noise) < ALPHA


def test_labels_go_through_randomised_response() -> None:
    budget = {"epsilon": 100.0, "delta": 0.5}
    asked = {"unit": "element", "epsilon": 1.0, "delta": 1e-3, "mechanism": "dirac-laplace", "budget": budget}
    labels = {"labels": {"randomized_response": {"epsilon": 1.0}}}
    members = _members()
    kept = {}
    for name, more in [("public", {}), ("responded", labels)]:
        noise = cell_noise(Privacy.model_validate({**asked, **more}), plain(P), 4)
        kept[name] = float(
            np.mean(noise_on_cells(members, noise, layout_of(TABLE), SeededBits(1)).labels == members.labels)
        )
    assert kept["public"] == 1.0
    # e / (e + 3) of 2e5 labels stay: five standard deviations are 0.006
    assert kept["responded"] == pytest.approx(np.e / (np.e + 3), abs=0.006)
