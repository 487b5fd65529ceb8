"""What the models' names are called on the pages."""

from schemas.attacks import AnyAttack, AttackName, PrivacyRisk, ReleasedClassifierAttack, RiskName
from schemas.measures import TrainedOn
from schemas.private_classifiers import PrivateClassifierName
from schemas.spec import ClassifierName

TRAINED_ON: dict[TrainedOn, str] = {
    "real": "real rows",
    "noise-added": "noise-added data",
    "fabricated": "fabricated data",
}

CLASSIFIERS: dict[ClassifierName, str] = {
    "kahm": "KAHM",
    "nearest-neighbour": "nearest neighbour",
    "logistic": "logistic regression",
    "gradient-boosting": "gradient boosting",
}

PRIVATE_CLASSIFIERS: dict[PrivateClassifierName, str] = {
    "noisy-sgd": "noisy gradient descent",
    "exponential-sampling": "exponential sampling",
    "output-perturbation": "output perturbation",
    "localization": "localization and exponential sampling",
    "objective-perturbation": "objective perturbation",
    "pmsvm-weight": "PMSVM, noise on weights",
    "pmsvm-gradient": "PMSVM, noise on gradients",
    "pmsvm-adaptive": "PMSVM, noise on gradients, adaptive steps",
    "private-svm": "private SVM",
    "opera": "OPERA",
    "private-linear": "private linear classifier",
    "one-versus-rest": "private SVMs, one against the rest",
}

ATTACKS: dict[AttackName, str] = {
    "distance-to-class": "Distance to the nearest class",
    "distance-to-closest-record": "Distance to the closest row",
    "nearest-neighbour-ratio": "Ratio of the two closest distances",
    "density-ratio": "Density ratio",
    "loss": "Loss",
    "likelihood-ratio": "Likelihood ratio",
}

ATTACK_MEANINGS: dict[AttackName, str] = {
    "distance-to-class": "calls a row a member if a KAHM classifier, trained on the data, finds it near one of its "
    "classes [1]",
    "distance-to-closest-record": "calls a row a member if some row of the data with the same label is near it [10]",
    "nearest-neighbour-ratio": "calls a row a member if its closest row in the data is much nearer than the second "
    "closest, both with the same label as the row [11]",
    "density-ratio": "calls a row a member if the data are denser around it and its label than the population is "
    "(DOMIAS); it learns the population from half of the control rows and is judged on the other half [12]",
    "loss": "calls a row a member if a classifier, trained on the data, predicts its label with a small loss [13]",
    "likelihood-ratio": "compares the classifier's loss with those of shadow classifiers that were trained with and "
    "without the row (LiRA); it is tried on at most 2,000 members and as many control rows [14]",
}

RISKS: dict[RiskName, str] = {
    "singling-out": "Singling out",
    "linkability": "Linkability",
    "attribute-inference": "Attribute inference",
}

RISK_MEANINGS: dict[RiskName, str] = {
    "singling-out": "the attacker states properties that the data suggest only one row to have, and is right if "
    "exactly one row has them",
    "linkability": "the attacker holds two halves of the columns and is right if the data join the halves of the same "
    "row",
    "attribute-inference": "the attacker knows a row but for one column, and is right if the data reveal it",
}

_LONGEST_VARIANT = 60


def attack_name(attack: AnyAttack) -> str:
    """The attack, and the classifier that it was aimed at."""
    if isinstance(attack, ReleasedClassifierAttack):
        return f"Margin under the released classifier ({PRIVATE_CLASSIFIERS[attack.classifier]})"
    aimed = "" if attack.classifier is None else f" ({CLASSIFIERS[attack.classifier]})"
    return ATTACKS[attack.attack] + aimed


def risk_name(risk: PrivacyRisk) -> str:
    """The risk and what was attacked."""
    variant = " ".join(risk.variant.split())
    if len(variant) > _LONGEST_VARIANT:
        variant = f"{variant[: _LONGEST_VARIANT - 1]}…"
    return f"{RISKS[risk.risk]}, {variant}" if variant else RISKS[risk.risk]
