"""Check a released classifier's file: all that follows from the spec, the manifest and the code.

What follows from none of them are the weights, and means and scales that were bought with noise; only the ledger, which
vouches for the checksums, tells whether these are the ones that were published.
"""

import re
from pathlib import Path

from schemas.errors import IntegrityFailed
from schemas.learning import FitGuarantee
from schemas.manifest import Manifest
from schemas.private_classifiers import (
    SCORING_STEPS,
    ClassifierRecord,
    PrivateTraining,
    ReleasedClassifier,
    ReleasedRowMap,
)
from schemas.spec import ReleaseSpec
from tasks.accounting import is_covered
from tasks.accounting.composition import composed_delta
from tasks.accounting.recheck import same_events
from tasks.noise import SeededBits
from tasks.private_classifiers import FEATURE_BOUNDS, estimator_of, guarantee_of_training, settings_of
from tasks.provenance import code_version
from tasks.train_private import encoded_features

_ROUNDING = 1e-6
_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")


def verify_classifier(path: Path, record: ClassifierRecord, manifest: Manifest) -> None:
    """Check the file of one released classifier.

    Parameters
    ----------
    path : Path
    record : ClassifierRecord
        As the manifest lists it.
    manifest : Manifest
        Its claims follow from its spec already.

    Raises
    ------
    IntegrityFailed
        A check failed.

    Notes
    -----
    The words of mechanism and proof, and the events, are those of a training on made-up rows; it takes as long as the
    trial before a release is charged. Words, row map and hyper-parameters are compared where the manifest is of this
    version of the code, since another one may have had other defaults; the numbers always are.
    """
    try:
        found = ReleasedClassifier.model_validate_json(path.read_bytes())
    except ValueError:
        raise IntegrityFailed(f"{path}: is not a valid classifier") from None
    spec, own = ReleaseSpec.model_validate(manifest.spec), found.guarantee
    entry = next(e for e in spec.evaluation.paid_classifiers if e.classifier == record.name)
    if not own.private or own.adjacency != "replace_one":
        raise IntegrityFailed(f"{path}: its guarantee is not one for replacing a record, or its noise was seeded")
    same_claim = (own.epsilon, own.delta) == (record.epsilon, record.delta)
    if not same_claim or not is_covered(own.events, record.events):
        raise IntegrityFailed(f"{path}: what was run is not what the manifest says was charged for it")
    if composed_delta(own.events, own.epsilon * (1 + _ROUNDING)) > own.delta * (1 + _ROUNDING):
        raise IntegrityFailed(f"{path}: its guarantee is stronger than what was run gives")
    expected = (record.name, spec.table.classes, encoded_features(spec.table))
    if (found.name, found.classes, found.features) != expected:
        raise IntegrityFailed(f"{path}: name, classes or features are not those of the manifest and its spec")
    if manifest.code_version == code_version():
        _verify_words(path, found, entry, spec, manifest.rows)


def _verify_words(
    path: Path, found: ReleasedClassifier, entry: PrivateTraining, spec: ReleaseSpec, n_rows: int
) -> None:
    """What this version of the code would have written."""
    if found.steps != list(SCORING_STEPS):
        raise IntegrityFailed(f"{path}: the steps of scoring a row were changed")
    if not _as_mapped(found.row_map, entry, len(spec.table.classes), len(found.features)):
        raise IntegrityFailed(f"{path}: the row map is not the one that the spec asks for")
    if (found.chosen_on == "fabricated rows") != (entry.hyperparameters == "fabricated"):
        raise IntegrityFailed(f"{path}: where its hyper-parameters come from is not as the spec has it")
    settings = settings_of(entry, found.hyperparameters, len(spec.table.classes))
    if settings is None:
        raise IntegrityFailed(f"{path}: its hyper-parameters are none that the spec allows")
    if not as_proved(found.guarantee, guarantee_of_training(spec, entry, n_rows, settings)):
        raise IntegrityFailed(f"{path}: its guarantee is not the one that such a training has")


def _as_mapped(stated: ReleasedRowMap, entry: PrivateTraining, n_classes: int, n_features: int) -> bool:
    """Whether rows are mapped as the estimator maps them, means and scales aside."""
    estimator = estimator_of(entry, n_classes, SeededBits(0), noise=True)
    bounds = [[bound] * n_features for bound in FEATURE_BOUNDS]
    bought = entry.preprocessing_share > 0
    return (
        [stated.lower, stated.upper] == bounds
        and (stated.centre is not None, stated.scale is not None) == (bought, bought)
        and stated.norm == estimator.data_norm
        and (stated.rule, stated.intercept) == (estimator.norm_rule, estimator.fit_intercept)
    )


def as_proved(stated: FitGuarantee, expected: FitGuarantee) -> bool:
    """Whether a guarantee is what a training has, in numbers, events and words; figures in the words aside."""
    words = [[_NUMBER.sub("#", text) for text in (own.mechanism, own.proof)] for own in (stated, expected)]
    return (
        (stated.epsilon, stated.delta, stated.assumptions) == (expected.epsilon, expected.delta, expected.assumptions)
        and same_events(stated.events, expected.events)
        and words[0] == words[1]
    )
