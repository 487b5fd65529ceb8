"""The public card of a release: what the manifest states, in words."""

from typing import Any

from schemas.manifest import Manifest, ReleasedColumn
from schemas.private_classifiers import SCORING_STEPS, ClassifierRecord
from tasks.reporting.environment import page
from tasks.reporting.names import PRIVATE_CLASSIFIERS
from tasks.reporting.numbers import significant
from tasks.reporting.words import (
    GRADE_RULE,
    LABELS_IN_WORDS,
    guarantee_verdict,
    not_covered,
    of_data_and_classifiers,
    stop_rule,
)


def release_card_html(manifest: Manifest) -> str:
    """The card of a release as one self-contained HTML page that may be published with it.

    Parameters
    ----------
    manifest : Manifest
        Everything in it is released or public, and the card holds nothing else.

    Returns
    -------
    str
        The page; it loads nothing, needs no JavaScript, and is the same for the same manifest.
    """
    features = sum(column.role == "feature" for column in manifest.columns)
    return page(
        "card.html",
        manifest=manifest,
        features=features,
        element=guarantee_verdict(manifest.guarantee.element, manifest.uncovered),
        record=guarantee_verdict(manifest.guarantee.record, manifest.uncovered),
        with_classifiers=of_data_and_classifiers(manifest.data_guarantee),
        classifiers=[_classifier(own) for own in manifest.classifiers],
        scoring_steps=SCORING_STEPS,
        labels_in_words=LABELS_IN_WORDS[manifest.labels],
        not_covered=not_covered(manifest.rows, features, manifest.guarantee.element, manifest.mechanism),
        columns=[_column(column) for column in manifest.columns],
        stop=stop_rule(manifest.fabrication.stop),
        rule=GRADE_RULE,
    )


def _classifier(record: ClassifierRecord) -> dict[str, str]:
    words = PRIVATE_CLASSIFIERS[record.name]
    return {
        "name": f"{words[:1].upper()}{words[1:]}",
        "path": record.path,
        "guarantee": f"ε {significant(record.epsilon, 4)}, δ {significant(record.delta)}",
    }


def _column(column: ReleasedColumn) -> dict[str, Any]:
    domain = "not declared"
    if column.bounds is not None:
        ends = [bound if isinstance(bound, str) else significant(bound, 12) for bound in column.bounds]
        domain = " to ".join(ends) + (f" ({column.timezone})" if column.timezone else "")
    elif column.type == "boolean":
        domain = "false, true"
    elif column.categories is not None:
        domain = ", ".join(map(str, column.categories))
    elif column.type == "identifier":
        domain = "fresh identifiers, which have nothing to do with the source's"
    domain += ", or missing" if column.nullable else ""
    return {"name": column.name, "type": column.type, "role": column.role, "domain": domain}
