"""Losses of several classes: slopes are gradients, and the constants hold and are reached."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize
from sklearn.metrics import hinge_loss, log_loss

from tasks.classifiers.multiclass_losses import (
    AllPairsHinge,
    CrammerSingerHinge,
    CrossEntropy,
    MulticlassLoss,
    capped_simplex_projection,
    multiclass_loss,
)

FloatArray = NDArray[np.float64]
LOSSES: list[MulticlassLoss] = [
    AllPairsHinge(0.5),
    AllPairsHinge(0.01),
    CrammerSingerHinge(0.5),
    CrammerSingerHinge(0.01),
    CrossEntropy(),
]


def _scores(n: int, c: int, seed: int = 3) -> tuple[FloatArray, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    scale = 10.0 ** generator.uniform(-2.0, 1.5, (n, 1))
    return generator.standard_normal((n, c)) * scale, generator.integers(0, c, n)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("c", [2, 3, 7])
def test_slopes_are_the_gradient_and_keep_the_constants(loss: MulticlassLoss, c: int) -> None:
    scores, labels = _scores(200, c)
    slopes = loss.slopes(scores, labels)
    step = 1e-6
    numeric = np.column_stack(
        [
            (loss.value(scores + step * unit, labels) - loss.value(scores - step * unit, labels)) / (2.0 * step)
            for unit in np.eye(c)
        ]
    )
    smooth = loss.smoothness(c)
    assert np.abs(slopes - numeric).max() <= step * smooth + 1e-7
    assert np.abs(slopes.sum(axis=1)).max() < 1e-12
    assert np.linalg.norm(slopes, axis=1).max() <= loss.lipschitz(c) * (1.0 + 1e-15)
    other = scores + np.random.default_rng(5).standard_normal(scores.shape) * 10.0 ** np.linspace(-3, 1, 200)[:, None]
    moved = np.linalg.norm(loss.slopes(other, labels) - slopes, axis=1)
    assert np.all(moved <= smooth * np.linalg.norm(other - scores, axis=1) * (1.0 + 1e-9) + 1e-12)


@pytest.mark.parametrize("c", [2, 3, 7])
def test_lipschitz_constants_are_reached(c: int) -> None:
    """The true class far below all others, and for the two other losses below one of them."""
    labels = np.zeros(1, dtype=np.int64)
    all_above, one_above = np.full((1, c), 50.0), np.full((1, c), -50.0)
    all_above[0, 0], one_above[0, 0], one_above[0, 1] = 0.0, 0.0, 50.0
    assert np.linalg.norm(AllPairsHinge().slopes(all_above, labels)) == pytest.approx(math.sqrt(c * (c - 1)), rel=1e-4)
    for loss in (CrammerSingerHinge(), CrossEntropy()):
        assert np.linalg.norm(loss.slopes(one_above, labels)) == pytest.approx(math.sqrt(2.0), rel=1e-12)


@pytest.mark.parametrize("c", [2, 4])
def test_smoothness_is_reached(c: int) -> None:
    """All pairs: with every margin at its kink the star's Laplacian has its largest eigenvalue c."""
    labels, step = np.zeros(1, dtype=np.int64), 1e-5
    kink, along = np.zeros((1, c)), np.full((1, c), -1.0)
    kink[0, 0], along[0, 0] = 1.0, c - 1.0
    for loss in (AllPairsHinge(0.3), CrammerSingerHinge(0.3)):
        # for the largest hinge the weights are 0 at the kink, and grow on the side where margins are violated
        first, second = kink - step * along, kink
        change = np.linalg.norm(loss.slopes(first, labels) - loss.slopes(second, labels))
        assert change == pytest.approx(loss.smoothness(c) * step * np.linalg.norm(along), rel=1e-6)


def test_values_are_scikit_learns_for_little_smoothing() -> None:
    """`hinge_loss` of scikit-learn is the mean Crammer-Singer hinge, `log_loss` the mean cross-entropy."""
    scores, labels = _scores(300, 5)
    tight = CrammerSingerHinge(1e-9).value(scores, labels)
    assert tight.mean() == pytest.approx(hinge_loss(labels, scores, labels=range(5)), rel=1e-8)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    moderate = np.abs(scores).max(axis=1) < 10.0
    mean = CrossEntropy().value(scores[moderate], labels[moderate]).mean()
    assert mean == pytest.approx(log_loss(labels[moderate], shares[moderate], labels=range(5)), rel=1e-9)
    margins = np.maximum(0.0, 1.0 + scores - scores[np.arange(300), labels][:, None])
    pairs = margins.sum(axis=1) - 1.0  # the true class itself has margin 1
    assert np.allclose(AllPairsHinge(1e-9).value(scores, labels), pairs, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_smoothed_hinges_stay_near_the_hinge(smoothing: float) -> None:
    scores, labels = _scores(300, 5)
    largest = CrammerSingerHinge(1e-12).value(scores, labels)
    below = largest - CrammerSingerHinge(smoothing).value(scores, labels)
    assert below.min() >= -1e-9 and below.max() <= smoothing / 2 + 1e-9
    above = AllPairsHinge(smoothing).value(scores, labels) - AllPairsHinge(1e-12).value(scores, labels)
    assert above.min() > 0.0 and above.max() <= 4 * smoothing / 2 + 1e-9


def test_projection_is_the_nearest_point() -> None:
    """Against SciPy's least squares with non-negative unknowns: a slack makes the sum 1, by a heavy equation."""
    points = np.random.default_rng(2).standard_normal((12, 4)) * np.array([0.1, 0.5, 2.0] * 4)[:, None]
    found = capped_simplex_projection(points)
    for point, ours in zip(points, found, strict=True):
        rest = optimize.nnls(np.vstack([np.eye(4, 5), 1e4 * np.ones(5)]), np.append(point, 1e4))[0]
        assert np.allclose(ours, rest[:4], atol=1e-5)
    assert found.min() >= 0.0 and found.sum(axis=1).max() <= 1.0 + 1e-12


def test_unknown_losses_and_smoothings_are_refused() -> None:
    assert multiclass_loss("all-pairs", 0.2) == AllPairsHinge(0.2)
    assert multiclass_loss("crammer-singer", 0.2) == CrammerSingerHinge(0.2)
    with pytest.raises(ValueError, match="loss='hinge'"):
        multiclass_loss("hinge")
    for smoothing in (0.0, -1.0, math.inf, math.nan):
        for kind in (AllPairsHinge, CrammerSingerHinge):
            with pytest.raises(ValueError, match="smoothing"):
                kind(smoothing)
