"""What theory says of private empirical risk minimisation, run: `python -m tests.benchmarks.bench_private_risk`.

With `--json` one JSON object is printed instead of tables; `--figures FOLDER` writes a figure of each experiment.

- Huberising first (Bassily, Smith, Thakurta 2014, appendix A). Objective perturbation needs a smooth loss. A wide
  Huber zone biases the minimiser (n h / 8 on the first instance), a narrow one needs much regularisation (about
  1 / (4 h epsilon) on the second), so its worse instance costs about sqrt(n / epsilon) / (4 sqrt 2) at the best width,
  where exponential sampling of the hinge itself costs O(1 / epsilon).
- Lower bounds (section 5). On hard instances the excess risk of the best algorithms, over the bound's order, must
  neither vanish nor grow with p and epsilon; of noisy gradient descent and output perturbation a curve that falls far
  below the others would mean that an implementation is not private. "Pure" for the Lipschitz loss is the exact law of
  exponential sampling on a ball, drawn here and not by the library, whose samplers need few dimensions or a strongly
  convex loss. (epsilon, delta) curves are over sqrt(p log(1 / delta)) / epsilon and its square. Where p / (n epsilon)
  is near 1, projection on the set keeps the excess risk below the bound's order.
- The regularisation trick (appendix F). To generalise, a convex loss is regularised; too much of it biases, too little
  lets the noise in.

Every number comes from seeded runs; excess risks are sums over records, as in the paper.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball, Box
from tasks.classifiers.exponential_sampling import exponential_sample
from tasks.classifiers.localization import localization
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.noisy_sgd import noisy_sgd
from tasks.classifiers.objective_perturbation import objective_perturbation, plan_objective
from tasks.classifiers.output_perturbation import perturbed_minimum
from tasks.classifiers.risks import InnerProduct, MarginRisk, SquaredDistance
from tasks.noise import SeededBits

FloatArray = NDArray[np.float64]
ADJACENCY: Any = "replace_one"
DELTA = 1e-6
_SOLVERS: dict[str, Callable[..., Any]] = {
    "output_perturbation": perturbed_minimum,
    "localization": localization,
    "noisy_sgd": noisy_sgd,
}


@dataclass(frozen=True)
class KinkAtZero:
    """A hinge whose kink is at margin 0 instead of 1: of the piece max(0, -z)."""

    hinge: MarginLoss

    @property
    def name(self) -> str:
        return f"{self.hinge.name} at 0"

    @property
    def lipschitz(self) -> float:
        return self.hinge.lipschitz

    @property
    def smoothness(self) -> float:
        return self.hinge.smoothness

    def value(self, margin: FloatArray) -> FloatArray:
        return self.hinge.value(margin + 1.0)

    def slope(self, margin: FloatArray) -> FloatArray:
        return self.hinge.slope(margin + 1.0)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return self.hinge.curvature(margin + 1.0)


def _line(n_positive: int, n_negative: int, loss: MarginLoss) -> MarginRisk:
    signs = np.concatenate([np.ones(n_positive), -np.ones(n_negative)])[:, None]
    return MarginRisk(np.ones((len(signs), 1)), signs, loss)


def huberisation(n: int, epsilon: float, widths: list[float], runs: int) -> dict[str, Any]:
    """Mean excess risk of objective perturbation on its two bad instances, by the width of the Huber zone."""
    segment, budget = Ball.around_zero(1, 1.0), PrivacyBudget(epsilon)
    rows = []
    for width in widths:
        smooth = HuberisedHingeLoss(width)
        bias = _line(n // 4, 3 * n // 4, KinkAtZero(smooth))
        plan = plan_objective(bias, budget, adjacency=ADJACENCY, regularization=1e-6)
        net_slope = max(2, min(n, 2 * round(plan.regularization / 4)))
        heavy = _line((n + net_slope) // 2, (n - net_slope) // 2, smooth)
        excess: dict[str, float] = {}
        for name, risk, true in (
            ("bias", bias, _line(n // 4, 3 * n // 4, KinkAtZero(HingeLoss()))),
            ("regulariser", heavy, _line((n + net_slope) // 2, (n - net_slope) // 2, HingeLoss())),
        ):
            least = true.value(np.array([0.0 if name == "bias" else 1.0]))
            found = [
                true.value(segment.project(objective_perturbation(risk, plan, SeededBits(seed)))) - least
                for seed in range(runs)
            ]
            excess[name] = float(np.mean(found))
        rows.append({"width": width, "lam": plan.regularization, "net_slope": net_slope, **excess})
    kinked = _line(n // 4, 3 * n // 4, KinkAtZero(HingeLoss()))
    own = [
        kinked.value(
            exponential_sample(
                kinked, segment, epsilon, adjacency=ADJACENCY, bits=SeededBits(seed), sampler="net"
            ).theta
        )
        for seed in range(10 * runs)
    ]
    sgd = [
        kinked.value(
            noisy_sgd(kinked, segment, PrivacyBudget(epsilon, DELTA), adjacency=ADJACENCY, bits=SeededBits(seed)).theta
        )
        for seed in range(runs)
    ]
    return {
        "n": n,
        "epsilon": epsilon,
        "widths": rows,
        "exponential_sampling": float(np.mean(own)),
        "exponential_sampling_bound": 2 * 1 * 1 * segment.diameter / epsilon,
        "noisy_sgd": float(np.mean(sgd)),
    }


def _padded(p: int, n: int, signal: int, seed: int) -> FloatArray:
    """`signal` copies of one sign vector over sqrt(p), padded to n (or n - 1) records that cancel in pairs."""
    generator = np.random.default_rng(seed)
    own, other = (np.where(generator.random(p) < 0.5, -1.0, 1.0) / math.sqrt(p) for _ in range(2))
    rest = n - signal - (n - signal) % 2
    return np.concatenate([np.tile(own, (signal, 1)), np.tile(other, (rest // 2, 1)), np.tile(-other, (rest // 2, 1))])


def _linear_draw(total: FloatArray, strength: float, generator: np.random.Generator) -> FloatArray:
    """Exponential sampling of a linear loss on the unit ball by its exact radial law, of exponent strength <u, theta>.

    Along u the density is exp(strength t) (1 - t^2)^((p - 1) / 2), across it uniform in a ball.
    """
    p = total.size
    t = np.linspace(-1.0, 1.0, 200_001)[1:-1]
    log_density = strength * t + 0.5 * (p - 1) * np.log1p(-t * t)
    weight = np.cumsum(np.exp(log_density - log_density.max()))
    along = float(t[np.searchsorted(weight, generator.random() * weight[-1])])
    direction = total / float(np.linalg.norm(total))
    across = generator.standard_normal(p)
    across -= direction * float(across @ direction)
    if p == 1:
        return along * direction
    radius = math.sqrt(1.0 - along**2) * generator.random() ** (1.0 / (p - 1))
    return along * direction + across * (radius / float(np.linalg.norm(across)))


def lower_bounds(n: int, dimensions: list[int], epsilons: list[float], runs: int) -> list[dict[str, Any]]:
    """Mean excess risk over the bound's order, on the padded instances; times L ||C|| = 2, or L^2 / Delta = 4."""
    rows = []
    for p in dimensions:
        ball = Ball.around_zero(p, 1.0)
        for epsilon in epsilons:
            pure, approximate = [], []
            strong_pure: list[float] = []
            strong_approximate: list[float] = []
            signal = min(n, max(1, round(p / epsilon)))
            signal_gaussian = min(n, max(1, round(math.sqrt(p * math.log(1 / DELTA)) / epsilon)))
            for seed in range(runs):
                generator = np.random.default_rng(seed)
                linear = InnerProduct(_padded(p, n, signal, seed))
                total = np.sum(linear.points, axis=0)
                length = float(np.linalg.norm(total))
                drawn = _linear_draw(total, epsilon * length / (2.0 * ball.diameter), generator)
                pure.append(length + linear.value(drawn))
                linear = InnerProduct(_padded(p, n, signal_gaussian, seed))
                length = float(np.linalg.norm(np.sum(linear.points, axis=0)))
                found = noisy_sgd(
                    linear, ball, PrivacyBudget(epsilon, DELTA), adjacency=ADJACENCY, bits=SeededBits(seed)
                )
                approximate.append(length + linear.value(found.theta))
                square = SquaredDistance(_padded(p, n, signal, seed), 1.0, 1.0)
                least = square.value(square.points.mean(axis=0))
                for budget, into in (
                    (PrivacyBudget(epsilon), strong_pure),
                    (PrivacyBudget(epsilon, DELTA), strong_approximate),
                ):
                    own = perturbed_minimum(square, ball, budget, adjacency=ADJACENCY, bits=SeededBits(seed))
                    into.append(square.value(own.theta) - least)
            log = math.log(1 / DELTA)
            rows.append(
                {
                    "p": p,
                    "epsilon": epsilon,
                    "lipschitz_pure": float(np.mean(pure)) / (2.0 * min(n, p / epsilon)),
                    "lipschitz_approximate": float(np.mean(approximate)) / (2.0 * min(n, math.sqrt(p * log) / epsilon)),
                    "strongly_convex_pure": float(np.mean(strong_pure)) / (4.0 * min(n, p**2 / (n * epsilon**2))),
                    "strongly_convex_approximate": float(np.mean(strong_approximate))
                    / (4.0 * min(n, p * log / (n * epsilon**2))),
                }
            )
    return rows


def localization_gain(n: int, p: int, epsilons: list[float], runs: int) -> list[dict[str, float]]:
    """Mean excess risk of output perturbation and of localisation on means, with (epsilon, delta)."""
    rows = []
    for epsilon in epsilons:
        budget, ball = PrivacyBudget(epsilon, DELTA), Ball.around_zero(p, 1.0)
        excess: dict[str, list[float]] = {name: [] for name in _SOLVERS}
        for seed in range(runs):
            risk = SquaredDistance(_padded(p, n, n // 3, seed), 1.0, 1.0)
            least = risk.value(risk.points.mean(axis=0))
            for name, run in _SOLVERS.items():
                found = run(risk, ball, budget, adjacency=ADJACENCY, bits=SeededBits(seed))
                excess[name].append(risk.value(found.theta) - least)
        rows.append({"epsilon": epsilon, **{name: float(np.mean(found)) for name, found in excess.items()}})
    return rows


def regularisation_trick(n: int, p: int, epsilon: float, strengths: list[float], runs: int) -> dict[str, Any]:
    """Mean logistic loss on fresh records by the regularisation that output perturbation was fitted with."""
    generator = np.random.default_rng(3)
    truth = generator.standard_normal(p)
    truth *= 8.0 / float(np.linalg.norm(truth))

    def draw(count: int) -> tuple[FloatArray, FloatArray]:
        rows = generator.standard_normal((count, p))
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        return rows, np.where(generator.random(count) < 1.0 / (1.0 + np.exp(-rows @ truth)), 1.0, -1.0)[:, None]

    test_rows, test_signs = draw(20_000)
    fresh = MarginRisk(test_rows, test_signs, LogisticLoss())
    tables = [draw(n) for _ in range(runs)]
    points = []
    for strength in strengths:
        losses: dict[str, list[float]] = {"private": [], "without_noise": []}
        for seed, (rows, signs) in enumerate(tables):
            risk = MarginRisk(rows, signs, LogisticLoss(), strength)
            for name, budget in (
                ("private", PrivacyBudget(epsilon, DELTA)),
                ("without_noise", PrivacyBudget(math.inf)),
            ):
                own = perturbed_minimum(risk, None, budget, adjacency=ADJACENCY, bits=SeededBits(seed))
                losses[name].append(fresh.value(own.theta) / fresh.n_records)
        points.append({"regularization": strength, **{name: float(np.mean(own)) for name, own in losses.items()}})
    return {"n": n, "p": p, "epsilon": epsilon, "of_the_truth": fresh.value(truth) / fresh.n_records, "points": points}


def one_dimensional_check(runs: int) -> list[dict[str, float]]:
    """Exponential sampling against its bound 2 p L ||C|| / epsilon, on medians of points in one dimension."""
    from tasks.classifiers.risks import AbsoluteDistance

    rows = []
    for n, epsilon in ((50, 1.0), (200, 0.5), (1000, 0.1)):
        points = np.random.default_rng(n).uniform(-1.0, 1.0, (n, 1))
        risk, segment = AbsoluteDistance(points), Box.cube(1, 1.0)
        least = risk.value(np.median(points, axis=0))
        found = [
            risk.value(exponential_sample(risk, segment, epsilon, adjacency=ADJACENCY, bits=SeededBits(seed)).theta)
            for seed in range(runs)
        ]
        rows.append(
            {
                "n": n,
                "epsilon": epsilon,
                "excess": float(np.mean(found)) - least,
                "bound": 2 * segment.diameter / epsilon,
            }
        )
    return rows


def measure() -> dict[str, Any]:
    """All experiments."""
    return {
        "huberisation": huberisation(1000, 1.0, [1.0, 0.3, 0.1, 0.0447, 0.02, 0.01, 0.003], 24),
        "lower_bounds": lower_bounds(400, [4, 16, 64], [0.25, 1.0, 4.0], 24),
        "localization": localization_gain(2000, 30, [0.25, 1.0, 4.0], 12),
        "regularisation_trick": regularisation_trick(1000, 20, 1.0, [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0], 12),
        "medians": one_dimensional_check(400),
    }


def draw_figures(found: dict[str, Any], folder: Path) -> list[Path]:
    """One figure for each experiment, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib import ticker

    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def save(name: str) -> None:
        plt.tight_layout()
        plt.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close()
        written.append(folder / f"{name}.svg")

    own = found["huberisation"]
    widths = [row["width"] for row in own["widths"]]
    plt.figure(figsize=(6, 4))
    plt.loglog(widths, [max(row["bias"], 1e-3) for row in own["widths"]], "o-", label="objective perturbation, bias")
    plt.loglog(
        widths,
        [max(row["regulariser"], 1e-3) for row in own["widths"]],
        "s-",
        label="objective perturbation, regulariser",
    )
    plt.loglog(widths, [own["n"] * h / 8 for h in widths], ":", color="grey", label="n h / 8")
    plt.axhline(own["exponential_sampling"], color="black", label="exponential sampling of the hinge")
    plt.axhline(own["noisy_sgd"], color="black", linestyle="--", label="noisy gradient descent on the hinge")
    plt.xlabel("width h of the Huber zone")
    plt.ylabel("mean excess risk (sum)")
    plt.legend(fontsize=7)
    save("huberisation")

    _, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axis, kind in zip(axes, ("lipschitz", "strongly_convex"), strict=True):
        for guarantee, mark in (("pure", "o"), ("approximate", "s")):
            for epsilon in sorted({row["epsilon"] for row in found["lower_bounds"]}):
                rows = [row for row in found["lower_bounds"] if row["epsilon"] == epsilon]
                axis.loglog(
                    [row["p"] for row in rows],
                    [row[f"{kind}_{guarantee}"] for row in rows],
                    f"{mark}-",
                    label=f"{guarantee}, epsilon = {epsilon:g}",
                )
        axis.set_title(kind.replace("_", " "))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        places = sorted({row["p"] for row in found["lower_bounds"]})
        axis.set_xticks(places, [f"{place:g}" for place in places])
        axis.set_xlabel("dimension p")
    axes[0].set_ylabel("excess risk over the lower bound's order")
    axes[1].legend(fontsize=7)
    save("lower_bounds")

    trick = found["regularisation_trick"]
    plt.figure(figsize=(6, 4))
    x = [point["regularization"] for point in trick["points"]]
    plt.semilogx(
        x, [point["private"] for point in trick["points"]], "o-", label=f"private, epsilon = {trick['epsilon']:g}"
    )
    plt.semilogx(x, [point["without_noise"] for point in trick["points"]], "s-", label="without noise")
    plt.axhline(trick["of_the_truth"], color="grey", linestyle=":", label="true parameters")
    plt.xlabel("regularisation Delta")
    plt.ylabel("mean logistic loss on fresh records")
    plt.legend(fontsize=7)
    save("regularisation_trick")

    plt.figure(figsize=(6, 4))
    for name in ("output_perturbation", "localization", "noisy_sgd"):
        plt.loglog(
            [row["epsilon"] for row in found["localization"]],
            [row[name] for row in found["localization"]],
            "o-",
            label=name.replace("_", " "),
        )
    plt.gca().xaxis.set_minor_locator(ticker.NullLocator())
    places = [row["epsilon"] for row in found["localization"]]
    plt.xticks(places, [f"{place:g}" for place in places])
    plt.xlabel("epsilon")
    plt.ylabel("mean excess risk (sum)")
    plt.legend(fontsize=7)
    save("localization")
    return written


def _print(found: dict[str, Any]) -> None:
    own = found["huberisation"]
    print(f"Huberising first: n = {own['n']}, epsilon = {own['epsilon']:g}, mean excess risk")
    print("  width h     bias  regulariser")
    for row in own["widths"]:
        print(f"  {row['width']:7.4g} {row['bias']:8.3g} {row['regulariser']:12.3g}")
    best = min(max(row["bias"], row["regulariser"]) for row in own["widths"])
    print(f"  worse of both, best width: {best:.3g}; exponential sampling {own['exponential_sampling']:.3g} (bound "
          f"{own['exponential_sampling_bound']:.3g}), noisy gradient descent {own['noisy_sgd']:.3g}")  # fmt: skip
    print("Excess risk over the lower bound's order")
    for row in found["lower_bounds"]:
        print(
            f"  p {row['p']:3d} epsilon {row['epsilon']:5.2f}: Lipschitz pure {row['lipschitz_pure']:.3f}, approximate "
            f"{row['lipschitz_approximate']:.3f}; strongly convex pure {row['strongly_convex_pure']:.3f}, approximate "
            f"{row['strongly_convex_approximate']:.3f}"
        )
    print("Means of points, mean excess risk")
    for row in found["localization"]:
        print(
            f"  epsilon {row['epsilon']:5.2f}: output perturbation {row['output_perturbation']:.3g}, localisation "
            f"{row['localization']:.3g}, noisy gradient descent {row['noisy_sgd']:.3g}"
        )
    trick = found["regularisation_trick"]
    print(f"Regularisation trick: loss on fresh records, true parameters {trick['of_the_truth']:.3f}")
    for point in trick["points"]:
        print(
            f"  Delta {point['regularization']:6.3f}: private {point['private']:.3f}, without noise "
            f"{point['without_noise']:.3f}"
        )
    print("Medians: exponential sampling")
    for row in found["medians"]:
        print(f"  n {row['n']}, epsilon {row['epsilon']:g}: {row['excess']:.3g}, bound {row['bound']:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", type=Path, default=None, metavar="FOLDER")
    options = parser.parse_args()
    found = measure()
    if options.figures is not None:
        found["figures"] = [path.name for path in draw_figures(found, options.figures)]
    if options.json:
        print(json.dumps(found))
    else:
        _print(found)


if __name__ == "__main__":
    main()
