"""Events: what a ledger stores of a run."""

import pytest
from pydantic import ValidationError

from schemas.events import (
    ApproximateEvent,
    CellNoiseEvent,
    Composition,
    GaussianEvent,
    RandomizedResponseEvent,
)

EVENTS = [
    CellNoiseEvent(
        law="dirac-laplace",
        parameters={"epsilon": 0.1, "delta": 1e-7, "sensitivity": 65536},
        shift_steps=65536,
        count=64,
    ),
    GaussianEvent(noise_multiplier=3.7306, count=3),
    RandomizedResponseEvent(epsilon=1.0, categories=10),
    ApproximateEvent(epsilon=0.5, delta=1e-6, count=2),
]


def test_a_composition_survives_json() -> None:
    composition = Composition.model_validate({"events": EVENTS})
    again = Composition.model_validate_json(composition.model_dump_json())
    assert again == composition
    assert [type(event) for event in again.events] == [type(event) for event in EVENTS]
    first = again.events[0]
    assert isinstance(first, CellNoiseEvent) and isinstance(first.parameters["sensitivity"], int)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "gaussian", "noise_multiplier": 0.0},
        {"kind": "gaussian", "noise_multiplier": 1.0, "count": 0},
        {"kind": "gaussian", "noise_multiplier": 1.0, "count": True},
        {"kind": "randomized_response", "epsilon": 1.0, "categories": 1},
        {"kind": "approximate", "epsilon": -1.0, "delta": 0.0},
        {"kind": "approximate", "epsilon": 1.0, "delta": 1.0},
        {"kind": "approximate", "epsilon": float("inf"), "delta": 0.0},
        {"kind": "cell_noise", "law": "dirac-laplace", "parameters": {}, "shift_steps": 0},
        {"kind": "unheard-of"},
        {"noise_multiplier": 1.0},
    ],
)
def test_what_cannot_have_been_run_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Composition.model_validate({"events": [event]})


def test_an_empty_composition_is_refused() -> None:
    with pytest.raises(ValidationError):
        Composition(events=[])
