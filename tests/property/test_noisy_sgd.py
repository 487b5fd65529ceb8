"""Whatever the rows, weights and set: one record's part is bounded, and no iterate leaves the set."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.clipped_risk import ClippedMarginRisk
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.losses import margin_loss
from tasks.classifiers.noisy_sgd import noisy_sgd
from tasks.noise.bits import SeededBits

ANY = st.floats(-1e300, 1e300)


@settings(max_examples=30)
@given(
    row=arrays(np.float64, 3, elements=ANY),
    theta=arrays(np.float64, 6, elements=st.floats(-10.0, 10.0)),
    signs=arrays(np.float64, 2, elements=st.sampled_from([-1.0, 1.0])),
    loss=st.sampled_from(["hinge", "huberised-hinge", "logistic"]),
    clip=st.floats(1e-3, 1e3),
)
def test_one_record_s_gradient_is_at_most_the_clip_norm(
    row: np.ndarray, theta: np.ndarray, signs: np.ndarray, loss: str, clip: float
) -> None:
    risk = ClippedMarginRisk.of_rows(row[None, :], signs[None, :], margin_loss(loss), clip)
    assert float(np.linalg.norm(risk.loss_gradient(theta))) <= risk.lipschitz * (1.0 + 1e-12) <= clip * (1.0 + 1e-12)


@settings(max_examples=15)
@given(
    rows=arrays(np.float64, (4, 2), elements=st.floats(-100.0, 100.0)),
    radius=st.floats(1e-3, 1e3),
    step_size=st.one_of(st.none(), st.floats(1e-3, 1e6)),
    q=st.sampled_from([0.3, 1.0]),
)
def test_no_iterate_leaves_the_ball(rows: np.ndarray, radius: float, step_size: float | None, q: float) -> None:
    risk = ClippedMarginRisk.of_rows(rows, np.ones((4, 1)), margin_loss("hinge"), 1.0)
    ball = Ball.around_zero(2, radius)
    lengths: list[float] = []
    out = noisy_sgd(
        risk,
        ball,
        PrivacyBudget(1.0, 1e-5) if q == 1.0 else PrivacyBudget(math.inf),
        adjacency="replace_one",
        bits=SeededBits(0),
        n_steps=6,
        sampling_probability=q,
        step_size=step_size,
        observer=lambda t, theta, released: lengths.append(float(np.linalg.norm(theta))),
    )
    assert max([*lengths, float(np.linalg.norm(out.theta))]) <= radius * (1.0 + 1e-12)
