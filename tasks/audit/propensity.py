"""Whether a model can tell real from fabricated rows: the propensity score's mean squared error (pMSE).

Fabricated rows follow members one to one by place. The figures here do not use that: the two tables are treated as
independent samples. Fabricated rows that stay close to their members are therefore harder to tell from them than an
independent sample of the same law, and a ratio below 1 is possible.
"""

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from schemas.measures import FEWEST_ROWS, NotComputed
from schemas.utility import Propensity
from tasks.audit.density_difference import FloatArray

PERMUTATIONS = 20
"""Random relabellings that the tree's null expectation is a mean over."""
LOGISTIC_ROWS = 5000
"""Rows of each table that the logistic model sees at most."""
TREE_CELLS = 500_000
"""Rows of each table times coordinates that the tree sees at most, since it is grown once per permutation."""
TREE_ROWS = 2500
"""Rows of each table that the tree sees at most."""
ROWS_PER_PARAMETER = 20
"""Fewest rows of both tables together for each parameter, so that the large-sample expectation holds."""
WIDEST_INTERACTIONS = 10
"""Coordinates up to which all products of two are terms of the logistic model as well."""
_NEWTON_STEPS = 25
_TOLERANCE = 1e-8


def pmse_expectation(n_parameters: int, share: float, n_rows: int) -> float:
    """What pMSE two independent samples of one law have in expectation, for a logistic model and many rows.

    Parameters
    ----------
    n_parameters : int
        k, the intercept included.
    share : float
        c, the share of fabricated rows.
    n_rows : int
        N, both tables together.

    Returns
    -------
    float
        (k - 1) c (1 - c) / N.

    Notes
    -----
    In the linear limit the scores are c + H (t - c) with the hat matrix H and labels t of variance c (1 - c), so
    N pMSE is c (1 - c) times a chi-square variable with k - 1 degrees of freedom. Theorem 1 of Snoke et al. has
    (k - 1) (1 - c)^2 c / N instead, half as much for equal tables: there the real rows are fixed and the other table is
    drawn from a model that was fitted to them. Nothing of the kind holds here, and the tree's permutations have the
    expectation of two samples, too.
    """
    return (n_parameters - 1) * share * (1 - share) / n_rows


def _basis(rows: FloatArray) -> FloatArray:
    """Orthogonal columns of mean square 1 that span the centred columns: as many as these have rank."""
    centred = rows - rows.mean(axis=0)
    spread = centred.std(axis=0)
    standard = centred[:, spread > 1e-12] / spread[spread > 1e-12]
    if not standard.shape[1]:
        return standard
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    kept = values > 1e-9 * values[-1]
    return np.asarray(standard @ (vectors[:, kept] / np.sqrt(values[kept])))


def _logistic_scores(terms: FloatArray, is_fabricated: FloatArray) -> FloatArray:
    """Fitted probabilities of an unpenalised logistic model, by Newton's method with halved steps."""
    design = np.column_stack([np.ones(len(terms)), terms])

    def log_likelihood(at: FloatArray) -> float:
        linear = design @ at
        return float((is_fabricated * linear - np.logaddexp(0, linear)).sum())

    coefficients = np.zeros(design.shape[1])
    value = log_likelihood(coefficients)
    for _ in range(
        _NEWTON_STEPS
    ):  # as many as glm in R: separated rows have no maximum, and their scores are near 0, 1
        scores = expit(design @ coefficients)
        weights = np.maximum(scores * (1 - scores), 1e-10)
        step = np.linalg.solve(design.T @ (design * weights[:, None]), design.T @ (is_fabricated - scores))
        length = 1.0
        while (new := log_likelihood(coefficients + length * step)) < value and length > 1e-6:
            length /= 2
        if new < value:
            break
        coefficients = coefficients + length * step
        gained, value = new - value, new
        if gained < _TOLERANCE * (abs(value) + 0.1):
            break
    return np.asarray(expit(design @ coefficients))


def _logistic(real: FloatArray, fabricated: FloatArray) -> Propensity | str:
    rows = np.concatenate([real, fabricated])
    label = np.repeat([0.0, 1.0], [len(real), len(fabricated)])
    model = "logistic, main effects"
    if rows.shape[1] <= WIDEST_INTERACTIONS:
        model = "logistic, main effects and pairwise interactions"
        products = [rows[:, a] * rows[:, b] for a, b in combinations(range(rows.shape[1]), 2)]
        rows = np.column_stack([rows, *products])
    terms = _basis(rows)
    n_parameters, n_rows = 1 + terms.shape[1], len(rows)
    if n_parameters == 1:
        return "no coordinate varies"
    if n_rows < ROWS_PER_PARAMETER * n_parameters:
        return f"{n_rows} rows are fewer than {ROWS_PER_PARAMETER} for each of {n_parameters} parameters"
    share = float(label.mean())
    pmse = float(np.mean((_logistic_scores(terms, label) - share) ** 2))
    return _result(
        f"{model}: {n_parameters} parameters on {len(real)} real and {len(fabricated)} fabricated rows",
        pmse,
        pmse_expectation(n_parameters, share, n_rows),
    )


def _tree(real: FloatArray, fabricated: FloatArray, random: np.random.Generator) -> Propensity:
    from sklearn.tree import DecisionTreeClassifier

    rows = np.concatenate([real, fabricated]).astype(np.float32)
    label = np.repeat([0, 1], [len(real), len(fabricated)])
    share = float(label.mean())
    leaf = max(FEWEST_ROWS, len(rows) // 100)

    def pmse(labels: np.ndarray) -> float:
        tree = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=int(random.integers(2**31)))
        return float(np.mean((tree.fit(rows, labels).predict_proba(rows)[:, 1] - share) ** 2))

    found = pmse(label)
    expected = float(np.mean([pmse(random.permutation(label)) for _ in range(PERMUTATIONS)]))
    return _result(
        f"classification tree with at least {leaf} rows a leaf, on {len(real)} real and {len(fabricated)} fabricated "
        f"rows; expectation from {PERMUTATIONS} permutations",
        found,
        expected,
    )


def _result(model: str, pmse: float, expected: float) -> Propensity:
    return Propensity(
        model=model, pmse=min(pmse, 0.25), expected=expected, ratio=pmse / expected if expected > 0 else None
    )


def _sample(rows: FloatArray, most: int, random: np.random.Generator) -> FloatArray:
    return rows if len(rows) <= most else rows[np.sort(random.choice(len(rows), most, replace=False))]


def propensity(
    real: ArrayLike, fabricated: ArrayLike, *, seed: int, not_computed: list[NotComputed] | None = None
) -> list[Propensity]:
    """pMSE of a logistic model and of a classification tree that are to tell fabricated from real rows.

    Parameters
    ----------
    real, fabricated : array-like of shape (n, width) and (m, width)
        Encoded rows in scaled units.
    seed : int
        For the choice of rows and the permutations. Rows of the two tables are chosen independently of each other.
    not_computed : list of NotComputed, default=None
        What is missing, and why, is appended here.

    Returns
    -------
    list of Propensity
        The logistic model has main effects of all coordinates, and their products if there are at most
        `WIDEST_INTERACTIONS`; its parameters are counted by rank, so the last of a column's indicators is none. Both
        expectations are those of two independent samples of one law. The scores are of the rows that the models were
        fitted to, as in the references.

    Raises
    ------
    ValueError
        If the shapes do not agree.

    References
    ----------
    M.-J. Woo, J. P. Reiter, A. Oganian, A. F. Karr: Global measures of data utility for microdata masked for disclosure
    limitation. Journal of Privacy and Confidentiality 1 (2009) 111-124. J. Snoke, G. M. Raab, B. Nowok, C. Dibben,
    A. Slavkovic: General and specific utility measures for synthetic data. Journal of the Royal Statistical Society A
    181 (2018) 663-688.
    """
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    if one.ndim != 2 or two.ndim != 2 or one.shape[1] != two.shape[1]:
        raise ValueError(f"real {one.shape} and fabricated {two.shape} must have rows of equal width")
    missing: list[NotComputed] = []
    found: list[Propensity] = []
    if min(len(one), len(two)) < FEWEST_ROWS or one.shape[1] == 0:
        reason = f"it needs a coordinate and at least {FEWEST_ROWS} rows of each table"
        missing.append(NotComputed(what="the propensity score's error", reason=reason))
    else:
        random = np.random.default_rng(seed)
        logistic = _logistic(_sample(one, LOGISTIC_ROWS, random), _sample(two, LOGISTIC_ROWS, random))
        if isinstance(logistic, str):
            missing.append(NotComputed(what="the propensity score's error of a logistic model", reason=logistic))
        else:
            found.append(logistic)
        most = max(FEWEST_ROWS, min(TREE_ROWS, TREE_CELLS // one.shape[1]))
        found.append(_tree(_sample(one, most, random), _sample(two, most, random), random))
    if not_computed is not None:
        not_computed.extend(missing)
    return found
