"""What an auditor proves again from a manifest: honest claims hold, every forged one is named."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.guarantee import Guarantees
from schemas.manifest import Manifest
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of, unproved_claim
from tests import factories
from tests.mixed_table import SPEC
from tests.projects import changed

RECORD = {"unit": "record", "epsilon": 4.0, "delta": 1e-5, "budget": {"epsilon": 500.0, "delta": 1e-2}}
BOOLEAN = {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "x": {"type": "numeric", "bounds": [0, 1]}}
FEW = changed(
    SPEC, "table", {"label": "y", "columns": {**BOOLEAN, "y": {"type": "categorical", "categories": ["p", "q"]}}}
)


def _manifest(spec: dict[str, Any]) -> tuple[Manifest, ReleaseSpec]:
    read = ReleaseSpec.model_validate(spec)
    mechanism = mechanism_of(read)
    return factories.manifest(
        spec=read.model_dump(mode="json"),
        rows=210,
        guarantee=mechanism.guarantees,
        mechanism=mechanism.record(210),
        labels=mechanism.guarantees.record.labels,
    ), read


HONEST: dict[str, dict[str, Any]] = {
    "cells": SPEC,
    "short distance": changed(SPEC, "privacy.distance", 0.3),
    "weights": changed(SPEC, "privacy.split", {"weights": {"age": 2.0, "town": 0.5}}),
    "labels": changed(SPEC, "privacy.labels", {"randomized_response": {"epsilon": 2.0}}),
    "gaussian": changed(SPEC, "privacy.mechanism", "gaussian"),
    "rows": changed(SPEC, "privacy", RECORD),
    "rows, optimal split": changed(SPEC, "privacy", {**RECORD, "split": "optimal"}),
    "rows, moments": changed(SPEC, "privacy", {**RECORD, "mechanism": "private-moments"}),
    "rows, few columns": changed(FEW, "privacy", RECORD),
    "rows, few columns, laplace": changed(FEW, "privacy", {**RECORD, "mechanism": "dirac-laplace"}),
    "rows, categories only": changed(changed(FEW, "table.columns.x", ...), "privacy", RECORD),
    "heaviest weight on a category": changed(
        changed(FEW, "privacy.split", {"weights": {"a": 2.0}}), "privacy.delta", 1e-4
    ),
    "rows, one value that may be missing": changed(
        changed(
            FEW,
            "table.columns",
            {"x": {"type": "numeric", "bounds": [0, 1], "nullable": True}, "y": {"type": "boolean"}},
        ),
        "privacy",
        {**RECORD, "delta": 1e-3, "mechanism": "staircase"},
    ),
    "public column": changed(SPEC, "table.columns.height (m).role", "public"),
    "one ordered category or none": changed(
        SPEC, "table.columns.constant", {"type": "ordinal", "categories": ["one"], "nullable": True}
    ),
}


@pytest.mark.parametrize("spec", HONEST.values(), ids=HONEST)
def test_an_honest_claim_holds(spec: dict[str, Any]) -> None:
    assert unproved_claim(*_manifest(spec)) is None


def _units(manifest: Manifest, **changes: Any) -> Manifest:
    units = {
        unit: getattr(manifest.guarantee, unit).model_copy(update=changes.get(unit, {}))
        for unit in ("element", "record")
    }
    return manifest.model_copy(update={"guarantee": Guarantees(**units)})


def _mechanism(manifest: Manifest, **changes: Any) -> Manifest:
    return manifest.model_copy(update={"mechanism": manifest.mechanism.model_copy(update=changes)})


def _part(what: str, column: str, **changes: Any) -> Callable[[Manifest], Manifest]:
    def forge(manifest: Manifest) -> Manifest:
        parts = [
            part.model_copy(update=changes) if part.what == what and column in part.columns else part
            for part in manifest.mechanism.parts
        ]
        assert parts != manifest.mechanism.parts
        return _mechanism(manifest, parts=parts)

    return forge


def _without(what: str) -> Callable[[Manifest], Manifest]:
    return lambda m: _mechanism(m, parts=[part for part in m.mechanism.parts if part.what != what])


def _answers(epsilon: float, n: int = 2) -> dict[str, Any]:
    return {"parameters": {"epsilon": epsilon, "n_categories": n}}


FORGED: dict[str, Callable[[Manifest], Manifest]] = {
    "smaller element epsilon": lambda m: _units(m, element={"epsilon": m.guarantee.element.epsilon * 0.9}),
    "smaller element delta": lambda m: _units(m, element={"delta": m.guarantee.element.delta * 0.5}),
    "smaller record epsilon": lambda m: _units(m, record={"epsilon": m.guarantee.record.epsilon * 0.9}),
    "larger epsilon than asked": lambda m: _units(m, element={"epsilon": 9.0}),
    "longer distance": lambda m: _units(m, element={"distance": 0.5}),
    "other neighbours": lambda m: _units(m, record={"neighbouring": "replace_one_cell"}),
    "made-up proof": lambda m: _units(m, element={"proof": "trust us"}),
    "label epsilon": lambda m: _units(m, element={"label_epsilon": 0.01}, record={"label_epsilon": 0.01}),
    "public columns": lambda m: _units(m, element={"public_columns": ["age"]}),
    "units mixed up": lambda m: _units(m, element={"unit": "record"}),
    "other law's name": lambda m: _mechanism(m, name="gaussian"),
    "no answers": _without("missing"),
    "no categories": _without("category"),
    "a column twice": lambda m: _mechanism(m, parts=[*m.mechanism.parts, m.mechanism.parts[0]]),
    "other columns": _part("value", "age", columns=["age"]),
    "weaker answer": _part("missing", "costs", **_answers(3.0)),
    "weaker response": _part("category", "town", **_answers(6.0, 6)),
    "other number of categories": _part("category", "town", **_answers(3.0, 4)),
    "a law for a category": _part("category", "select", name="dirac-laplace"),
    "a part about nothing": _part("value", "age", columns=[]),
    "unknown law": _part("value", "age", name="none"),
    "response in words better than it is": _part("category", "town", change_probability=0.9),
    "noise in words larger than it is": _part("value", "age", expected_magnitude=2.0),
    "no events": lambda m: _mechanism(m, events=m.mechanism.events[:1]),
    "no bias": lambda m: _mechanism(m, parameters={**m.mechanism.parameters, "sampling_bias": 0.0}),
    "finer lattice": lambda m: _mechanism(m, parameters={**m.mechanism.parameters, "spacing": 2.0**-40}),
    "other magnitude": lambda m: _mechanism(m, expected_magnitude=1.0),
    "other cells": lambda m: _mechanism(m, expected_unperturbed_cells=5.0),
    "labels": lambda m: m.model_copy(update={"labels": "covered"}),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_claim_is_named(forge: Callable[[Manifest], Manifest]) -> None:
    manifest, spec = _manifest(SPEC)
    assert unproved_claim(forge(manifest), spec) is not None


def test_half_the_noise_on_values_is_named() -> None:
    manifest, spec = _manifest(changed(SPEC, "privacy.mechanism", "dirac-laplace"))
    weaker, _ = _manifest(changed(changed(SPEC, "privacy.mechanism", "dirac-laplace"), "privacy.epsilon", 6.0))
    swapped = manifest.model_copy(update={"mechanism": weaker.mechanism})
    assert unproved_claim(swapped, spec) is not None


def test_a_column_with_a_small_weight_may_not_run_at_full_epsilon() -> None:
    asked = changed(changed(SPEC, "privacy.mechanism", "dirac-laplace"), "privacy.split", {"weights": {"age": 0.1}})
    manifest, _ = _manifest(changed(asked, "privacy.split", "equal"))
    assert unproved_claim(manifest, ReleaseSpec.model_validate(asked)) is not None


def test_forged_moments_are_named() -> None:
    manifest, spec = _manifest(HONEST["rows, moments"])
    stated = manifest.mechanism.parameters
    for name, value in stated.items():
        other = not value if isinstance(value, bool) else 3.0
        assert unproved_claim(_mechanism(manifest, parameters={**stated, name: other}), spec) is not None, name
    assert unproved_claim(manifest.model_copy(update={"rows": 500}), spec) is not None
