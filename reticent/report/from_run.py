"""The facts of a run: from its folder, from attacks and an audit beside it, and from its ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reticent import __version__
from reticent.attacks.strength import is_alarming
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, read_named
from reticent.core.postgres import name_of_place
from reticent.report.facts import attacks as attack_facts
from reticent.report.facts import record as record_facts
from reticent.report.facts import results, training
from reticent.report.facts.facts import Facts, Section, Value, bound_from_above, share_from_above
from reticent.report.facts.federated import federated_sections
from reticent.report.facts.odds import ClaimPoint, best_guess, claim_points, largest_belief
from reticent.report.facts.scores import MAIN_SCORES, score_values
from reticent.report.facts.shapes import shape_sections
from reticent.report.facts.weights import weight_sections
from reticent.runs import folder as folders
from reticent.runs.private_part import ATTACK, AUDIT
from reticent.runs.record import RunRecord

_MODELS = {
    "linear": "A linear model",
    "fourier": "A linear model on random Fourier features",
    "additive": "An additive model: one curve per column",
    "mlp": "A perceptron",
    "cnn": "A convolutional network",
    "scattering": "A linear model on scattering features",
}
_TITLE = "Privacy report: "
_STARTS = (f"<title>{_TITLE}".encode(), f'{{\n  "title": "{_TITLE}'.encode())  # of a page, and of its facts
_START = 2000  # bytes


def collect_facts(folder: Path, *, attacks: Path | None = None, audit: Path | None = None) -> Facts:
    """Collects everything that is known about a finished run.

    Args:
        attacks: the folder that `reticent attack -o` wrote; else what `reticent attack` left in the run's.
        audit: what `reticent audit -o` wrote; else what `reticent audit` left in the run's folder.

    Raises:
        DataError: the run is not finished, or a given file does not exist.
        IntegrityError: something in it is damaged.
    """
    record = folders.read_record(folder)
    folders.require_finished(folder, record)
    named = attacks / "attack.json" if attacks else None
    attacked = _read_evidence(named, folder, ATTACK, results.read_attacks)
    audited = _read_evidence(audit, folder, AUDIT, results.read_audit)
    damage = IntegrityError(
        f"{folder} does not describe a run, its attacks and its audit.",
        remedy="Restore it from a copy, or attack and audit again.",
    )
    with misfits_as(damage):
        return _facts(folder, record, attacked, audited)


def is_report(path: Path) -> bool:
    """Whether a file begins as a report does, the page or its facts: then another may take its place."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return False
    return any(words in start for words in _STARTS)


def _facts(
    folder: Path, record: RunRecord, attacked: dict[str, Any] | None, audited: dict[str, Any] | None
) -> Facts:
    promise = record.result.guarantee
    adjacency = promise.adjacency
    stated = ClaimPoint(promise.epsilon, promise.delta)
    known = claim_points(record.event, stated, adjacency)
    verdict, tone = _verdict(attacked, audited)
    is_generator = record.is_generator
    attacks = () if is_generator else attack_facts.sections(record, attacked, audited, known)
    sections = [
        _meaning(record, attacked, known),
        *training.sections(record),
        *federated_sections(folder, record),
        *weight_sections(folder, record),
        *shape_sections(folder, record),
        *attacks,
        *record_facts.sections(folder, record),
        Section(id="glossary", title="Glossary", terms=_GLOSSARY),
    ]
    return Facts(
        title=f"{_TITLE}{name_of_place(record.request.source)}",
        subtitle=f"{folder.name}, reticent {__version__}, {datetime.now(UTC):%d %B %Y}",
        verdict=verdict,
        tone=tone,
        lead=_lead(record, known, attacked, audited),
        headline=_headline(record, known, attacked, audited),
        sections=tuple(sections),
    )


def _lead(
    record: RunRecord,
    known: tuple[ClaimPoint, ...],
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
) -> tuple[str, ...]:
    request, promise = record.request, record.result.guarantee
    what = f"'{request.target}'" if request.target else "the class"
    unit = "person's record" if promise.unit == "record" else "person"
    is_generator = record.is_generator
    model = _MODELS.get(record.result.model.name, "A model")
    made = (
        "A generator of synthetic data was made" if is_generator else f"{model} was trained to predict {what}"
    )
    guess = bound_from_above("", 100 * best_guess(known), digits=3).shown  # rounded up, as everywhere
    seen = "it, or anything it makes," if is_generator else "the model"
    said = [
        f"{made} from {folders.rows_in_words(record)} of {name_of_place(request.source)}, with the method "
        f"'{record.recipe.method}'.",
        f"Anyone who sees {seen} can tell whether one {unit} was among them at most {guess}% of the time; "
        "guessing is right 50% of the time. This is proved, whatever else they know and whatever they try.",
    ]
    if is_generator:
        return tuple(said)
    tried = []
    if attacked is None:
        tried.append("It was not attacked yet: run reticent attack.")
    elif attacked.get("verdict"):
        tried.append(str(attacked["verdict"]))
    if audited is None:
        tried.append("The promise was not audited yet: run reticent audit.")
    else:
        tried.append(_AUDITED.get(str(audited["verdict"]["outcome"]), str(audited["verdict"]["sentence"])))
    return (*said, " ".join(tried))


_AUDITED = {
    "CONSISTENT": "Made-up records, the hardest to hide, tried to contradict the promise and could not.",
    "UNINFORMATIVE": "The promise was audited, by too few made-up records to say anything.",
}


def _headline(
    record: RunRecord,
    known: tuple[ClaimPoint, ...],
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
) -> tuple[Value, ...]:
    promise, scores = record.result.guarantee, record.result.scores
    values = [
        bound_from_above("epsilon", promise.epsilon, note=f"at delta {promise.delta:g}"),
        share_from_above(
            "best possible guess",
            best_guess(known),
            note="about one person; guessing is right 50% of the time",
        ),
    ]
    scored = score_values(scores, note="on held-out rows, unreleased") if scores else []
    values += [value for value in scored if value.name in MAIN_SCORES]
    attacks = attack_facts.played_attacks(attacked)
    if (strongest := attack_facts.strongest_value(attacks)) is not None:
        values.append(strongest)
    if audited is not None:
        values.append(attack_facts.audit_bound(audited))
    return tuple(values)


def _verdict(attacked: dict[str, Any] | None, audited: dict[str, Any] | None) -> tuple[str, Any]:
    outcome = None if audited is None else audited["verdict"]["outcome"]
    if outcome == "CONTRADICTED":
        return "The promise is contradicted: do not publish this model.", "bad"
    if is_alarming(attack_facts.played_attacks(attacked)):
        return "Nothing contradicts the promise, but attacks learn much: do not publish this model.", "bad"
    if outcome == "CONSISTENT":
        return "The promise survived an honest attempt to contradict it.", "good"
    if outcome == "UNINFORMATIVE":
        return "Nothing contradicts the promise; the audit was too small to say more.", "plain"
    return "The promise is proved; it was not audited.", "plain"


def _meaning(record: RunRecord, attacked: dict[str, Any] | None, known: tuple[ClaimPoint, ...]) -> Section:
    promise = record.result.guarantee
    epsilon = promise.epsilon
    values = [
        bound_from_above("epsilon", epsilon, note=promise.accountant),
        Value(
            name="delta",
            value=promise.delta,
            kind=bound_from_above("", 1.0).kind,
            shown=f"{promise.delta:g}",
            note="the probability with which the promise may fail",
        ),
        bound_from_above(
            "odds change by a factor of", _factor(epsilon), digits=3, note="at most, because of one person"
        ),
        share_from_above("who was 1% sure is now", largest_belief(0.01, epsilon), note=_PRIOR),
        share_from_above("who was 50% sure is now", largest_belief(0.5, epsilon), note=_PRIOR),
        share_from_above(
            "best possible guess",
            best_guess(known),
            note="right so often, where guessing is right 50% of the time",
        ),
    ]
    if promise.epsilon_lower > 0:
        from reticent.report.facts.facts import bound_from_below

        values.insert(
            1,
            bound_from_below(
                "epsilon at least", promise.epsilon_lower, digits=4, note="no analysis can claim less"
            ),
        )
    return Section(
        id="meaning",
        title="What the promise means",
        text=(
            str(record.result.guarantee),
            "It holds for everybody in the data, against everybody who sees the model, now and later, with "
            "any other knowledge they may have. It does not say that nothing can be learned about people in "
            "general: that is what the model is for.",
        ),
        values=tuple(values),
        charts=attack_facts.trade_off(attacked, known),
    )


_PRIOR = "sure at most, of anything about one person, after seeing the model"


def _factor(epsilon: float) -> float:
    from math import exp

    return exp(min(epsilon, 700.0))


def _read_evidence(
    named: Path | None, folder: Path, usual: str, read: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """Reads and checks a JSON file that was given, or the usual one of the folder if it exists."""
    if named is None:
        found = results.find(folder, usual)
        return None if found is None else results.check(*found, read)
    try:
        content = read_named(named)
    except OSError as error:
        raise DataError(
            f"Cannot read {named}: {error.strerror}.",
            remedy="Pass what `reticent attack -o` or `reticent audit -o` wrote.",
        ) from error
    return results.check(named, content, read)


_GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "differential privacy",
        "A promise about the training, not about the data: whatever came out would have been almost as "
        "likely without any one person.",
    ),
    (
        "epsilon",
        "How much likelier, at most, one person can make any outcome: by a factor of e^epsilon. Epsilon 0.1 "
        "allows a factor of 1.11, epsilon 1 a factor of 2.72, and epsilon 10 a factor of 22,026, which "
        "promises little.",
    ),
    (
        "delta",
        "The probability with which the promise may fail. It has to be far below 1 / the number of people.",
    ),
    (
        "bound",
        "A number that is proved: the truth is on the safe side of it, if the named assumptions hold.",
    ),
    ("estimate", "A number that was measured. Measured again, it would come out a little different."),
    ("member, outsider", "A person whose record was trained on, and one whose record was not."),
    (
        "membership attack",
        "Somebody who has the model and a person's record guesses whether that record was trained on.",
    ),
    (
        "true-positive rate at 0.1%",
        "The share of members that an attack finds when one outsider in a thousand is a false positive.",
    ),
    ("AUC", "How often an attack ranks a member above an outsider; guessing gives 50%."),
    (
        "audit",
        "An attempt to contradict the promise: made-up records join by coin flips, and somebody who watches "
        "the training guesses which joined. Too many right guesses prove the promise wrong.",
    ),
    ("ceiling", "The most that an audit of this size could have shown, had every guess been right."),
    (
        "noise multiplier",
        "The size of the random noise relative to the most that one record can contribute.",
    ),
    ("clipping", "Cutting every record's contribution to a fixed length, so that noise can hide it."),
    ("ledger", "A file in which everything spent on a dataset is written down before it is spent."),
    (
        "unreleased",
        "Computed from private data without noise: for the holder of the data, not for publication.",
    ),
)
