"""What somebody asks for when they want a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from reticent.core import checks
from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.core.postgres import without_password
from reticent.features.onnx_model import Pixels
from reticent.noise.named import by_name, independent
from reticent.runs.declared import ClassesChoice, TaskChoice
from reticent.runs.learners import ModelName
from reticent.runs.method import SamplingOfRows
from reticent.runs.methods.federated import check_asked
from reticent.runs.methods.table import METHODS
from reticent.runs.public_start import FEATURES, LEARN, NETWORK, Learn
from reticent.runs.record import RunRecord
from reticent.runs.users import check_users
from reticent.training.plan_noise import NoiseChoice

Prepare = Literal["private", "public", "assume-public"]

HELD_OUT = "held-out"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asks for: everything that decides a run besides the data.

    Args:
        source: a file, the name of a dataset in the catalog, or postgresql://USER@HOST/DATABASE. A password
            in an address is taken out of it, and only this process knows it.
        delta: None for a tenth of 1 / rows or less.
        prepare: `private` finds what the domain leaves open, at a tenth of the budget; `public` refuses;
            `assume-public` reads it off the data, and the guarantee says that it was taken as public.
        task: whether the target is told apart by classes or predicted as a number; `auto` looks at it.
        classes: of the target: a list, `public` to read them off the data, or `private` to find them.
        bounds: of columns, by name: public.
        buckets: of columns of very many words, by name: into how many a public hash sorts them.
        ignore: columns to leave out.
        missing: cells that mean "not known", beside the usual ones.
        test: the share of rows that is held out and scored: the probability of each row's own coin. With 0
            all rows are trained on, and there is no score.
        layout: how a text file is to be read, where it is not as detected.
        public: for PATE, a table of unlabelled rows that are nobody's secret, or `held-out`: nine tenths of
            the rows that are not trained on, their labels not looked at.
        teachers: for PATE, how many.
        user, rows_per_user: the column that names users, and how many rows of each are used: the guarantee is
            then for a user with all of these rows.
        sampling: of `sgd`: batches by coins, or every row once per epoch.
        noise: of `sgd` and `gd`: a strategy of `rt.noise` by its name, or `auto` for the least expected
        error. bands, buffers: of that noise.
        federated: for federated learning: rounds, clients_per_round, local_epochs, local_rate, local_batch
            and max_norm, each with a default.
        start: a folder of public weights (`reticent pretrain`) to start from. learn: what learns of them.
        start_digest: of those weights; filled in when they are opened, and asked for again.
        views: how many changed copies of an image are averaged before clipping; None to choose.
        class_weights: how much the rows of a class count in training, by its name; 1 where nothing is said.
            Public: they are declared, and no count of the rows is looked at.
        features: an ONNX file, a public model that makes numbers of texts or of images.
        text, images: the column that holds texts, or paths of images.
        pixels: how the model takes images; see `rt.features.from_onnx`.
        features_digest: of that model, with its settings; filled in when it is opened, and asked for again.
        overlap_is_public: records that are among the public and the private ones are declared public.

    Example:
        >>> request = Request(source="digits", epsilon=2.0)
        >>> request.method, request.prepare
        ('auto', 'private')
        >>> Request(source="digits", epsilon=0.0)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: epsilon must be a positive number, got 0.0. Pass another
        epsilon.
    """

    source: str
    epsilon: float
    target: str | None = None
    delta: float | None = None
    method: str = "auto"
    model: ModelName = "auto"
    domain: str | None = None
    prepare: Prepare = "private"
    task: TaskChoice = "auto"
    classes: ClassesChoice = "public"
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    buckets: dict[str, int] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    test: float = 0.2
    ledger: str | None = None
    dataset: str | None = None
    layout: dict[str, Any] = field(default_factory=dict)
    public: str | None = None
    teachers: int | None = None
    user: str | None = None
    rows_per_user: int | None = None
    class_weights: dict[str, float] = field(default_factory=dict)
    sampling: SamplingOfRows = "poisson"
    noise: str = "independent"
    bands: int | None = None
    buffers: int | None = None
    federated: dict[str, Any] = field(default_factory=dict)
    features: str | None = None
    text: str | None = None
    images: str | None = None
    pixels: Pixels = "imagenet"
    features_digest: str | None = None
    overlap_is_public: bool = False
    start: str | None = None
    learn: Learn = "dense"
    start_digest: str | None = None
    views: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", without_password(self.source))
        checks.positive(epsilon=self.epsilon)
        checks.one_of(get_args(Prepare), prepare=self.prepare)
        checks.one_of(get_args(TaskChoice), task=self.task)
        if not isinstance(self.classes, str):
            object.__setattr__(self, "classes", tuple(self.classes))
        elif self.classes not in ("public", "private"):
            raise InvalidArgument(
                f"classes={self.classes!r} is one word.",
                remedy="Name at least two, as in --classes no,yes; or say public or private.",
            )
        pairs = {name: (float(low), float(high)) for name, (low, high) in self.bounds.items()}
        object.__setattr__(self, "bounds", pairs)
        for name in ("ignore", "missing"):
            object.__setattr__(self, name, tuple(map(str, getattr(self, name))))
        checks.one_of(("auto", *METHODS), method=self.method)
        checks.one_of(get_args(ModelName), model=self.model)
        _settle_additive(self)
        _settle_sampling(self)
        _settle_noise(self)
        if not (0 <= self.test < 1):
            raise InvalidArgument(
                f"test={self.test:g} is not a share of the rows.",
                remedy="Pass one from 0 to below 1, such as 0.2.",
            )
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidArgument(
                "A ledger and the name of the dataset in it go together.",
                remedy="Pass both --ledger and --dataset.",
            )
        checks.one_of(get_args(Pixels), pixels=self.pixels)
        _check_public(self)
        if self.teachers is not None:
            checks.count(minimum=2, teachers=self.teachers)
        _check_class_weights(self.class_weights, self.method)
        check_users(self.user, self.rows_per_user, self.target)
        check_asked(self.federated, method=self.method, user=self.user)
        _check_start(self)
        require_protecting(self.epsilon)


def _check_public(request: Request) -> None:
    """Public rows are for PATE's student, and to whiten features by."""
    is_used = request.method == "pate" or (request.features is not None and request.public != HELD_OUT)
    if (request.method == "pate" and request.public is None) or (request.public is not None and not is_used):
        raise InvalidArgument(
            "PATE's student learns from public rows, features are whitened by them, nothing else uses them.",
            remedy="Pass --method pate and --public TABLE together (--public held-out for an experiment), or "
            "--features MODEL.onnx and --public TABLE, FOLDER or NAME.",
        )


def _settle_additive(request: Request) -> None:
    """The additive model has a method of its own: either word stands for both."""
    if "additive" not in (request.method, request.model):
        return
    if not {request.method, request.model} <= {"additive", "auto"}:
        raise InvalidArgument(
            f"The model '{request.model}' cannot be trained with the method '{request.method}'.",
            remedy="Pass --model additive alone, or another model and another method.",
        )
    object.__setattr__(request, "method", "additive")
    object.__setattr__(request, "model", "additive")


def _settle_sampling(request: Request) -> None:
    """Random batches are those of stochastic descent: `auto` then stands for it."""
    checks.one_of(get_args(SamplingOfRows), sampling=request.sampling)
    if request.sampling == "poisson":
        return
    if request.method not in ("auto", "sgd") or request.noise != "independent":
        what = f"'{request.method}'" if request.noise == "independent" else f"'{request.noise}' noise"
        raise InvalidArgument(
            f"Batches by allocation are for sgd with independent noise, and not for {what}.",
            remedy="Use --method sgd without --noise, or leave --sampling out.",
        )
    object.__setattr__(request, "method", "sgd")


def _settle_noise(request: Request) -> None:
    """Correlated noise is that of descent: `auto` then stands for it."""
    if noise_of(request) == independent():
        return
    if request.method not in ("auto", "sgd", "gd"):
        raise InvalidArgument(
            f"'{request.noise}' noise is for methods that descend in steps, and '{request.method}' does not.",
            remedy="Use --method sgd or gd, or leave --noise out.",
        )
    if request.method == "auto":
        object.__setattr__(request, "method", "sgd")


def _check_start(request: Request) -> None:
    """Public weights decide the model; views are for networks on images."""
    checks.one_of(LEARN, learn=request.learn)
    name = FEATURES if request.learn == "dense" else NETWORK
    if request.start is None:
        if request.learn != "dense" or request.model in (FEATURES, NETWORK):
            raise InvalidArgument(
                "The option --learn is about public weights, and there are none to start from.",
                remedy="Pass --from FOLDER, which reticent pretrain makes.",
            )
    elif request.model not in ("auto", name):
        raise InvalidArgument(
            f"A run that starts from public weights has their model, and --model {request.model} is another.",
            remedy="Leave out --model, or --from.",
        )
    elif request.method not in ("auto", "sgd", "gd"):
        raise InvalidArgument(
            f"Public weights are trained on in steps, and the method '{request.method}' has none.",
            remedy="Use --method sgd or gd.",
        )
    if request.views is not None:
        checks.count(views=request.views)
        if request.views > 1 and request.start is not None and name == FEATURES:
            raise InvalidArgument(
                "Features are computed once: an image has one view.", remedy="Leave out --views."
            )
        if request.views > 1 and request.start is None and request.model not in ("cnn", "wide_resnet"):
            raise InvalidArgument(
                f"Views are changed copies of an image for a network, and the model is '{request.model}'.",
                remedy="Use --model cnn or wide_resnet, or leave out --views.",
            )


def noise_of(request: Request) -> NoiseChoice:
    """The noise that was asked for.

    Raises:
        InvalidArgument: it is not known, or the batches of the method do not go with it.
    """
    if request.noise == "auto":
        if request.bands is not None or request.buffers is not None:
            raise InvalidArgument("'auto' finds the bands itself.", remedy="Leave out --bands and --buffers.")
        return "auto"
    found = by_name(request.noise, bands=request.bands, buffers=request.buffers)
    if request.method != "gd" and found != independent() and request.bands is None:
        raise InvalidArgument(
            f"'{request.noise}' noise without bands goes with batches in one order, and rows are held out by "
            "coins.",
            remedy="Pass --noise banded --bands 8, --noise auto, or --method gd.",
        )
    return found


def _check_class_weights(weights: dict[str, float], method: str) -> None:
    for weight in weights.values():
        checks.positive(class_weight=weight)
    if weights and method not in ("auto", "sgd", "gd", "additive"):
        raise InvalidArgument(
            f"Class weights are for methods that clip every gradient, and '{method}' does not.",
            remedy="Use --method sgd, gd or additive, or leave --class-weight out.",
        )


def require_protecting(epsilon: float) -> None:
    if not (epsilon <= 1000):
        raise InvalidArgument(
            f"epsilon={epsilon:g} protects nobody: odds may change by a factor e^{epsilon:g}.",
            remedy="Choose one of about 1, or do without privacy and say so.",
        )


def request_of(record: RunRecord) -> Request:
    """The request that a record keeps.

    Raises:
        IntegrityError: it is not a request for a model of this version.
    """
    asked = record.request.to_json()
    if asked.get("model") == asked["method"] == "auto":  # of a run from before `auto` was settled
        asked["method"] = record.recipe.method
    try:
        return Request(**asked)
    except (TypeError, ValueError, AttributeError):
        raise IntegrityError(
            "The request in run.json is not one that this version can follow.",
            remedy="Restore run.json from a copy.",
        ) from None
