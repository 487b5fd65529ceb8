"""One-run canary audits of the full release path: below the claim where all is well, above it where it is broken.

The table is real but for its canary column: each canary cell is one end of the range or the other, by a fair coin.
Whether a release gives the coins away is judged from what the mechanism released, at 95 % confidence. A right claim
fails such a test in 5 % of runs at most (in fact far fewer: the bound is loose); so the noise is seeded here, and the
outcome is always the same.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows import pipeline
from tasks.audit.canary import CanaryAudit, canary_audit
from tasks.noise import SeededBits
from tasks.staging import Staging
from tasks.tables import ConfidentialTable, NoiseAddedTable
from tasks.workspace import Workspace
from tests.projects import PROJECT, SPEC, changed, write_project

EPSILON, DELTA = 2.0, 1e-6
CANARY = "r3c4"


def _audit(home: Path, tmp_path: Path, n_guesses: int) -> tuple[CanaryAudit, CanaryAudit]:
    """Audits of the noise-added rows and of the released rows of one release."""
    frame = pd.read_csv(PROJECT / "data" / "samples" / "digits.csv")[["r2c3", CANARY, "r4c2", "r5c5", "digit"]]
    coins = np.random.default_rng(11).random(len(frame)) < 0.5
    frame[CANARY] = np.where(coins, 16, 0)
    spec = changed(SPEC, "table.columns.digit.categories", list(range(10)))
    spec = changed(changed(spec, "privacy.epsilon", EPSILON), "privacy.delta", DELTA)
    pipeline.propose(write_project(tmp_path / "p", spec, frame), "a", bits=SeededBits(3))
    staging = Staging(Workspace(home), "small-digits", "a")
    order, noise_added = staging.member_rows(), staging.noise_added()
    assert order is not None and noise_added is not None
    members = coins[order]
    released = pd.read_parquet(staging.release / "data")[CANARY].to_numpy(float)
    column = list(SPEC["table"]["columns"]).index(CANARY)
    return (
        canary_audit(members, noise_added.read().scaled[:, column] - 0.5, n_guesses=n_guesses, delta=DELTA),
        canary_audit(members, released - 8.0, n_guesses=n_guesses, delta=DELTA),
    )


def test_the_lower_bound_stays_below_the_claim(home: Path, tmp_path: Path) -> None:
    for audit in _audit(home, tmp_path, n_guesses=600):
        assert audit.epsilon_lower_bound <= EPSILON
        assert audit.canaries > 1200
    # and it has power: from Y+ it finds more than half of what is claimed
    assert _audit(home, tmp_path / "again", n_guesses=600)[0].epsilon_lower_bound > EPSILON / 2


def test_noise_switched_off_in_one_column_is_convicted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tasks.perturb

    sound = tasks.perturb.noise_on_cells
    column = list(SPEC["table"]["columns"]).index(CANARY)

    def broken(members: ConfidentialTable, *more: object) -> NoiseAddedTable:
        released = sound(members, *more)  # type: ignore[arg-type]
        lattice = released.lattice.copy()
        lattice[:, column] = members.lattice[:, column]
        return NoiseAddedTable(lattice, released.labels, released.spacing, released.randomness)

    monkeypatch.setattr(tasks.perturb, "noise_on_cells", broken)
    assert _audit(home, tmp_path, n_guesses=600)[0].epsilon_lower_bound > 2 * EPSILON


def test_half_the_noise_is_convicted(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tasks.perturb

    sound = tasks.perturb.noise_on_cells

    def broken(members: ConfidentialTable, *more: object) -> NoiseAddedTable:
        released = sound(members, *more)  # type: ignore[arg-type]
        lattice = members.lattice + (released.lattice - members.lattice) // 3
        return NoiseAddedTable(lattice, released.labels, released.spacing, released.randomness)

    monkeypatch.setattr(tasks.perturb, "noise_on_cells", broken)
    assert _audit(home, tmp_path, n_guesses=600)[0].epsilon_lower_bound > EPSILON
