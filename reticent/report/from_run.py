"""The facts of a run: from its folder, what attacks and an audit left beside it, and its ledger."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reticent import __version__
from reticent.core.errors import DataError, IntegrityError
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.report.facts import attacks as attack_facts
from reticent.report.facts import record as record_facts
from reticent.report.facts import training
from reticent.report.facts.facts import Facts, Section, Value, bound_from_above, estimate
from reticent.report.facts.glossary import TERMS
from reticent.report.facts.odds import Claim, believed, best_guess, claims
from reticent.runs import folder as folders

_MODELS = {
    "linear": "A linear model",
    "mlp": "A perceptron",
    "cnn": "A convolutional network",
    "scattering": "A linear model on scattering features",
}
ATTACKS, AUDIT = "attacks", "audit.json"  # beside the run, where reports look for them
_TITLE = "Privacy report: "
_STARTS = (f"<title>{_TITLE}".encode(), f'{{\n  "title": "{_TITLE}'.encode())  # of a page, and of its facts
_START = 2000  # bytes


def facts_of(folder: Path, *, attacks: Path | None = None, audit: Path | None = None) -> Facts:
    """Everything that is known about a finished run.

    Args:
        attacks: the folder that `reticent attack -o` wrote; else `attacks` in the run's folder, if there.
        audit: what `reticent audit -o` wrote; else `audit.json` in the run's folder, if there.

    Raises:
        DataError: the run is not finished, or a named file is not there.
        IntegrityError: something in it is damaged.
    """
    record = folders.read_record(folder)
    folders.require_finished(folder, record)
    attacked = _json(attacks / "attack.json" if attacks else None, folder / ATTACKS / "attack.json")
    audited = _json(audit, folder / AUDIT)
    try:
        return _facts(folder, record, attacked, audited)
    except (KeyError, TypeError, ValueError, IndexError):
        raise IntegrityError(
            f"What is in {folder} does not describe a run, its attacks and its audit.",
            remedy="Restore it from a copy, or attack and audit again.",
        ) from None


def is_report(path: Path) -> bool:
    """Whether a file begins as a report does, the page or its facts: then another may take its place."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return False
    return any(words in start for words in _STARTS)


def _facts(
    folder: Path, record: dict[str, Any], attacked: dict[str, Any] | None, audited: dict[str, Any] | None
) -> Facts:
    promise = record["guarantee"]
    adjacency = Adjacency(promise["adjacency"])
    stated = Claim(promise["epsilon"], promise["delta"])
    known = claims(events.from_json(record["event"]), stated, adjacency)
    verdict, tone = _verdict(attacked, audited)
    is_generator = record.get("kind") == "generator"
    attacks = () if is_generator else attack_facts.sections(record, attacked, audited, known)
    sections = [
        _meaning(record, known),
        *training.sections(record),
        *attacks,
        *record_facts.sections(folder, record),
        Section(id="glossary", title="Words", terms=TERMS),
    ]
    return Facts(
        title=f"{_TITLE}{Path(record['order']['source']).name}",
        subtitle=f"{folder.name}, reticent {__version__}, {datetime.now(UTC):%d %B %Y}",
        verdict=verdict,
        tone=tone,
        lead=_lead(record, known, attacked, audited),
        headline=_headline(record, known, attacked, audited),
        sections=tuple(sections),
    )


def _lead(
    record: dict[str, Any],
    known: tuple[Claim, ...],
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
) -> tuple[str, ...]:
    order, promise = record["order"], record["guarantee"]
    what = f"'{order['target']}'" if order["target"] else "the class"
    unit = "person's record" if promise["unit"] == "record" else "person"
    is_generator = record.get("kind") == "generator"
    model = _MODELS.get(record["model"]["name"], "A model")
    made = (
        "A generator of synthetic data was made" if is_generator else f"{model} was trained to predict {what}"
    )
    guess = bound_from_above("", 100 * best_guess(known), digits=3).shown  # rounded up, as everywhere
    seen = "it, or anything it makes," if is_generator else "the model"
    said = [
        f"{made} from {folders.rows_in_words(record)} of {Path(order['source']).name}, with the method "
        f"'{record['recipe']['method']}'.",
        f"Whoever sees {seen} can tell whether any one {unit} was among them at most {guess}% of the time, "
        "where a coin is right 50% of the time: that is proved, whatever else they know and however they go "
        "about it.",
    ]
    if is_generator:
        return tuple(said)
    if attacked is None:
        said.append("No attack was tried on it yet: reticent attack does.")
    elif attacked.get("in_words"):
        said += [line for line in attacked["in_words"] if line.startswith(("This model", "These attacks"))][
            :1
        ]
    if audited is None:
        said.append("Nobody has tried to contradict the promise yet: reticent audit does.")
    else:
        said.append(str(audited["verdict"]["sentence"]))
    return tuple(said)


def _headline(
    record: dict[str, Any],
    known: tuple[Claim, ...],
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
) -> tuple[Value, ...]:
    promise, metrics = record["guarantee"], record["metrics"]
    values = [
        bound_from_above("epsilon", promise["epsilon"], note=f"at delta {promise['delta']:g}"),
        bound_from_above(
            "best possible guess, %",
            100 * best_guess(known),
            digits=3,
            note="about one person; a coin has 50%",
        ),
    ]
    name = next((key for key in ("accuracy", "root mean squared error") if key in metrics), None)
    if name is not None:
        form = ".1%" if name == "accuracy" else ".4g"
        values.append(
            estimate(name, metrics[name], form=form, note=f"{metrics['rows']:,} held-out rows, unreleased")
        )
    strongest = attack_facts.strongest(attacked)
    if strongest is not None:
        values.append(
            estimate(
                "largest AUC of an attack",
                strongest[1]["auc"]["value"],
                form=".1%",
                note=f"'{strongest[0]}'; a coin has 50%",
            )
        )
    if audited is not None:
        values.append(attack_facts.audited_bound(audited))
    return tuple(values)


def _verdict(attacked: dict[str, Any] | None, audited: dict[str, Any] | None) -> tuple[str, Any]:
    outcome = None if audited is None else audited["verdict"]["outcome"]
    if outcome == "CONTRADICTED":
        return "The promise is contradicted: do not publish this model.", "bad"
    strongest = attack_facts.strongest(attacked)
    if strongest is not None and strongest[1]["auc"]["low"] > 0.7:
        return "The promise holds as far as we know, and yet attacks learn much: think again.", "bad"
    if outcome == "CONSISTENT":
        return "The promise survived an honest attempt to contradict it.", "good"
    if outcome == "UNINFORMATIVE":
        return "Nothing contradicts the promise; the audit was too small to say more.", "plain"
    return "A promise is proved; it was not audited.", "plain"


def _meaning(record: dict[str, Any], known: tuple[Claim, ...]) -> Section:
    promise = record["guarantee"]
    epsilon = promise["epsilon"]
    values = [
        bound_from_above("epsilon", epsilon, note=promise["accountant"]),
        Value(
            name="delta",
            value=promise["delta"],
            kind=bound_from_above("", 1.0).kind,
            shown=f"{promise['delta']:g}",
            note="the probability with which the promise may fail",
        ),
        bound_from_above(
            "odds change by a factor of", _factor(epsilon), digits=3, note="at most, through one person"
        ),
        bound_from_above("from 1% to, %", 100 * believed(0.01, epsilon), digits=3, note=_PRIOR),
        bound_from_above("from 50% to, %", 100 * believed(0.5, epsilon), digits=3, note=_PRIOR),
        bound_from_above("best possible guess, %", 100 * best_guess(known), digits=3, note="from even odds"),
    ]
    if promise["epsilon_lower"] > 0:
        from reticent.report.facts.facts import bound_from_below

        values.insert(
            1,
            bound_from_below(
                "epsilon at least", promise["epsilon_lower"], digits=4, note="no analysis can claim less"
            ),
        )
    return Section(
        id="meaning",
        title="What the promise means",
        text=(
            record["sentence"],
            "It holds for everybody in the data, against everybody who sees the model, now and later, with "
            "any other knowledge they may have. It does not say that nothing can be learned about people in "
            "general: that is what the model is for.",
        ),
        values=tuple(values),
    )


_PRIOR = "what somebody can come to believe about one person, at most"


def _factor(epsilon: float) -> float:
    from math import exp

    return exp(min(epsilon, 700.0))


def _json(named: Path | None, usual: Path) -> dict[str, Any] | None:
    """What is in a file that was named, or that is where it usually is."""
    path = usual if named is None else named
    if named is None and not usual.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.",
            remedy="Name what `reticent attack -o` or `reticent audit -o` wrote.",
        ) from error
    except ValueError:
        raise IntegrityError(f"{path} is no JSON.", remedy="Attack or audit again.") from None
    if not isinstance(found, dict):
        raise IntegrityError(f"{path} is no JSON object.", remedy="Attack or audit again.")
    return found
