"""Private classifiers in a release: charged with the data, trained once, kept, released, checked, compared."""

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from flows import pipeline
from flows.sweep import sweep
from schemas.audit import AuditReport
from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.manifest import Manifest
from schemas.private_classifiers import SCORING_STEPS, ReleasedClassifier
from schemas.release import Publication
from tasks.files import CHECKSUMS, checksum_lines, sha256_file
from tasks.ledger import Ledger
from tasks.noise import SeededBits
from tasks.private_classifiers import GRIDS
from tasks.staging import Staging
from tasks.verify import verify
from tasks.workspace import Workspace
from tests.projects import FEATURES, SPEC, changed, digits, write_project
from tests.stand_in_classifier import StandInClassifier, stand_in, trainings

ENTRIES: list[dict[str, Any]] = [
    {"classifier": "pmsvm-adaptive", "epsilon": 4.0, "delta": 1e-5},
    {"classifier": "noisy-sgd", "trained_on": ["fabricated"]},
    {"classifier": "opera", "trained_on": ["confidential"], "epsilon": 2.0, "delta": 1e-6},
]
WITH = changed(SPEC, "evaluation", {"classifiers": ["nearest-neighbour"], "attacks": {"shadow_models": 0}})
WITH = changed(WITH, "evaluation.private_classifiers", ENTRIES)


def _ledger(home: Path) -> Ledger:
    return Ledger(home / "data" / "ledger.sqlite")


def _staging(home: Path) -> Staging:
    return Staging(Workspace(home), "small-digits", "a")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Publication]:
    """One release with two classifiers trained on confidential rows, and its home."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FABRICA_HOME", str(folder / "home"))
        stand_in(patched)
        spec = write_project(folder / "p", WITH)
        candidate = pipeline.propose(spec, "a")
        return folder / "home", pipeline.publish(spec, "a", candidate.digest)


def _manifest(publication: Publication) -> Manifest:
    return Manifest.model_validate_json((publication.release / "manifest.json").read_bytes())


def test_what_is_charged_is_what_the_manifest_states_and_proves(
    published: tuple[Path, Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    home, publication = published
    manifest = _manifest(publication)
    assert [own.name for own in manifest.classifiers] == ["pmsvm-adaptive", "opera"]
    (entry,) = [own for own in _ledger(home).entries() if own.kind == "reserve"]
    record = manifest.guarantee.record
    assert (entry.epsilon, entry.delta, entry.events) == (record.epsilon, record.delta, manifest.mechanism.events)
    charged = [event for own in manifest.classifiers for event in own.events]
    assert manifest.mechanism.events[-2:] == charged
    assert manifest.data_guarantee is not None and manifest.data_guarantee.element.epsilon == 2.0
    assert record.delta == pytest.approx(manifest.data_guarantee.record.delta + 1.1e-5)
    assert record.epsilon < manifest.data_guarantee.record.epsilon + 6.0
    assert all(check.outcome == "passed" for check in verify(publication.release, _ledger(home)))


def test_files_are_listed_and_the_free_one_is_not_released(published: tuple[Path, Publication]) -> None:
    _, publication = published
    files = {file.path for file in _manifest(publication).files}
    there = {path.name for path in (publication.release / "classifiers").iterdir()}
    assert there == {"pmsvm-adaptive.json", "opera.json"} and {f"classifiers/{name}" for name in there} <= files
    assert "classifiers/opera.json" in (publication.release / CHECKSUMS).read_text()
    package = json.loads((publication.release / "datapackage.json").read_text())
    assert [own["path"] for own in package["resources"][1:]] == [
        f"classifiers/{n}.json" for n in ("pmsvm-adaptive", "opera")
    ]
    assert package["resources"][0]["path"] == ["data/part-00000.parquet"]
    made = ReleasedClassifier.model_validate_json((publication.release / "classifiers" / "opera.json").read_bytes())
    assert made.guarantee.private and made.guarantee.adjacency == "replace_one"
    assert (made.guarantee.epsilon, made.guarantee.delta) == (2.0, 1e-6)


def test_report_and_card_show_them_side_by_side(published: tuple[Path, Publication]) -> None:
    _, publication = published
    report = AuditReport.model_validate_json((publication.report.parent / "audit.json").read_bytes())
    shown = [(own.name, own.trained_on, own.epsilon) for own in report.classifiers.private]
    data = _manifest(publication).of_the_data.record
    assert shown == [
        ("pmsvm-adaptive", "confidential", 4.0), ("pmsvm-adaptive", "fabricated", data.epsilon),
        ("noisy-sgd", "fabricated", data.epsilon), ("opera", "confidential", 2.0),
    ]  # fmt: skip
    assert {own.train_rows for own in report.classifiers.private} == {report.rows}
    assert report.classifiers.private[0].accuracy.estimate > 0.8
    assert report.empirical_epsilon.claimed_epsilon == data_epsilon(publication)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.unescape(publication.report.read_text())))
    for text in [
        "Private classifiers", "with noise in the training", "noise in the data, at different guarantees", "ε 4",
        "Always answering the largest class gets", "neither way protects them",
        "Of the data alone", "Attacks on the released classifiers", "released classifiers 0.",
        "not asked for", "fixed: the classifier's defaults", "gives_away none",
            "claimed 2 for the data alone", "is claimed for the data alone", "beside them are not tried",
    ]:  # fmt: skip
        assert text in page, text
    assert "(not asked for)" not in page
    card = html.unescape((publication.release / "card.html").read_text())
    card = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", card))
    assert "classifiers/opera.json" in card and "To classify a row" in card and "Of the data alone" in card
    assert all(re.sub(r"[\s`]", "", step) in re.sub(r"\s", "", card) for step in SCORING_STEPS)


def test_released_classifiers_are_attacked_by_what_is_in_their_files(published: tuple[Path, Publication]) -> None:
    """Computed again by an auditor who has the files, the source and the list of members, by the file's own steps."""
    home, publication = published
    report = publication.report.parent
    inference = AuditReport.model_validate_json((report / "audit.json").read_bytes()).membership_inference
    assert [own.classifier for own in inference.released_classifiers] == ["pmsvm-adaptive", "opera"]
    source = pd.read_csv(home.parent / "p" / "source.csv")
    members = json.loads((report / "members.json").read_text())["member_rows"]
    inside = source.index.isin(members)
    for attack in inference.released_classifiers:
        made = json.loads((publication.release / "classifiers" / f"{attack.classifier}.json").read_text())
        assert (attack.epsilon, attack.delta) == (made["guarantee"]["epsilon"], made["guarantee"]["delta"])
        assert (attack.members, attack.controls) == (len(members), len(source) - len(members)) == (105, 45)
        at = made["row_map"]
        z = 2 * np.floor(source[FEATURES].to_numpy() / 16 * 65536 + 0.5) / 65536 - 1
        z = z * np.minimum(1, at["norm"] / np.linalg.norm(z, axis=1, keepdims=True)) / at["norm"] / np.sqrt(2)
        scores = z @ np.array(made["coefficients"]).T + made["intercepts"]
        mine = source["digit"].to_numpy()[:, None] == np.array(made["classes"])
        margin = pd.Series(scores[mine] - np.where(mine, -np.inf, scores).max(axis=1))
        assert attack.auc.estimate == pytest.approx(roc_auc_score(inside, margin), abs=1e-9)
        found = next(f for f in attack.found if f.false_positive_rate == 0.01)
        assert found.true_positive_rate is None and attack.most_exposed
        rest = margin[members].drop(attack.most_exposed)
        assert margin[attack.most_exposed].is_monotonic_decreasing and margin[attack.most_exposed].min() > rest.max()


def data_epsilon(publication: Publication) -> float:
    """The data's own epsilon at the unit that the spec is about."""
    return _manifest(publication).of_the_data.element.epsilon


def test_a_release_without_them_says_nothing_of_them(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(WITH, "evaluation.private_classifiers", ...))
    pipeline.publish(spec, "a", pipeline.propose(spec, "a").digest)
    release = home / "data" / "releases" / "small-digits" / "a"
    manifest = Manifest.model_validate_json((release / "manifest.json").read_bytes())
    assert manifest.data_guarantee is None and manifest.classifiers == []
    assert not (release / "classifiers").exists() and "private_classifiers" not in manifest.spec["evaluation"]
    report = home / "reports" / "small-digits" / "a"
    for page in [release / "card.html", report / "audit.html"]:
        assert "rivate classifier" not in page.read_text() and "Of the data alone" not in page.read_text()
        assert "eleased classifier" not in page.read_text()
    assert "released_classifiers" not in (report / "audit.json").read_text()
    steps = [own.step for own in AuditReport.model_validate_json((report / "audit.json").read_bytes()).step_times]
    assert not any("private" in name for name in steps) and "Train on fabricated rows" not in steps


# Trained once -------------------------------------------------------------------------------------------------------


class _Crash(BaseException):
    """As good as a killed process."""


@pytest.mark.parametrize("place", ["flows.pipeline.stage", "tasks.staging.Staging.keep_classifier", "second fit"])
def test_a_kept_classifier_is_taken_up_and_never_trained_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    stand_in(monkeypatch)
    spec = write_project(tmp_path / "p", WITH)

    def crash(*_: object, **__: object) -> None:
        raise _Crash

    with monkeypatch.context() as broken:
        if place == "second fit":
            keep = Staging.keep_classifier

            def keep_first(self: Staging, made: ReleasedClassifier, places: np.ndarray) -> ReleasedClassifier:
                if made.name != "pmsvm-adaptive":
                    raise _Crash
                return keep(self, made, places)

            broken.setattr(Staging, "keep_classifier", keep_first)
        else:
            broken.setattr(place, crash)
        with pytest.raises(_Crash):
            pipeline.propose(spec, "a")
    kept = {path.name: path.read_bytes() for path in (_staging(home).folder / "classifiers").glob("*.json")} if (
        place != "tasks.staging.Staging.keep_classifier"
    ) else {}  # fmt: skip
    assert len(kept) == {"flows.pipeline.stage": 2, "second fit": 1}.get(place, 0)
    trainings.clear()
    candidate = pipeline.propose(spec, "a")
    assert trainings.count("with noise") == 2 - len(kept)
    pipeline.publish(spec, "a", candidate.digest)
    release = home / "data" / "releases" / "small-digits" / "a" / "classifiers"
    for name, content in kept.items():
        assert ReleasedClassifier.model_validate_json(content) == ReleasedClassifier.model_validate_json(
            (release / name).read_bytes()
        )
    assert [own.kind for own in _ledger(home).entries()] == ["budget", "reserve", "draw", "commit"]


@pytest.mark.parametrize("change", ["nothing", "cut off", "edited", "other members", "another name"])
def test_a_kept_classifier_that_was_changed_is_refused(
    published: tuple[Path, Publication], tmp_path: Path, change: str
) -> None:
    _, publication = published
    staging, places = _staging(tmp_path), np.arange(4)
    for name in ("opera", "pmsvm-adaptive"):
        content = (publication.release / "classifiers" / f"{name}.json").read_bytes()
        staging.keep_classifier(ReleasedClassifier.model_validate_json(content), places)
    folder = staging.folder / "classifiers"
    path, mark = folder / "opera.json", folder / "opera.kept"
    if change == "nothing":
        kept = staging.classifier("opera", places)
        assert kept is not None and kept.name == "opera" and staging.classifier("noisy-sgd", places) is None
        return
    if change == "cut off":
        path.write_bytes(path.read_bytes()[:-20])
    elif change == "edited":
        path.write_text(path.read_text().replace("0.", "1.", 1))
    elif change == "other members":
        places = places[::-1]
    else:
        path.write_bytes((folder / "pmsvm-adaptive.json").read_bytes())
        mark.write_bytes((folder / "pmsvm-adaptive.kept").read_bytes())
    with pytest.raises(IntegrityFailed, match="staging folder was changed"):
        staging.classifier("opera", places)


def test_a_charge_is_not_voided_while_a_classifier_is_kept(home: Path, tmp_path: Path) -> None:
    staging = _staging(home)
    (staging.folder / "classifiers").mkdir(parents=True)
    staging.require_no_noise_kept()
    (staging.folder / "classifiers" / "opera.json").write_text("{")
    with pytest.raises(RequestRefused, match="its charge stays"):
        staging.require_no_noise_kept()


def test_one_seeded_classifier_brands_data_with_private_noise(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    spec = write_project(tmp_path / "p", WITH)
    with monkeypatch.context() as broken:
        broken.setattr("flows.pipeline.fabricate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.propose(spec, "a")
    candidate = pipeline.propose(spec, "a", bits=SeededBits(1))
    with pytest.raises(RequestRefused, match="seeded"):
        pipeline.publish(spec, "a", candidate.digest)
    manifest = Manifest.model_validate_json((_staging(home).release / "manifest.json").read_bytes())
    assert manifest.randomness == "seeded (not private)"


def test_hyperparameters_are_chosen_on_released_rows_only(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    monkeypatch.setitem(GRIDS, "opera", [{}, {"shift": 50.0}])
    entry = ENTRIES[2] | {"hyperparameters": "fabricated", "trained_on": ["confidential", "fabricated"]}
    spec = write_project(tmp_path / "p", changed(WITH, "evaluation.private_classifiers", [entry]))
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def choose(_: object, rows: np.ndarray, labels: np.ndarray, __: int) -> dict[str, Any]:
        seen.append((rows, labels))
        return {"shift": 50.0}

    monkeypatch.setattr("tasks.train_private.choose_settings", choose)
    candidate = pipeline.propose(spec, "a")
    pipeline.publish(spec, "a", candidate.digest)
    release = home / "data" / "releases" / "small-digits" / "a"
    made = ReleasedClassifier.model_validate_json((release / "classifiers" / "opera.json").read_bytes())
    assert made.hyperparameters["shift"] == 50.0 and made.chosen_on == "fabricated rows"
    assert all(check.outcome == "passed" for check in verify(release, _ledger(home)))
    ((rows, labels),) = seen  # once: the one trained on fabricated rows takes the same settings
    data = pd.read_parquet(release / "data")
    assert np.allclose(rows, data[FEATURES].to_numpy() / 16, atol=2.0**-16) and np.array_equal(labels, data["digit"])


# Refused ------------------------------------------------------------------------------------------------------------


def test_what_was_run_beyond_its_charge_is_not_released(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, undercharged=True)
    spec = write_project(tmp_path / "p", WITH)
    with pytest.raises(IntegrityFailed, match="not covered by what was charged"):
        pipeline.propose(spec, "a")
    assert not (_staging(home).folder / "classifiers").exists() and not _staging(home).release.exists()


def test_nothing_is_spent_on_what_public_numbers_refuse(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, least_rows=106)  # of 150 rows 105 are members
    spec = write_project(tmp_path / "p", WITH)
    with pytest.raises(RequestRefused, match=r"needs 106 rows, got 105.*Nothing was spent"):
        pipeline.propose(spec, "a")
    assert _ledger(home).entries() == [] and not _staging(home).folder.exists()


def test_nothing_is_spent_on_what_the_number_of_members_alone_refuses(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The made-up rows are fewer than the members, and are trained on without complaint."""

    def refuse(_: object, n_records: int, *__: object) -> None:
        if n_records > 100:
            raise ValueError(f"{n_records} rows are too many")

    stand_in(monkeypatch)
    monkeypatch.setattr(StandInClassifier, "_refuse_numbers", refuse)
    monkeypatch.setattr("tasks.private_classifiers._MOST_TRIED", 50)
    spec = write_project(tmp_path / "p", WITH)
    with pytest.raises(RequestRefused, match=r"105 rows are too many.*Nothing was spent"):
        pipeline.propose(spec, "a")
    assert trainings and _ledger(home).entries() == [] and not _staging(home).folder.exists()


def test_a_budget_that_the_data_alone_would_fit_refuses_them_together(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    spec = write_project(tmp_path / "p", changed(WITH, "privacy.budget", {"epsilon": 9.0, "delta": 1e-3}))
    with pytest.raises(BudgetRefused, match="trained on confidential rows: pmsvm-adaptive, opera"):
        pipeline.propose(spec, "a")
    assert _ledger(home).entries() == []


# What `fabrica verify` finds ----------------------------------------------------------------------------------------


def _made_again(folder: Path, change: Callable[[dict[str, Any]], None], name: str = "opera") -> None:
    """Edit a classifier's file and make manifest and checksums agree with it again."""
    path = folder / "classifiers" / f"{name}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    _edit_manifest(folder, lambda _: None)


def _edit_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for file in manifest["files"]:
        if (folder / file["path"]).exists():
            file |= {"sha256": sha256_file(folder / file["path"]), "bytes": (folder / file["path"]).stat().st_size}
    change(manifest)
    path.write_text(json.dumps(manifest))
    (folder / CHECKSUMS).write_text(checksum_lines(folder))


def _only_edit_weights(folder: Path) -> None:
    path = folder / "classifiers" / "opera.json"
    path.write_text(path.read_text().replace("0.", "1.", 1))


def _another_file(folder: Path, name: str) -> None:
    (folder / name).write_text("{}")
    content = {"path": name, "sha256": sha256_file(folder / name), "bytes": 2, "rows": None}
    _edit_manifest(folder, lambda m: m["files"].append(content))


def _stronger(content: dict[str, Any]) -> None:
    content["guarantee"]["epsilon"] = 1.0


def _stronger_with_its_events(content: dict[str, Any]) -> None:
    _stronger(content)
    content["guarantee"]["events"][0]["noise_multiplier"] = 50.0


FORGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "weights": (_only_edit_weights, "classifiers/opera.json: was changed"),
    "weights, all else made to agree": (
        lambda f: _made_again(f, lambda c: c["intercepts"].__setitem__(0, 9.0)), "not the one that was published",
    ),
    "file missing": (lambda f: (f / "classifiers" / "opera.json").unlink(), "classifiers/opera.json: is missing"),
    "stronger guarantee of one": (lambda f: _made_again(f, _stronger), "not what the manifest says"),
    "less was run than said": (
        lambda f: _made_again(f, lambda c: c["guarantee"]["events"][0].update(noise_multiplier=0.5)),
        "not what the manifest says",
    ),
    "stronger guarantee, with events of more noise": (
        lambda f: _made_again(f, _stronger_with_its_events), "not what the manifest says",
    ),
    "more was run than said": (
        lambda f: _made_again(f, lambda c: c["guarantee"]["events"][0].update(noise_multiplier=50.0)),
        "not the one that such a training has",
    ),
    "mechanism": (lambda f: _made_again(f, lambda c: c["guarantee"].update(mechanism="magic")), "such a training"),
    "proof": (lambda f: _made_again(f, lambda c: c["guarantee"].update(proof="trust me")), "such a training"),
    "assumptions": (lambda f: _made_again(f, lambda c: c["guarantee"].update(assumptions=[])), "such a training"),
    "norm": (lambda f: _made_again(f, lambda c: c["row_map"].update(norm=2.0)), "row map"),
    "rule": (lambda f: _made_again(f, lambda c: c["row_map"].update(rule="normalize")), "row map"),
    "intercept": (lambda f: _made_again(f, lambda c: c["row_map"].update(intercept=False)), "row map"),
    "hyper-parameter": (lambda f: _made_again(f, lambda c: c["hyperparameters"].update(shift=3.0)), "that the spec"),
    "hyper-parameter of free text": (
        lambda f: _made_again(f, lambda c: c["hyperparameters"].update(note="Ann has it")), "that the spec allows",
    ),
    "steps": (lambda f: _made_again(f, lambda c: c.update(steps=["take the first class"])), "steps of scoring a row"),
    "bound of a feature": (lambda f: _made_again(f, lambda c: c["features"][0].update(upper=17)), "or features"),
    "a file that no classifier is": (lambda f: _another_file(f, "classifiers/extra.json"), "not data, data package"),
    "a file that no data are": (lambda f: _another_file(f, "notes.txt"), "not data, data package"),
    "for adding a record": (
        lambda f: _made_again(f, lambda c: c["guarantee"].update(adjacency="add_remove")), "replacing a record",
    ),
    "seeded": (
        lambda f: _made_again(f, lambda c: c["guarantee"].update(randomness="seeded (not private)")), "seeded",
    ),
    "features swapped": (lambda f: _made_again(f, lambda c: c["features"].reverse()), "features are not"),
    "classes swapped": (lambda f: _made_again(f, lambda c: c["classes"].reverse()), "classes or features"),
    "another's file": (lambda f: _made_again(f, lambda c: c.update(name="pmsvm-weight")), "name, classes"),
    "bounds": (lambda f: _made_again(f, lambda c: c["row_map"].update(upper=[2.0] * 4)), "row map"),
    "unpaid scales": (
        lambda f: _made_again(f, lambda c: c["row_map"].update(centre=[0.0] * 4, scale=[1.0] * 4)), "row map",
    ),
    "chosen otherwise": (
        lambda f: _made_again(f, lambda c: c.update(chosen_on="fabricated rows")), "hyper-parameters come from",
    ),
    "not a classifier": (lambda f: _made_again(f, lambda c: c.pop("classes")), "not a valid classifier"),
    "record epsilon of the data alone": (
        lambda f: _edit_manifest(f, lambda m: m["guarantee"].update(record=m["data_guarantee"]["record"])), "stronger",
    ),
    "unlisted classifier": (lambda f: _edit_manifest(f, lambda m: m["classifiers"].pop()), "not those of the spec"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_verify_names_what_was_forged(
    published: tuple[Path, Publication], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stand_in(monkeypatch)
    home, publication = published
    folder = tmp_path / "a"
    shutil.copytree(publication.release, folder)
    forge, text = FORGED[name]
    forge(folder)
    with pytest.raises(IntegrityFailed, match=text):
        verify(folder, _ledger(home))


def test_sweep_json_and_page_say_that_they_were_left_out(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", WITH)
    made = sweep(spec, [2.0], "s", stand_in=None)
    (note,) = [own for own in made.notes if "left out" in own]
    assert "pmsvm-adaptive, noisy-sgd, opera" in note
    assert note[1:] in html.unescape((home / "reports" / "small-digits" / "s" / "sweep.html").read_text())


# The border ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaks", [False, True])
def test_no_recognisable_value_is_written_anywhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaks: bool
) -> None:
    """A value planted in a few rows is looked for; a classifier that gives a row away convicts the search."""
    mark = 7.0625031
    scaled = float(2 * (np.floor(mark / 16 * 65536 + 0.5) / 65536) - 1)
    stand_in(monkeypatch, data_norm=None, gives_away=scaled if leaks else None)
    source = digits().astype({"r2c3": float})
    source.loc[source.index[:9], "r2c3"] = mark
    spec = changed(WITH, "table.columns.r2c3", {"type": "numeric", "bounds": [0, 16]})
    pipeline.propose(write_project(tmp_path / "p", spec, source), "a")
    written = {file: file.read_bytes() for file in home.rglob("*.*") if file.is_file()}
    texts = [str(mark), str(scaled), str((scaled + 1) / 2)]
    found = {file.name for file, content in written.items() for text in texts if text.encode() in content}
    assert found == ({"pmsvm-adaptive.json", "opera.json", "audit.json"} if leaks else set())  # the last: its setting
