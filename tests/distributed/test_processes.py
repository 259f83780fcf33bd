"""Processes that train together: the model of one process, paid for once, or an error on every one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import joined_processes as joined
import numpy as np
import pytest
from safetensors.numpy import load

LIMIT = 300  # seconds, for processes that do many things one after the other; a hang is no faster

Arrays = dict[str, np.ndarray]


class Library:
    """What came out of `library_runs.py`, by case: in one process with two devices, and in each of two."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        address = joined.free_address()
        alone = joined.begun("library_runs.py", address, 1, 0, 2, folder)
        (self.alone_ended,) = joined.ended([alone], within=LIMIT)
        address = joined.free_address()
        both = [joined.begun("library_runs.py", address, 2, process, 1, folder) for process in (0, 1)]
        self.ended = joined.ended(both, within=LIMIT)
        self.alone = self._read("0 of 1")
        self.both = [self._read(f"{process} of 2") for process in (0, 1)]

    def _read(self, name: str) -> Mapping[str, Arrays]:
        cases: dict[str, Arrays] = {}
        with np.load(self.folder / f"{name}.npz") as arrays:
            for key in arrays:
                case, _, rest = key.partition(": ")
                cases.setdefault(case, {})[rest] = arrays[key]
        return cases


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("case", ["plain", "divided_for_users"])
@pytest.mark.thorough
def test_two_processes_are_one_with_two_devices_to_the_last_bit(library: Library, case: str) -> None:
    for process in library.both:
        for name in ("w", "b"):
            assert np.array_equal(process[case][name], library.alone[case][name])


@pytest.mark.thorough
def test_all_say_what_one_process_says_and_one_pays(library: Library) -> None:
    alone, *both = (process["plain"] for process in (library.alone, *library.both))
    for said in both:
        assert said["epsilon"] == alone["epsilon"]
        assert said["held out"] == pytest.approx(alone["held out"], abs=1e-6)
    assert [int(said["charges"]) for said in (alone, *both)] == [1, 1, 0]


@pytest.mark.thorough
def test_shards_may_be_of_different_sizes(library: Library) -> None:
    for process in library.both:
        for name in ("w", "b"):
            found, alone = process["with_uneven_shards"][name], library.alone["plain"][name]
            assert np.allclose(found, alone, rtol=0, atol=2e-6)


@pytest.mark.thorough
def test_divided_parameters_lie_in_both(library: Library) -> None:
    assert [process["divided_for_users"]["parts"].tolist() for process in library.both] == [[4], [4]]
    assert library.alone["divided_for_users"]["parts"].tolist() == [4, 4]
    left = [(library.folder / f"{processes}.divided").read_bytes() for processes in (1, 2)]
    one, two = (load(content.partition(b"\n")[2]) for content in left)
    assert {name: leaf.tobytes() for name, leaf in one.items()} == {
        name: leaf.tobytes() for name, leaf in two.items()
    }


@pytest.mark.thorough
def test_rows_of_all_stay_on_disk_if_those_of_one_do(library: Library) -> None:
    for process in library.both:
        for name in ("w", "b"):
            found = process["rows_on_disk_in_one_process"][name]
            assert np.array_equal(found, process["with_uneven_shards"][name])


@pytest.mark.thorough
def test_a_secret_that_crossed_the_network_is_an_assumption(library: Library) -> None:
    first, second = (process["with_a_secret_of_their_own"] for process in library.both)
    assert np.array_equal(first["w"], second["w"])
    assert not np.allclose(first["w"], library.alone["plain"]["w"], atol=1e-3)
    for said in (first, second):
        assert any(
            "the network between the processes of this run is private" in line for line in said["assumptions"]
        )


@pytest.mark.thorough
def test_two_processes_go_on_with_what_one_left(library: Library) -> None:
    assert 0 < library.alone["gone_on_with"]["left at"] < 20
    for process in library.both:
        found = process["gone_on_with"]
        assert found["is complete"]
        assert np.array_equal(found["w"], library.alone["plain"]["w"])


@pytest.mark.thorough
def test_one_process_goes_on_with_what_two_left(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["library_runs.py", "", "1", "0", "1", str(library.folder)])
    import library_runs

    monkeypatch.setattr(library_runs.feeding, "places_for", library_runs.as_they_come)
    left = library_runs.Checkpoints(path=library.folder / library_runs.LEFT_BY[2], stamp="s")
    steps: list[int] = []
    done = library_runs.run(checkpoints=left, on_progress=lambda moment: steps.append(moment.step))
    assert len(steps) < len(range(4, 21, 4))  # the epochs of a whole run
    assert np.allclose(done.params["w"], library.alone["plain"]["w"], rtol=0, atol=2e-6)


REFUSED = {
    "a user in both": "DataError: Process 1 has rows of a user whom an earlier process has too.",
    "users of another kind": "DataError: Process 1 names users by float64, and process 0 by whole numbers",
    "users of several kinds": "Users are named in several ways",
    "no user for a row": "Row 18 belongs to no user.",
    "other names": "Process 1 has a different kind of rows from process 0: y: int32[], z: float32[8]",
    "other kinds": "Process 1 has a different kind of rows from process 0: x: float64[8]",
    "other shapes": "Process 1 has a different kind of rows from process 0: x: float32[7]",
    "other keys": "The processes were given different keys.",
    "keys in one": "The processes were given different keys.",
    "another plan": "Process 1 has a different plan from process 0",
    "another model": "Process 1 has a different model from process 0",
    "evaluation in one": "Process 1 has a different kind of rows to evaluate on from process 0: None",
    "checkpoints in one": "Process 1 has a different opinion on checkpoints from process 0",
    "division in one": "Process 1 has a different divide_params from process 0",
    "a bad row to evaluate on": "The rows to evaluate on share their array 'x' with the training data.",
    "a mesh without the other": "The mesh has no device of process 1",
    "a small batch": "A mesh of 2 devices is too large for batches of 1",
    "too many rows": "The plan was made for 37 examples and the data have 111.",
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.thorough
def test_what_does_not_fit_together_is_refused_by_every_process(library: Library, case: str) -> None:
    for process in library.both:
        assert REFUSED[case] in str(process["refused"][case])


@pytest.mark.thorough
def test_every_case_of_refusal_is_looked_at(library: Library) -> None:
    assert set(library.both[0]["refused"]) == set(REFUSED)


@pytest.mark.thorough
def test_an_error_that_nobody_expected_ends_the_others_in_words(library: Library) -> None:
    """The last case: process 1 raises in the middle of a run."""
    assert library.alone_ended.code == 0
    assert [process.code for process in library.ended] == [1, 1]
    assert "Planted: planted" in library.ended[1].errors
    with np.load(library.folder / "left alone.npz") as found:
        said = str(found["said"])
    assert "Process 0 lost another process of this run" in said
    assert "Start all processes again" in said
