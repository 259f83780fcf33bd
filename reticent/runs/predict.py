"""New rows through a finished run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.data.domain import Domain, Ignored
from reticent.data.encoding import encode
from reticent.data.files import Table
from reticent.runs import folder as folders
from reticent.runs.learners import Learner, learner
from reticent.runs.scoring import predicted
from reticent.training.clipping import paths_of


class Predictor:
    """A finished run, read from its folder with everything checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folders.read_record(folder)
        folders.require_model(folder, self.record)
        result = folders.require_finished(folder, self.record)
        assert result.problem is not None  # it is a model
        self.problem = result.problem
        self.learner: Learner = learner(_model_name(folder, result.model.name), self.problem)
        self.params = params_in(folder, self.learner, result.model.digest)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Of encoded rows: logits, or predictions in the units of the target."""
        return predicted(self.learner, self.params, self.learner.inputs(x))

    def table(self, table: Table, forgiven: Counter[str] | None = None) -> Iterator[dict[str, Any]]:
        """For each row of a table, its prediction, and for classes the probability of each.

        The table needs the columns that the model was trained on, and not the target.

        Args:
            forgiven: is told how many cells of each column were no numbers and counted as missing.
        """
        data = encode(table, self._domain(), forgiven=forgiven)
        for scores in self.scores(data["x"]):
            yield self.named(scores)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that a table has to have; none where the run was trained on arrays."""
        domain = folders.read_domain(self.folder)
        if domain is None:
            return ()
        return tuple(
            name
            for name, column in domain.columns.items()
            if name != domain.target and not isinstance(column, Ignored)
        )

    def _domain(self) -> Domain:
        """What is public about the columns that the model takes."""
        domain = folders.read_domain(self.folder)
        if domain is None:
            raise DataError(
                f"The run in {self.folder} was trained on arrays, not on a table.",
                remedy="Predict from arrays in Python: reticent.runs.predict.Predictor(folder).scores(x).",
            )
        columns = {name: column for name, column in domain.columns.items() if name != domain.target}
        return replace(domain, columns=columns, target=None)

    def named(self, scores: np.ndarray) -> dict[str, Any]:
        if not self.problem.is_classification:
            return {"prediction": float(scores[0])}
        odds = np.exp(scores - scores.max())
        shares = odds / odds.sum()
        named = zip(self.problem.classes, shares.tolist(), strict=True)
        return {
            "prediction": self.problem.classes[int(scores.argmax())],
            **{f"probability of {name}": round(share, 6) for name, share in named},
        }


def params_in(folder: Path, learner: Learner, digest: str | None) -> Any:
    """The parameters of the model in a folder, in the shape that the learner's model has."""
    like = jax.eval_shape(learner.model.init, jax.random.key(0))
    names = paths_of(like)
    shapes = dict(zip(names, (leaf.shape for leaf in jax.tree.leaves(like)), strict=True))
    found = folders.read_model(folder, digest, shapes)
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(found[name]) for name in names])


def _model_name(folder: Path, name: str) -> Any:
    """
    Raises:
        IntegrityError: there is no model of this name.
    """
    if name not in ("linear", "mlp", "cnn", "scattering"):
        raise IntegrityError(
            f"{folder / folders.RUN} does not describe a model that can be made here.",
            remedy="Restore it from a copy.",
        )
    return name
