"""How near the family is to the least E|K| of any noise: `python -m tests.benchmarks.bench_noise_limit [--json]`.

The limit is a linear programme over all even laws on the integers with magnitudes up to some support, all shifts from
1 to the sensitivity among its constraints.  It is written here in the plainest way, with a variable for each
magnitude and an excess for each place and shift, and shares no code with `LatticeOptimal`.  The family is
compared with it on the same lattice: `steps` to the sensitivity.  The support is the truncated Laplace law's for
delta/10, one sensitivity more, so "limit" means the limit for noise of that support.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np
from scipy import optimize, sparse

from tasks.noise import comparison

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTAS = (1e-6, 1e-5, 1e-3, 1e-2)
FINE_STEPS = 2**16


def least_expected_magnitude(epsilon: float, delta: float, steps: int) -> float:
    """Solve for the least E|K| / sensitivity of even noise on the integers, `steps` to the sensitivity."""
    support = steps * math.ceil(math.log1p(math.expm1(epsilon) * 5.0 / delta) / epsilon + 1.0)
    place = np.arange(-support, support + 1)
    n_places, n_masses = place.size, support + 1
    rows, columns, values = [], [], []
    for shift in range(1, steps + 1):
        row = (shift - 1) * (n_places + 1) + np.arange(n_places)
        excess = n_masses + (shift - 1) * n_places + np.arange(n_places)
        covered = np.abs(place - shift) <= support
        total = np.full(n_places, (shift - 1) * (n_places + 1) + n_places)
        rows += [row, row[covered], row, total]
        columns += [np.abs(place), np.abs(place - shift)[covered], excess, excess]
        values += [
            np.ones(n_places),
            np.full(int(covered.sum()), -math.exp(epsilon)),
            -np.ones(n_places),
            np.full(n_places, 1e-3 / delta),
        ]
    n_rows, n_columns = steps * (n_places + 1), n_masses + steps * n_places
    bound = np.tile(np.append(np.zeros(n_places), 1e-3), steps)
    mass = np.append(np.full(n_masses, 2.0), np.zeros(steps * n_places))
    mass[0] = 1.0
    cost = np.append(2.0 * np.arange(n_masses) / steps, np.zeros(steps * n_places))
    csr_matrix: Any = sparse.csr_matrix  # the solver's type stubs know dense matrices only
    solution = optimize.linprog(
        cost,
        A_ub=csr_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n_rows, n_columns)
        ),
        b_ub=bound,
        A_eq=csr_matrix(mass[None, :]),
        b_eq=[1.0],
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0 or solution.fun is None:
        raise RuntimeError(f"the linear programme was not solved: {solution.message}")
    return float(solution.fun)


def measure(steps: int, steps_of_small_epsilon: int) -> list[dict[str, object]]:
    """Compare the family with the limit for all pairs of epsilon and delta."""
    cases: list[dict[str, object]] = []
    for epsilon in EPSILONS:
        n_steps = steps_of_small_epsilon if epsilon < 0.5 else steps
        for delta in DELTAS:
            start = time.perf_counter()
            limit = least_expected_magnitude(epsilon, delta, n_steps)
            limit_s = time.perf_counter() - start
            family = {row.name: row.expected_magnitude for row in comparison(epsilon, delta, n_steps)}
            start = time.perf_counter()
            fine = {row.name: row.expected_magnitude for row in comparison(epsilon, delta, FINE_STEPS)}
            fine_s = time.perf_counter() - start
            known = {name: value / n_steps for name, value in family.items() if value is not None}
            closed = {name: value for name, value in known.items() if name != "lattice-optimal"}
            on_fine = {name: value / FINE_STEPS for name, value in fine.items() if value is not None}
            closed_fine = min(value for name, value in on_fine.items() if name != "lattice-optimal")
            cases.append(
                {
                    "epsilon": epsilon,
                    "delta": delta,
                    "steps": n_steps,
                    "limit": limit,
                    "best": min(known, key=lambda name: known[name]),
                    "ratio": min(known.values()) / limit,
                    "closed_form": min(closed, key=lambda name: closed[name]),
                    "closed_form_ratio": min(closed.values()) / limit,
                    "limit_s": round(limit_s, 3),
                    "fine_best": min(on_fine, key=lambda name: on_fine[name]),
                    "fine_expected_magnitude": min(on_fine.values()),
                    "fine_closed_form_ratio": closed_fine / min(on_fine.values()),
                    "fine_s": round(fine_s, 3),
                }
            )
    return cases


def main() -> None:
    """Print a table, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="The noise family against the least E|K| of additive noise.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=int, default=8, help="lattice steps per sensitivity (default 8)")
    parser.add_argument("--steps-of-small-epsilon", type=int, default=4, help="the same for epsilon < 0.5 (default 4)")
    arguments = parser.parse_args()
    cases = measure(arguments.steps, arguments.steps_of_small_epsilon)
    if arguments.json:
        print(json.dumps({"cases": cases}))
        return
    print(f"{'':>44}{'on the coarse lattice':^52} {'on 65536 steps':>42}")
    print(
        f"{'epsilon':>7} {'delta':>7} {'steps':>5} {'limit':>9} {'best member':>18} {'ratio':>8} "
        f"{'closed form':>18} {'ratio':>8} {'best member':>18} {'E|K|/D':>9} {'closed':>8} {'s':>6}"
    )
    for case in cases:
        print(
            f"{case['epsilon']:>7g} {case['delta']:>7g} {case['steps']:>5} {case['limit']:>9.6f} {case['best']:>18} "
            f"{case['ratio']:>8.5f} {case['closed_form']:>18} {case['closed_form_ratio']:>8.5f} "
            f"{case['fine_best']:>18} {case['fine_expected_magnitude']:>9.6f} "
            f"{case['fine_closed_form_ratio']:>8.5f} {case['fine_s']:>6}"
        )
    print(f"largest ratio: {max(float(str(case['ratio'])) for case in cases):.5f}")


if __name__ == "__main__":
    main()
