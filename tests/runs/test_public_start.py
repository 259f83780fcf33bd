"""Runs that start from public weights: what learns, what is recorded and promised, what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.tensors import texts_inside
from reticent.pretraining.from_images import pretrain_on
from reticent.pretraining.learning import learn_without_privacy
from reticent.pretraining.public_model import WEIGHTS, PublicModel, read_public
from reticent.runs.export import export
from reticent.runs.fit import fit
from reticent.runs.learners import learner
from reticent.runs.methods import recipes
from reticent.runs.predict import Predictor
from reticent.runs.problem import Problem
from reticent.runs.public_start import PublicStart
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from tests.runs import coloured

PROBLEM = Problem(rows=800, shape=(coloured.SIDE, coloured.SIDE, 3), classes=tuple("0123456789"))


@pytest.fixture(scope="module")
def weights() -> PublicModel:
    public = coloured.images(400, seed=3)
    return pretrain_on(
        public["x"],
        public["y"],
        dataset="cifar100",
        model="wide_resnet+patches",
        epochs=3,
        width=1,
        patches=16,
    )


@pytest.fixture(scope="module")
def folder(weights: PublicModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("public") / "weights"
    weights.write(place)
    return place


def test_weights_are_read_as_written_and_say_that_they_are_not_private(weights, folder, tmp_path):
    again = read_public(folder)
    assert (again.digest, again.about, again.name) == (weights.digest, weights.about, "wide_resnet+patches")
    images = coloured.images(3, seed=9)["x"]
    assert np.array_equal(again.features(images), weights.features(images))
    assert "WITHOUT privacy" in (folder / "NOT_PRIVATE.txt").read_text()
    damaged = bytearray((folder / WEIGHTS).read_bytes())
    damaged[20:24] = b"????"
    (tmp_path / WEIGHTS).write_bytes(damaged)
    with pytest.raises(IntegrityError, match="public weights that this version can read"):
        read_public(tmp_path)
    with pytest.raises(IntegrityError, match="other weights than this run started from"):
        read_public(folder, digest="0" * 64)
    with pytest.raises(DataError, match="no public weights"):
        read_public(tmp_path / "nowhere")


def test_a_run_on_public_features_records_their_digest_and_works_without_their_folder(
    weights, folder, tmp_path, monkeypatch
):
    known = coloured.put_into_catalog(monkeypatch)
    moved = tmp_path / "weights"
    shutil.copytree(folder, moved)
    done = fit(Request(source="cifar10", epsilon=8.0, start=str(moved)), tmp_path / "run")
    shutil.rmtree(moved)
    with monkeypatch.context() as patch:  # what comes later reads the features that the run keeps
        usual = PublicModel.features
        patch.setattr(PublicModel, "features", lambda self, x, *_: usual(self, x) if len(x) == 1 else 1 / 0)
        again = open_again(done.folder)
        assert len(again.train_on["x"]) == 800
        kept = sorted((done.folder / "private").glob("features-*.npy"))
        assert [path.stat().st_mode & 0o077 for path in kept] == [0, 0]
    assert np.allclose(again.held_out["x"], weights.features(coloured.images(200, seed=2)["x"]), atol=1e-5)
    assert done.record.request.options["start_digest"] == weights.digest
    assert "never saw a private record" in str(done.record.result.guarantee)
    assert "steps at a rate of" in done.record.recipe.settings["reason"]
    export(tmp_path / "run", tmp_path / "out")
    for place in (tmp_path / "run", tmp_path / "out"):
        test = known["cifar10"].test
        assert test is not None
        found = Predictor(place).scores(np.asarray(test["x"])).argmax(axis=1)
        assert np.mean(found == test["y"]) > 0.3  # chance level is 0.1
    (tmp_path / "run" / WEIGHTS).write_bytes((tmp_path / "run" / WEIGHTS).read_bytes() + b" ")
    with pytest.raises(IntegrityError, match="other weights than this run started from"):
        Predictor(tmp_path / "run")


def test_private_records_among_the_public_ones_are_refused_and_nothing_is_written(
    folder, tmp_path, monkeypatch
):
    known = coloured.put_into_catalog(monkeypatch)
    train = known["cifar10"].train
    np.asarray(train["x"])[7] = coloured.images(400, seed=3)["x"][5]
    with pytest.raises(DataError, match="1 of the private records are among the public ones"):
        fit(Request(source="cifar10", epsilon=8.0, start=str(folder)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    start = PublicStart.read(folder, "dense", None)
    start.require_no_overlap(train["x"], is_public=True)
    start.require_no_overlap(coloured.images(50, seed=2)["x"], is_public=False)


@pytest.mark.parametrize("learn", ["all", "biases", "lora"])
def test_what_learns_starts_as_the_public_network_and_leaves_the_rest(weights, learn: Any):
    start = PublicStart(weights=weights, learn=learn)
    made = learner("public-network", PROBLEM, start)
    params = made.model.init(jax.random.key(0))
    row = {"x": jnp.asarray(coloured.images(1, seed=5)["x"][0]), "y": jnp.int32(3)}
    assert float(made.loss(params, row)) == pytest.approx(np.log(10), abs=1e-5)  # the last layer is new
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    whole = sum(leaf.size for leaf in jax.tree.leaves(weights.params()))
    assert (numbers == whole) if learn == "all" else (10 * 65 < numbers < whole / 3)
    moved = jax.tree.map(lambda leaf: leaf + 0.01, params)
    scores = np.asarray(made.scores(moved, row["x"]))
    loss = float(jax.nn.logsumexp(scores) - scores[3])
    assert float(made.loss(moved, row)) == pytest.approx(loss, abs=1e-3)  # one model, trained and asked
    assert made.program == ("public-network", weights.digest, learn)


def test_what_cannot_be_started_from_is_refused_with_a_remedy(weights, folder, tmp_path):
    arrays = {name: array for name, array in weights.arrays.items() if "wide_resnet" not in name}
    about = weights.about.__class__(dataset="cifar100", rows=400, shape=weights.about.shape, stride=2)
    PublicModel(about=about, arrays=arrays).write(tmp_path)
    with pytest.raises(InvalidArgument, match="patches without a network"):
        PublicStart.read(tmp_path, "biases", None)
    grey = Problem(rows=100, shape=(28, 28), classes=("a", "b"))
    with pytest.raises(DataError, match=r"shape \(16, 16, 3\), and a row here has shape \(28, 28\)"):
        learner("public-features", grey, PublicStart.read(folder, "dense", None))
    asked: tuple[tuple[dict[str, Any], str], ...] = (
        ({"learn": "all"}, "there are none to start from"),
        ({"start": "public", "model": "mlp"}, "--model mlp is another"),
        ({"start": "public", "method": "output"}, "the method 'output' has none"),
        ({"start": "public", "views": 2}, "an image has one view"),
        ({"views": 2, "model": "linear"}, "for a network"),
    )
    for words, complaint in asked:
        with pytest.raises(InvalidArgument, match=complaint):
            Request(source="cifar10", epsilon=1.0, **words)


def test_settings_grow_with_what_there_is_to_learn_from_and_say_so():
    few, many = (recipes.for_batches("public-features", rows, 2.0) for rows in (2000, 50_000))
    assert (few.steps, many.steps, many.rate, many.batch) == (80, 400, 15.0, 3846)
    assert few.rate < many.rate
    network = recipes.for_batches("public-network", 50_000, 2.0)
    assert (network.batch, network.views) == (1024, 1)
    assert 0.9 < network.decay < 1
    assert "CPU" in network.why
    assert recipes.for_everybody("wide_resnet", 50_000, 2.0, views=4).views == 4


def test_pre_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("reticent.pretraining.learning._SECONDS_KEPT", 0.0)
    rows = coloured.images(300, seed=3)
    model = learner("linear", PROBLEM).model
    flat = replace(model, apply=lambda params, x: model.apply(params, jnp.ravel(x) / 255))

    def learned(**more: Any) -> Any:
        return learn_without_privacy(flat, rows["x"], rows["y"], epochs=10, **more).params

    def stop(done: float) -> None:
        raise KeyboardInterrupt

    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        learned(kept=kept, on_progress=stop)
    assert texts_inside(tmp_path, "kept")["steps"] == "9"
    whole, resumed = learned(), learned(kept=kept)
    assert all(np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, (whole, resumed)), strict=True))
    with pytest.raises(IntegrityError, match="does not hold the progress of this training"):
        learn_without_privacy(flat, rows["x"], rows["y"], epochs=9, kept=kept)
