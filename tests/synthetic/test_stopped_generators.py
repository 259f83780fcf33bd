"""A generator whose making was stopped: it goes on, is drawn once, and is charged once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reticent.core.errors import DataError, Inconclusive, IntegrityError, Interrupted
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Category, Domain, Label
from reticent.ledger.ledger import Ledger
from reticent.runs import folder as folders
from reticent.runs import lifecycle, public_domain
from reticent.runs.origin import ORIGIN
from reticent.runs.private_part import FINGERPRINT, PRIVATE
from reticent.synthetic import pipeline
from reticent.synthetic.generators import Generator
from reticent.synthetic.images import adversary, embedding, gan, image_model
from reticent.synthetic.pipeline import GENERATOR, make, resume
from reticent.synthetic.request import SynthRequest
from reticent.synthetic.tables import table_model
from reticent.training.devices import feeding

STEPS = 20
SEED = Keys.seeded(0).assumptions
MARK = f"{PRIVATE}/{ORIGIN}"  # whose run it is
ROWS = f"{PRIVATE}/{FINGERPRINT}"  # and of which rows
SMALL: dict[str, Any] = {"kept": 4, "hidden": (8,), "generator_hidden": (8,)}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gan, "plan", partial(gan.plan, steps=STEPS, **SMALL))
    monkeypatch.setattr(adversary, "_FAKES", 32)
    monkeypatch.setattr(feeding, "_most_steps", lambda plan, at_once: 5)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as found:
        found.limit("data", epsilon=9.0, delta=1e-3)
    return path


@pytest.fixture
def order(request: pytest.FixtureRequest, tmp_path: Path, ledger: Path) -> SynthRequest:
    """Of the method that a test asks for."""
    method = request.param
    if method in ("gan", "embedding"):
        return SynthRequest(source="digits", epsilon=5.0, method=method, ledger=str(ledger), dataset="data")
    lines = [f"{'yes' if row % 3 else 'no'},{'well' if row % 5 else 'ill'}" for row in range(1000)]
    (tmp_path / "t.csv").write_text("\n".join(["smoker,state", *lines]) + "\n")
    Domain(
        columns={"smoker": Category(values=("no", "yes")), "state": Label(values=("ill", "well"))},
        target="state",
    ).write(tmp_path / "t.toml")
    return SynthRequest(
        source=str(tmp_path / "t.csv"),
        domain=str(tmp_path / "t.toml"),
        epsilon=5.0,
        method=method,
        ledger=str(ledger),
        dataset="data",
    )


def of(*methods: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("order", methods, indirect=True)


def stopping(after: float, said: list[str] | None = None) -> Observer:
    """Presses Ctrl-C once that part of the fit is done."""

    @contextmanager
    def watch(what: str) -> Iterator[Callable[[float], None]]:
        def tell(done: float) -> None:
            if what != "encoding" and done >= after:
                raise KeyboardInterrupt

        yield tell

    return Observer(watch=watch, warn=(said if said is not None else []).append)


def killed_after(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies once the file of that name is on the disk."""
    for module in (image_model, folders):
        write = module.write_whole

        def dying(path: Path, content: bytes, write: Any = write) -> None:
            write(path, content)
            if path.name == name:
                raise SystemExit("killed")

        monkeypatch.setattr(module, "write_whole", dying)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def released(folder: Path) -> bytes:
    """What tells of the records: the model's file."""
    path = folder / image_model.TENSORS
    return (path if path.exists() else folder / GENERATOR).read_bytes()


def require_finished_and_charged_once(folder: Path, ledger: Path) -> Generator:
    found = Generator(folder)  # checks every file
    assert found.record.state == "finished"
    assert not (folder / folders.CHECKPOINT).exists()
    with Ledger.open(ledger) as opened:
        assert opened.account("data").charges == 1
    return found


def leave_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts what a killed process may leave into a folder; a fit that begins while it is there fails."""
    halves = [folder / ".generator.model.17.partial", folder / f".{image_model.TENSORS}.partial"]
    for half in halves:
        half.write_bytes(b"noisy counts that nobody paid for a second time")
    kept = pipeline._keep_training_rows

    def looking(*given: Any) -> Any:  # the last thing before a fit
        assert not any(half.exists() for half in halves)
        return kept(*given)

    monkeypatch.setattr(pipeline, "_keep_training_rows", looking)


@of("gan")
def test_a_gan_that_was_interrupted_takes_the_steps_that_are_left(
    order: SynthRequest, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "g"
    with pytest.raises(Interrupted, match=rf"Interrupted after 5 of {STEPS} steps") as error:
        make(order, folder, keys=Keys.seeded(0), observer=stopping(0.01))
    assert f"reticent synth --resume {folder}" in error.value.remedy
    assert "not charged again" in error.value.remedy
    record = json.loads((folder / folders.RUN).read_text())
    assert record["state"] == "paid"
    assert files_of(folder) == {folders.RUN, folders.CHECKPOINT, MARK, ROWS}
    with pytest.raises(DataError, match="no finished generator"):
        Generator(folder)
    steps: list[int] = []
    train = gan.train

    def watching(*args: Any, **named: Any) -> Any:
        run = train(*args, **named)
        steps.append(int(run.state.step))
        return run

    monkeypatch.setattr(gan, "train", watching)
    leave_half_written(folder, monkeypatch)
    resume(folder)
    assert not list(folder.glob(".*"))
    assert steps == [STEPS]
    found = require_finished_and_charged_once(folder, ledger)
    # Whoever went on had other keys; the class counts and the first steps came from the seed.
    assert set(SEED) <= set(found.images.guarantee.assumptions)
    assert set(SEED) <= set(found.record.result.guarantee.assumptions)
    assert found.images.guarantee.epsilon == pytest.approx(found.record.result.guarantee.epsilon, rel=1e-6)


@of("embedding", "mst", "aim")
@pytest.mark.parametrize("after", [0.01, 1.0])
def test_other_fits_leave_nothing_behind_when_they_are_interrupted(
    order: SynthRequest, tmp_path: Path, ledger: Path, after: float
) -> None:
    folder, said = tmp_path / "g", []
    with pytest.raises(KeyboardInterrupt):
        make(order, folder, keys=Keys.seeded(0), observer=stopping(after, said))
    assert f"reticent synth --resume {folder}" in said[-1]
    assert "not charged again" in said[-1]
    assert json.loads((folder / folders.RUN).read_text())["state"] == "paid"
    assert files_of(folder) <= {folders.RUN, folders.DOMAIN, MARK, ROWS}
    resume(folder)
    require_finished_and_charged_once(folder, ledger)


@pytest.mark.parametrize(
    ("order", "last"),
    [("gan", image_model.TENSORS), ("embedding", image_model.TENSORS), ("embedding", image_model.RECORD)],
    indirect=["order"],
)
def test_tensors_that_are_out_are_not_drawn_again(
    order: SynthRequest, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    folder = tmp_path / "g"
    with monkeypatch.context() as patch:
        killed_after(last, patch)
        with pytest.raises(SystemExit):
            make(order, folder, keys=Keys.seeded(0))
    before = released(folder)
    for module in (gan, embedding):
        monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("noise was drawn again"))
    resume(folder)
    assert released(folder) == before
    found = require_finished_and_charged_once(folder, ledger)
    assert set(SEED) <= set(found.images.guarantee.assumptions)  # what they were drawn with


@of("mst")
def test_a_table_model_that_is_out_is_not_drawn_again(
    order: SynthRequest, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "g"
    save = table_model.TableModel.save

    def dying(self: table_model.TableModel, path: Path) -> None:
        save(self, path)
        raise SystemExit("killed")

    with monkeypatch.context() as patch:
        patch.setattr(table_model.TableModel, "save", dying)
        with pytest.raises(SystemExit):
            make(order, folder, keys=Keys.seeded(0))
    before = released(folder)
    monkeypatch.setattr(table_model, "fit", lambda *_, **__: pytest.fail("noise was drawn again"))
    resume(folder)
    assert released(folder) == before
    require_finished_and_charged_once(folder, ledger)


@of("embedding", "mst")
def test_what_a_killed_process_had_half_written_is_gone_before_anything_is_drawn(
    order: SynthRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the test of a GAN above."""
    folder = tmp_path / "g"
    with pytest.raises((KeyboardInterrupt, DataError)):
        make(order, folder, keys=Keys.seeded(0), observer=stopping(0.01))
    leave_half_written(folder, monkeypatch)
    assert resume(folder).record.state == "finished"
    assert not list(folder.glob(".*"))


@of("embedding", "mst")
def test_a_release_that_was_lost_or_damaged_is_refused_not_drawn_again(
    order: SynthRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "g"

    def dying(*_: Any) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "_promise", dying)  # once the generator is on the disk
        with pytest.raises(SystemExit):
            make(order, folder, keys=Keys.seeded(0))
    for module in (embedding, table_model):
        monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("noise was drawn again"))
    goal = folder / (image_model.TENSORS if order.method == "embedding" else GENERATOR)
    content = goal.read_bytes()
    goal.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if order.method == "embedding" else b"")
    with pytest.raises(IntegrityError):
        resume(folder)
    if order.method == "embedding":
        goal.unlink()
        with pytest.raises(IntegrityError, match="missing"):
            resume(folder)


@of("mst")
def test_a_run_that_failed_for_good_is_not_said_to_go_on(
    order: SynthRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def useless(*_: Any, **__: Any) -> None:
        raise Inconclusive("What was found cannot be used.", remedy="Start anew.")

    monkeypatch.setattr(public_domain, "prepare", useless)
    with pytest.raises(Inconclusive) as error:
        make(replace(order, domain=None), tmp_path / "g")
    assert "--resume" not in error.value.remedy
    assert "stays spent" in error.value.remedy
