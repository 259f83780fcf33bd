"""New rows through a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.data.domain import Domain, Ignored
from reticent.data.encoding import OddCells, encode, feature_names
from reticent.data.files import Table, open_table
from reticent.data.files.text import SAMPLE, first_bytes, is_utf8_beyond_ascii
from reticent.runs import folder as folders
from reticent.runs.feature_source import open_rows
from reticent.runs.learners import Learner, ModelName, learner
from reticent.runs.predict_features import file_names, with_features
from reticent.runs.public_domain import layout_for
from reticent.runs.public_start import FEATURES, NETWORK, PublicStart
from reticent.runs.record import RunRecord
from reticent.runs.scoring import predict_scores, softmax
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
        name = _model_name(folder, result.model.name)
        self.learner: Learner = learner(name, self.problem, _start_of(folder, name, self.record))
        self.params = params_in(folder, self.learner, result.model.digest)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """The scores of encoded rows: logits, or predictions in the units of the target."""
        return predict_scores(self.learner, self.params, self.learner.inputs(x))

    def table(
        self, table: Table, odd: OddCells | None = None, *, threshold: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """For each row of a table, its prediction, and for classes the probability of each.

        The table needs the columns that the model was trained on, and not the target.

        Args:
            odd: receives how many cells of each column were not what training expects.
            threshold: of two classes, the probability from which on the second is predicted.

        Raises:
            InvalidArgument: there is a threshold, and there are not two classes.
        """
        self._require_threshold(threshold)
        data = encode(table, self._domain(), odd=odd)
        for name, scores in zip(file_names(table), self.scores(data["x"]), strict=False):
            yield {**name, **self.name(scores, threshold)}

    def open(
        self, path: Path | str, typed: Mapping[str, Any] | None = None, *, features: str | None = None
    ) -> Table:
        """Opens a table of new rows: as typed, else as training read its own, else as detected.

        What training did counts if it gives the columns that the model takes. A first line that names them
        all is a header, whether or not training had one.

        Args:
            typed: arguments of `open_table` that somebody gave.
            features: where the public model is that makes the features, if it was moved.

        Raises:
            IntegrityError: it is not the model that training used.
        """
        return with_features(self._open(path, typed), self, features)

    def _open(self, path: Path | str, typed: Mapping[str, Any] | None) -> Table:
        if Path(path).is_dir():
            return open_rows(str(path))
        typed = dict(typed or {})
        known = {**layout_for(self.record.request.layout, self.domain), **typed}
        if "encoding" not in typed and _is_plainly_utf8(Path(path)):
            known.pop("encoding", None)  # in that of training, its words would be others
        tries = [known] if "header" in typed else [{**known, "header": True}, known]
        for layout in tries if self.columns else ():
            with suppress(DataError, InvalidArgument):  # it is written in another way
                table = open_table(path, **layout, expected=self.columns)
                if set(self.columns) <= set(table.names):
                    return table
        return open_table(path, **typed, expected=self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that a table has to have; none where the run was trained on arrays."""
        if self.domain is None:
            return ()
        return tuple(
            name
            for name, column in self.domain.columns.items()
            if name != self.domain.target and not isinstance(column, Ignored)
        )

    @cached_property
    def domain(self) -> Domain | None:
        """The domain of the run; None where it was trained on arrays.

        Raises:
            IntegrityError: it makes other features of a row than the model takes.
        """
        domain = folders.read_domain(self.folder)
        features, taken = 0 if domain is None else len(feature_names(domain)), prod(self.problem.shape)
        if domain is not None and features != taken:
            raise IntegrityError(
                f"{self.folder / folders.DOMAIN} makes {features:,} features of a row, and the model takes "
                f"{taken:,}.",
                remedy="Restore it from a copy.",
            )
        return domain

    def _domain(self) -> Domain:
        """What is public about the columns that the model takes."""
        domain = self.domain
        if domain is None:
            raise DataError(
                f"The run in {self.folder} was trained on arrays, not on a table.",
                remedy="Predict from arrays in Python: reticent.runs.predict.Predictor(folder).scores(x).",
            )
        columns = {name: column for name, column in domain.columns.items() if name != domain.target}
        return replace(domain, columns=columns, target=None)

    def name(self, scores: np.ndarray, threshold: float | None = None) -> dict[str, Any]:
        """The prediction from the scores of a row, and for classes the probability of each."""
        if not self.problem.is_classification:
            return {"prediction": float(scores[0])}
        shares = softmax(scores[None])[0]
        chosen = int(scores.argmax()) if threshold is None else int(shares[1] >= threshold)
        named = zip(self.problem.classes, shares.tolist(), strict=True)
        return {
            "prediction": self.problem.classes[chosen],
            **{f"probability of {name}": round(share, 6) for name, share in named},
        }

    def _require_threshold(self, threshold: float | None) -> None:
        if threshold is None:
            return
        if self.problem.outputs != 2:
            what = f"{self.problem.outputs} classes" if self.problem.is_classification else "a number"
            raise InvalidArgument(
                f"A threshold chooses between two classes, and this run predicts {what}.",
                remedy="Leave --threshold out.",
            )
        if not (0 <= threshold <= 1):
            raise InvalidArgument(
                f"threshold={threshold:g} is not a probability.", remedy="Pass one between 0 and 1."
            )


def _start_of(folder: Path, name: str, record: RunRecord) -> PublicStart | None:
    """The public weights that a run started from: a copy of them is in its folder.

    Raises:
        IntegrityError: they are not those that the record tells of.
    """
    if name not in (FEATURES, NETWORK):
        return None
    options = record.request.options
    try:
        return PublicStart.read(folder, str(options.get("learn")), str(options.get("start_digest")))
    except (DataError, InvalidArgument) as error:
        raise IntegrityError(
            f"The public weights of the run in {folder} cannot be used: {error.happened}",
            remedy="Restore the folder from a copy.",
        ) from error


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
    if name not in get_args(ModelName)[1:]:
        raise IntegrityError(
            f"{folder / folders.RUN} does not describe a model that can be made here.",
            remedy="Restore it from a copy.",
        )
    return name


def _is_plainly_utf8(path: Path) -> bool:
    return path.is_file() and is_utf8_beyond_ascii(first_bytes(path, SAMPLE))
