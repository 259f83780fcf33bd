"""What a linear model looks at: its largest weights by the names of the features."""

from __future__ import annotations

from pathlib import Path

from reticent.core.errors import ReticentError
from reticent.core.plain_numbers import plain_number
from reticent.report.facts.facts import Bars, Section
from reticent.runs.predict import Predictor
from reticent.runs.record import RunRecord
from reticent.runs.weights import HOW_TO_READ, LARGEST, Weight, labelled_weights, show_effect

_LONGEST_NAME = 34  # characters


def weight_sections(folder: Path, record: RunRecord) -> list[Section]:
    """A section about the weights of a linear model on a table; none for other models."""
    if record.is_generator or record.result.model.name != "linear":
        return []
    try:
        found = labelled_weights(Predictor(folder))
    except ReticentError:  # the model is missing or has no names: the rest of the report does not need it
        return []
    shown = found.weights[:LARGEST]
    count = f"The {LARGEST} largest of {len(found.weights):,}." if len(found.weights) > LARGEST else ""
    several = len({weight.output for weight in found.weights}) > 1
    noise = (
        "Plus or minus is the standard deviation of the noise that was added for privacy."
        if shown[0].deviation is not None
        else "How much of an effect is noise is not known for this method."
    )
    return [
        Section(
            id="weights",
            title="What the model looks at",
            text=(
                f"Effects {found.unit}: {HOW_TO_READ}. {count}".rstrip(),
                f"{noise} They are part of the model, and may be published with it.",
            ),
            charts=(
                Bars(
                    id="effects",
                    title=f"The largest effects, {found.unit}",
                    description="; ".join(f"{each.feature}: {show_effect(each)}" for each in shown[:5]),
                    unit="size of the effect",
                    names=tuple(
                        _shorten(f"{each.feature} ({each.output})" if several else each.feature)
                        for each in shown
                    ),
                    amounts=tuple(abs(each.effect) for each in shown),
                    notes=tuple(_note(each) for each in shown),
                ),
            ),
        )
    ]


def _shorten(name: str) -> str:
    """A name that fits beside a bar."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _note(weight: Weight) -> str:
    noise = "" if weight.deviation is None else f" ± {plain_number(weight.deviation, digits=2)}"
    return f"{show_effect(weight)}{noise}"
