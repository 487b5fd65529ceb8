"""The report's figures, computed again by an auditor who has the source, the release and the list of members."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flows import pipeline
from schemas.attacks import AttackName, RiskName
from schemas.audit import AuditReport
from schemas.measures import TrainedOn
from tasks.kahm import KAHMClassifier
from tests.conftest import leave_figures_blank
from tests.projects import FEATURES, SPEC, changed, digits, write_project


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The report, and the members, control rows and released rows behind it; bounds that fit no lattice step."""
    home = tmp_path_factory.mktemp("audited")
    source = digits(300)
    spec = changed(SPEC, "privacy.epsilon", 30.0)
    for name in FEATURES:
        spec = changed(spec, f"table.columns.{name}.bounds", [-1, 18])
    spec = changed(changed(spec, "fabrication.stop", {"steps": 1}), "privacy.budget", {"epsilon": 1e4, "delta": 0.1})
    path = write_project(home / "p", changed(spec, "evaluation", ...), source)
    with pytest.MonkeyPatch.context() as patched:
        leave_figures_blank(patched)
        patched.setenv("FABRICA_HOME", str(home))
        publication = pipeline.publish(path, "a", pipeline.propose(path, "a").digest)
    report = AuditReport.model_validate_json((publication.report.parent / "audit.json").read_bytes())
    rows = json.loads((publication.report.parent / "members.json").read_text())["member_rows"]
    released = pd.read_parquet(publication.release / "data")
    return report, source.iloc[rows], source.drop(index=rows), released


def _scaled(frame: pd.DataFrame) -> np.ndarray:
    """In scaled units, on the public lattice, where distances that would be equal are not."""
    return np.floor((frame[FEATURES].to_numpy(float) + 1) / 19 * 2**16 + 0.5) / 2**16


def test_accuracy_area_and_column_figures(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    report, members, controls, released = audited
    assert len(members) == len(released) == report.rows and report.classifiers.test_rows == len(controls)
    accuracy: dict[tuple[str, str], float] = {
        (r.name, r.trained_on): r.accuracy.estimate for r in report.classifiers.results
    }
    area = {
        a.trained_on: a.auc.estimate for a in report.membership_inference.attacks if a.attack == "distance-to-class"
    }
    kinds: list[tuple[TrainedOn, pd.DataFrame]] = [("real", members), ("fabricated", released)]
    for kind, frame in kinds:
        neighbour = KNeighborsClassifier(1).fit(_scaled(frame), frame["digit"])
        assert accuracy["nearest-neighbour", kind] == pytest.approx(
            neighbour.score(_scaled(controls), controls["digit"]), abs=0.04
        )  # ties between equal rows may go either way
        machine = KAHMClassifier(3).fit(_scaled(frame), frame["digit"].to_numpy())
        assert accuracy["kahm", kind] == pytest.approx(
            float(np.mean(machine.predict(_scaled(controls)) == controls["digit"])), abs=0.03
        )
        distance = [machine.distances(_scaled(rows)).min(axis=1) for rows in (members, controls)]
        inside = np.repeat([1, 0], [len(members), len(controls)])
        assert area[kind] == pytest.approx(roc_auc_score(inside, -np.concatenate(distance)), abs=0.01)
    assert report.classifiers.majority_accuracy == pytest.approx(
        (controls["digit"] == members["digit"].mode()[0]).mean()
    )
    for column in report.utility.columns:
        real, fabricated = members[column.name], released[column.name]
        assert column.kolmogorov_smirnov == pytest.approx(ks_2samp(real, fabricated).statistic, abs=1e-9)
        assert column.mean_real == pytest.approx(real.mean()) and column.mean_fabricated == pytest.approx(
            fabricated.mean()
        )
        assert column.std_real == pytest.approx(real.std(ddof=0))


def test_the_three_kinds_of_training_data_are_three(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    found = [attack.density_difference for attack in audited[0].membership_inference.attacks]
    assert len({tuple(one.density.members) for one in found if one is not None}) == 3


def test_attacks_on_rows_and_classifiers_and_the_most_exposed_rows(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    report, members, controls, released = audited
    attacks = {(a.attack, a.trained_on, a.classifier): a for a in report.membership_inference.attacks}
    inside = np.repeat([1, 0], [len(members), len(controls)])
    rows = pd.concat([members, controls])
    kinds: list[tuple[TrainedOn, pd.DataFrame]] = [("real", members), ("fabricated", released)]
    for kind, frame in kinds:
        apart = cdist(_scaled(rows), _scaled(frame))
        apart[rows["digit"].to_numpy()[:, None] != frame["digit"].to_numpy()] = np.inf
        closest = attacks["distance-to-closest-record", kind, None]
        assert closest.auc.estimate == pytest.approx(roc_auc_score(inside, -apart.min(axis=1)), abs=0.002)
        nearest = pd.Series(apart.min(axis=1)[: len(members)], members.index)
        worst = closest.most_exposed
        assert set(worst) <= set(members.index) and len(worst) <= 10
        if worst:  # else so many are at distance 0 that none is more exposed than another
            assert nearest[worst].max() < nearest.drop(worst).min()
        else:
            assert (nearest == 0).sum() > 10
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(_scaled(frame), frame["digit"])
        own = model.predict_proba(_scaled(rows))[np.arange(len(rows)), model.classes_.searchsorted(rows["digit"])]
        loss = attacks["loss", kind, "logistic"]
        assert loss.auc.estimate == pytest.approx(roc_auc_score(inside, own), abs=0.01)


def test_most_exposed_rows_are_members(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    attacks = audited[0].membership_inference.attacks
    assert all(set(one.most_exposed) <= set(audited[1].index) for one in attacks)
    assert max(len(one.most_exposed) for one in attacks) == 10


def test_every_attack_is_tried_on_every_kind_of_data(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    inference = audited[0].membership_inference
    tried = {(a.attack, a.classifier) for a in inference.attacks}
    assert len(inference.attacks) == 3 * len(tried) and inference.not_computed == []
    assert tried == {
        *((name, None) for name in get_args(AttackName)[:4]),
        *(("loss", name) for name in ("logistic", "gradient-boosting")),
        ("likelihood-ratio", "gradient-boosting"),
    }
    assert {risk.risk for risk in audited[0].privacy_risks.risks} == set(get_args(RiskName))


def test_an_audit_is_the_same_for_the_same_noise(home: Path, tmp_path: Path) -> None:
    """All that an audit draws has a public seed; only times and the date differ."""
    path = write_project(tmp_path / "p", changed(SPEC, "evaluation.attacks", {"shadow_models": 2}))
    audits = []
    for _ in range(2):
        candidate = pipeline.propose(path, "a")
        content = json.loads(candidate.report.with_suffix(".json").read_text())
        audits.append({key: value for key, value in content.items() if key not in ("created_at", "step_times")})
        (candidate.report.parents[1] / "complete").unlink()
    assert audits[0] == audits[1]


def test_released_rows_are_not_in_the_order_of_the_source(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    _, members, _, _ = audited
    assert not members.index.is_monotonic_increasing


def test_a_broken_report_of_another_release_does_not_stop_this_one(home: Path, tmp_path: Path) -> None:
    other = home / "reports" / "other" / "old"
    other.mkdir(parents=True)
    (other / "audit.json").write_text("{}")
    path = write_project(tmp_path / "p")
    assert pipeline.publish(path, "a", pipeline.propose(path, "a").digest).release.is_dir()
    assert "small-digits/a/audit.html" in (home / "reports" / "index.html").read_text()
