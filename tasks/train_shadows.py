"""Train the attacked classifier and shadow models for the likelihood-ratio attack (Carlini et al. 2022); internal.

The attacker knows everything but who is in the table: rows of the same population, mechanism and fabrication. So a
shadow model learns from a random half of members and control rows as the attacked one learned from the members: from
the rows as they are, from their noise-added rows, and from rows fabricated of them, by a rehearsal with noise of its
own. Of each row, only the shadow models that did not learn from it are asked (the attack's offline form).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from schemas.measures import FEWEST_ROWS, NotComputed, TrainedOn
from schemas.spec import ClassifierName, ReleaseSpec
from tasks.accounting import Mechanism
from tasks.accounting.lattice import SPACING
from tasks.encode import encode_features, encode_labels
from tasks.noise import SeededBits
from tasks.rehearse import rehearse
from tasks.runner.workers import thread_workers
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray

MOST_SIDE_ROWS = 2000
"""Members, and control rows, that the attack is tried on."""
_MOST_CELLS = 300_000
"""Encoded cells of them, which bounds the time for wide tables."""
_ATTACKED: tuple[ClassifierName, ...] = ("gradient-boosting", "logistic")
"""Classifiers that give probabilities, in the order of preference."""


@dataclass(frozen=True, eq=False)
class Shadows:
    """How sure the attacked classifier and its shadows are of rows' labels, for each kind of data.

    Attributes
    ----------
    classifier : str
    member_rows : ndarray of int64, shape (n_members,)
        Rows of the source.
    n_members : int
        The first rows below are members, the others control rows.
    target : dict from kind to ndarray of float64, shape (n_rows,)
        Scaled confidence of the attacked classifier.
    shadows : dict from kind to ndarray of float64, shape (n_shadows, n_rows)
    trained_with : ndarray of bool, shape (n_shadows, n_rows)
    """

    classifier: ClassifierName
    member_rows: IntArray
    n_members: int
    target: dict[TrainedOn, FloatArray]
    shadows: dict[TrainedOn, FloatArray]
    trained_with: np.ndarray


@step("Train shadow models")
def train_shadows(
    sample: AuditSample, spec: ReleaseSpec, mechanism: Mechanism, seed: int, n_threads: int, scratch: Path
) -> Shadows | NotComputed:
    """Confidences of the attacked classifier and of `spec.evaluation.shadow_models` shadows, or why there are none.

    Where there are more rows than are attacked, rehearsals are smaller than the release: private moments then have more
    noise for their rows, and shards are fewer, so the attack is somewhat weaker than it could be.

    Parameters
    ----------
    sample : AuditSample
    spec : ReleaseSpec
    mechanism : CellNoise or Moments
    seed : int
        Of halves, rehearsals and rows; the attack can be repeated by whoever has the source and the noise-added rows.
    n_threads : int
        Threads, since confidential rows stay in this process.
    scratch : Path
        Folder for the rehearsals.
    """
    from tasks.audit import scaled_confidence, shadow_halves, train_classifiers

    named = [name for name in _ATTACKED if name in spec.evaluation.classifiers]
    n_shadows = spec.evaluation.shadow_models
    width = sample.members.lattice.shape[1]
    side = min(len(sample.member_frame), len(sample.control_frame), MOST_SIDE_ROWS, _MOST_CELLS // (2 * width))
    what = "the likelihood-ratio attack"
    if n_shadows < 2:
        return NotComputed(what=what, reason=f"the spec asks for {n_shadows} shadow models, and it needs two at least")
    if not named:
        return NotComputed(what=what, reason=f"the spec evaluates none of {' and '.join(_ATTACKED)}")
    if side < FEWEST_ROWS:
        return NotComputed(what=what, reason=f"there are fewer than {FEWEST_ROWS} members or control rows")
    name, table = named[0], spec.table
    random = np.random.default_rng(seed)
    # released rows stand in the members' places, so the attacked classifier learns from those of the same places
    members = np.sort(random.choice(len(sample.member_frame), side, replace=False))
    controls = np.sort(random.choice(len(sample.control_frame), side, replace=False))
    frame = pd.concat([sample.member_frame.iloc[members], sample.control_frame.iloc[controls]], ignore_index=True)
    features = np.concatenate([sample.members.scaled[members], sample.controls.scaled[controls]])
    labels = np.concatenate([sample.members.labels[members], sample.controls.labels[controls]])
    halves = shadow_halves(len(labels), n_shadows, labels, random)

    def asked(rows: FloatArray, own_labels: IntArray) -> FloatArray:
        fitted = train_classifiers({"real": (rows, own_labels)}, [name])[name, "real"]
        return scaled_confidence(fitted.predict_proba(features), labels, fitted.classes_)

    def encoded(released: pd.DataFrame) -> tuple[FloatArray, IntArray]:
        return encode_features(released, table).astype(np.float64) * SPACING, encode_labels(released, table)

    def shadow(number: int) -> dict[TrainedOn, FloatArray]:
        half = halves[number]
        own = frame[half].reset_index(drop=True)
        with thread_workers(1) as workers:
            rehearsal = rehearse(own, spec, mechanism, SeededBits(seed + number), workers, scratch)
        return {
            "real": asked(features[half], labels[half]),
            "noise-added": asked(rehearsal.noise_added.scaled, rehearsal.noise_added.labels),
            "fabricated": asked(*encoded(rehearsal.released)),
        }

    with threadpool_limits(1), ThreadPoolExecutor(n_threads) as pool:
        begun = [pool.submit(shadow, number) for number in range(n_shadows)]
        target: dict[TrainedOn, FloatArray] = {
            "real": asked(features[:side], labels[:side]),
            "noise-added": asked(sample.noise_added.scaled[members], sample.noise_added.labels[members]),
            "fabricated": asked(*encoded(sample.released.iloc[members])),
        }
        found = [one.result() for one in begun]
    return Shadows(
        classifier=name,
        member_rows=sample.member_rows[members],
        n_members=side,
        target=target,
        shadows={kind: np.stack([one[kind] for one in found]) for kind in target},
        trained_with=halves,
    )
