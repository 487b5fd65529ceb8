"""Try membership attacks on the release, on its noise-added data and on the raw rows; confidential, internal."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.attacks import AttackName, MembershipAttack, MembershipInference, ReleasedClassifierAttack
from schemas.measures import FEWEST_ROWS, NotComputed, TrainedOn
from schemas.private_classifiers import ReleasedClassifier
from schemas.spec import ClassifierName
from tasks.evaluate import Fitted, KahmAnswers, TrainingSets
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray
from tasks.train_shadows import Shadows

MOST_SIDE_ROWS = 10_000
"""Members, and control rows, that attacks on rows are tried on; their cost is quadratic."""


@step("Attack")
def attack(
    sets: TrainingSets,
    sample: AuditSample,
    kahm: dict[TrainedOn, KahmAnswers],
    fitted: Fitted,
    shadows: Shadows | NotComputed,
    seed: int,
    n_threads: int,
    released: Sequence[ReleasedClassifier],
) -> MembershipInference:
    """Every membership attack on every kind of data, and on every classifier that is released with them.

    Parameters
    ----------
    sets : TrainingSets
        Rows that the attacker holds, or that the attacked classifiers learned from.
    sample : AuditSample
    kahm : dict from kind to KahmAnswers
    fitted : mapping from (classifier, kind) to TrainedClassifier
    shadows : Shadows or NotComputed
    seed : int
        Of bootstraps, and of which rows are attacked where there are more than `MOST_SIDE_ROWS`.
    n_threads : int
    released : sequence of ReleasedClassifier
        Trained with noise on all members. They are asked by what is in their files.

    Returns
    -------
    MembershipInference
    """
    members, n_controls = sets.member_places, len(sample.controls.labels)
    if min(len(members), n_controls) < FEWEST_ROWS:
        reason = f"there are fewer than {FEWEST_ROWS} members or control rows"
        missing = [NotComputed(what="membership inference", reason=reason)]
        return MembershipInference(members=len(members), controls=n_controls, attacks=[], not_computed=missing)
    rows = sample.member_rows[members]
    with threadpool_limits(1), ThreadPoolExecutor(n_threads) as pool:
        begun: list[Future[list[MembershipAttack]]] = []
        for kind, answers in kahm.items():
            begun.append(pool.submit(_by_distance_to_class, answers, kind, rows, seed))
        for kind in sets.features:
            begun.append(pool.submit(_by_rows, sets, sample, kind, seed))
        for name, kind in fitted:
            begun.append(pool.submit(_by_loss, fitted, name, kind, sets, sample, seed))
        if isinstance(shadows, Shadows):
            for kind in shadows.target:
                begun.append(pool.submit(_by_likelihood_ratio, shadows, kind, seed))
        on_released = [pool.submit(_by_margin, own, sample, seed) for own in released]
        attacks = [one for part in begun for one in part.result()]
    attacks.sort(key=lambda one: (_ORDER.index(one.attack), one.classifier or ""))  # kinds stay in their order
    return MembershipInference(
        members=len(members),
        controls=n_controls,
        attacks=attacks,
        released_classifiers=[part.result() for part in on_released],
        not_computed=[*_without_density_ratio(n_controls), *([shadows] if isinstance(shadows, NotComputed) else [])],
    )


_ORDER: tuple[AttackName, ...] = (
    "distance-to-class",
    "distance-to-closest-record",
    "nearest-neighbour-ratio",
    "density-ratio",
    "loss",
    "likelihood-ratio",
)


def _by_distance_to_class(
    answers: KahmAnswers, kind: TrainedOn, member_rows: IntArray, seed: int
) -> list[MembershipAttack]:
    from tasks.audit import distance_attack

    return [distance_attack(answers.members, answers.controls, kind, member_rows, seed)]


def _by_rows(sets: TrainingSets, sample: AuditSample, kind: TrainedOn, seed: int) -> list[MembershipAttack]:
    """Attacks by someone who holds rows; half of the control rows tell them what the population is like."""
    from tasks.audit import membership_attack, record_attack_scores

    random = np.random.default_rng(seed)
    members, controls = _some(len(sets.member_places), random), _some(len(sample.controls.labels), random)
    split = random.permutation(len(controls))
    reference, others = split[: len(split) // 2], split[len(split) // 2 :]
    scores = record_attack_scores(
        sets.features[kind],
        sets.labels[kind],
        np.concatenate([sets.features["real"][members], sample.controls.scaled[controls]]),
        np.concatenate([sets.labels["real"][members], sample.controls.labels[controls]]),
        reference=sample.controls.scaled[controls[reference]],
        reference_labels=sample.controls.labels[controls[reference]],
    )
    rows = sample.member_rows[sets.member_places[members]]
    found = []
    for name, own in scores.items():
        of_controls = own[len(members) :]
        if name == "density-ratio":  # not judged on the rows it learned the population from
            if _without_density_ratio(len(sample.controls.labels)):
                continue
            of_controls = of_controls[others]
        found.append(membership_attack(name, kind, own[: len(members)], of_controls, rows, seed))
    return found


def _without_density_ratio(n_controls: int) -> list[NotComputed]:
    if n_controls >= 2 * FEWEST_ROWS:
        return []
    reason = f"half of the control rows tell it the population, and fewer than {FEWEST_ROWS} are left"
    return [NotComputed(what="the density-ratio attack", reason=reason)]


def _some(n_rows: int, random: np.random.Generator) -> IntArray:
    return np.sort(random.permutation(n_rows)[:MOST_SIDE_ROWS])


def _by_loss(
    fitted: Fitted, name: ClassifierName, kind: TrainedOn, sets: TrainingSets, sample: AuditSample, seed: int
) -> list[MembershipAttack]:
    from tasks.audit import loss_scores, membership_attack

    classifier = fitted[name, kind]
    if not classifier.probabilities:
        return []

    def scored(rows: FloatArray, labels: IntArray) -> FloatArray:
        return loss_scores(classifier.predict_proba(rows), labels, classifier.classes_)

    members = scored(sets.features["real"], sets.labels["real"])
    controls = scored(sample.controls.scaled, sample.controls.labels)
    rows = sample.member_rows[sets.member_places]
    return [membership_attack("loss", kind, members, controls, rows, seed, classifier=name)]


def _by_likelihood_ratio(shadows: Shadows, kind: TrainedOn, seed: int) -> list[MembershipAttack]:
    from tasks.audit import likelihood_ratio_scores, membership_attack

    scores = likelihood_ratio_scores(shadows.target[kind], shadows.shadows[kind], shadows.trained_with)
    members, controls = scores[: shadows.n_members], scores[shadows.n_members :]
    name = shadows.classifier
    return [membership_attack("likelihood-ratio", kind, members, controls, shadows.member_rows, seed, classifier=name)]


def _by_margin(classifier: ReleasedClassifier, sample: AuditSample, seed: int) -> ReleasedClassifierAttack:
    """The attack by anybody who has the file; labels are places among the classes, as its columns of scores are."""
    from tasks.audit import margin_scores, released_classifier_attack
    from tasks.train_private import scores_of_released

    classes = np.arange(len(classifier.classes))
    members, controls = (
        margin_scores(scores_of_released(classifier, rows.scaled), rows.labels, classes)
        for rows in (sample.members, sample.controls)
    )
    own = classifier.guarantee
    return released_classifier_attack(
        classifier.name, own.epsilon, own.delta, members, controls, sample.member_rows, seed
    )
