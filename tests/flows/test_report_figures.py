"""The report's figures, computed again by an auditor who has the source, the release and the list of members."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from flows import pipeline
from schemas.audit import AuditReport
from tasks.kahm import KAHMClassifier
from tests.projects import FEATURES, SPEC, changed, digits, write_project


@pytest.fixture
def audited(home: Path, tmp_path: Path) -> tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The report, and the members, control rows and released rows behind it; bounds that fit no lattice step."""
    source = digits(300)
    spec = changed(SPEC, "privacy.epsilon", 30.0)
    for name in FEATURES:
        spec = changed(spec, f"table.columns.{name}.bounds", [-1, 18])
    spec = changed(changed(spec, "fabrication.stop", {"steps": 1}), "privacy.budget", {"epsilon": 1e4, "delta": 0.1})
    path = write_project(tmp_path / "p", spec, source)
    publication = pipeline.publish(path, "a", pipeline.propose(path, "a").digest)
    report = AuditReport.model_validate_json((publication.report.parent / "audit.json").read_bytes())
    rows = json.loads((publication.report.parent / "members.json").read_text())["member_rows"]
    released = pd.read_parquet(publication.release / "data")
    return report, source.iloc[rows], source.drop(index=rows), released


def _scaled(frame: pd.DataFrame) -> np.ndarray:
    return (frame[FEATURES].to_numpy(float) + 1) / 19


def test_accuracy_area_and_column_figures(
    audited: tuple[AuditReport, pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> None:
    report, members, controls, released = audited
    assert len(members) == len(released) == report.rows and report.classifiers.test_rows == len(controls)
    accuracy: dict[tuple[str, str], float] = {
        (r.name, r.trained_on): r.accuracy.estimate for r in report.classifiers.results
    }
    area: dict[str, float] = {a.trained_on: a.auc.estimate for a in report.membership_inference.attacks}
    for kind, frame in [("real", members), ("fabricated", released)]:
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
    attacks = {attack.trained_on: attack.density for attack in audited[0].membership_inference.attacks}
    assert len({tuple(density.members) for density in attacks.values()}) == 3


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
