"""Time and tightness of composition and calibration: `python -m tests.benchmarks.bench_accounting [--json]`.

`above_reference` is how far the composed epsilon lies above dp_accounting's of the same law on a grid ten times as
fine; below 0 for losses above 745, where dp_accounting's own search for epsilon falls back on a looser bound.
"""

from __future__ import annotations

import argparse
import json
import time

from schemas.events import CellNoiseEvent, Event, GaussianEvent, RandomizedResponseEvent
from tasks.accounting.calibration import calibrate_cell_noise
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.lattice import LATTICE_STEPS
from tasks.accounting.privacy_loss import privacy_loss_distribution

CELLS = [(0.001, 4134), (0.02, 617), (0.02, 64), (2.0, 64), (8.0, 617)]
TARGETS = [(1.0, 1e-5, 64), (8.0, 1e-5, 64), (1.0, 1e-5, 617), (1.0, 1e-5, 4134)]
DELTA = 1e-5


def _cells(epsilon: float, delta: float, count: int) -> CellNoiseEvent:
    parameters = {"epsilon": epsilon, "delta": delta, "sensitivity": LATTICE_STEPS}
    return CellNoiseEvent(law="dirac-laplace", parameters=parameters, shift_steps=LATTICE_STEPS, count=count)


def _timed(events: list[Event], delta: float) -> tuple[float, float]:
    start = time.perf_counter()
    epsilon = composed_epsilon(events, delta)
    return epsilon, time.perf_counter() - start


def measure() -> dict[str, list[dict[str, float | str]]]:
    """Compose and calibrate all cases; profiles are computed anew for each."""
    composed: list[dict[str, float | str]] = []
    for epsilon, count in CELLS:
        pure = _cells(epsilon, 0.0, count)
        found, seconds = _timed([pure], DELTA)
        start = time.perf_counter()
        reference = privacy_loss_distribution(pure, epsilon / 360).self_compose(count, 1e-13)
        answer = reference.get_epsilon_for_delta(DELTA)
        name = f"{count} cells of {epsilon:g}"
        composed.append(
            {
                "events": name,
                "epsilon": found,
                "seconds": round(seconds, 4),
                "above_reference": found / answer - 1.0,
                "reference_seconds": round(time.perf_counter() - start, 3),
            }
        )
        found, seconds = _timed([_cells(epsilon, DELTA / count / 2, count)], DELTA)
        composed.append({"events": name + ", with an atom", "epsilon": found, "seconds": round(seconds, 4)})
    mixed: list[Event] = [
        _cells(0.1, 1e-8, 64),
        GaussianEvent(noise_multiplier=3.0),
        RandomizedResponseEvent(epsilon=1.0, categories=10),
    ]
    found, seconds = _timed(mixed, DELTA)
    composed.append({"events": "cells, Gaussian and labels", "epsilon": found, "seconds": round(seconds, 4)})
    calibrated: list[dict[str, float | str]] = []
    for epsilon, delta, dimensions in TARGETS:
        for family in ["dirac-laplace", "gaussian"]:
            start = time.perf_counter()
            law = calibrate_cell_noise(family, epsilon, delta, dimensions)
            seconds = time.perf_counter() - start
            calibrated.append(
                {
                    "target": f"{epsilon:g}, {delta:g}, {dimensions} cells",
                    "family": family,
                    "magnitude": law.expected_magnitude() / LATTICE_STEPS,
                    "seconds": round(seconds, 4),
                }
            )
    return {"composed": composed, "calibrated": calibrated}


def main() -> None:
    """Print two tables, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="Time and tightness of composition and calibration.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    result = measure()
    if arguments.json:
        print(json.dumps(result))
        return
    for rows in result.values():
        for row in rows:
            print(
                "  ".join(
                    f"{key} {value:.6g}" if isinstance(value, float) else str(value) for key, value in row.items()
                )
            )


if __name__ == "__main__":
    main()
