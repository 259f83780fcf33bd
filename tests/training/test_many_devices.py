"""A run on several devices is the run of one: the same batches, parameters and guarantee, and noise once.

A process with eight devices runs small cases on one, two and all of them, and writes what came out. A quick
look takes the cases about noise, on one device and on two.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtr, chdtrc

MANY = (2, 8)
DRIVER = Path(__file__).with_name("device_runs.py")

NOISE = 3.0 * 0.5 / 12  # the noise multiplier times the norm, over the expected batch
FALSE_ALARM = 1e-6  # that noise as it should be is taken for something else
GRADIENT = 4 * (8 * 4 + 4 * 3 + 1)  # bytes
SCALARS = 4 * 4  # a loss and three counts

Arrays = dict[str, np.ndarray]
Found = Mapping[int, Mapping[str, Arrays]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What came out, by devices, case and name."""
    return run_cases(tmp_path_factory.mktemp("devices"))


@pytest.fixture(scope="module")
def noises(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What came out of the cases about noise, on one device and on two."""
    names = "noise", "noise_that_every_device_adds", "correlated_noise", "who_is_in_allocated_batches"
    return run_cases(tmp_path_factory.mktemp("noises"), *names, "noise_of_one_name")


def run_cases(folder: Path, *names: str) -> Found:
    command = [sys.executable, str(DRIVER), str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[int, dict[str, Arrays]] = {devices: {} for devices in (1, *MANY)}
    with np.load(folder / "found.npz") as arrays:
        for name in arrays:
            devices, case, key = name.split(": ", 2)
            found[int(devices)].setdefault(case, {})[key] = arrays[name]
    return found


def are_close(ours: Arrays, theirs: Arrays) -> bool:
    """Equal but for the order in which a few dozen float32 are added, and the margin that pays for it."""
    return all(np.allclose(ours[name], theirs[name], rtol=0, atol=5e-6) for name in theirs)


CASES = (
    "divided_params",
    "shuffled_batches_in_blocks_clipped_by_layers",
    "views_of_users_a_norm_that_adapts_projection_and_the_mean",
)
NOT_NUMBERS = ("guarantee", "exchanged")


def numbers_of(case: Arrays) -> Arrays:
    """Parameters, and scores where there are any."""
    return {name: array for name, array in case.items() if name not in NOT_NUMBERS and "parts" not in name}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.thorough
def test_parameters_and_scores_are_those_of_one_device(found: Found, case: str) -> None:
    many = [devices for devices in MANY if case in found[devices]]
    assert many
    for devices in many:
        ours, alone = found[devices][case], numbers_of(found[1][case])
        assert any(array.std() > 0.05 for array in alone.values())
        assert are_close(ours, alone), devices


@pytest.mark.thorough
def test_a_mesh_may_have_two_axes_and_some_of_the_devices(found: Found) -> None:
    ours = found[8]["a_mesh_of_some_devices_with_two_axes"]
    assert are_close(ours, numbers_of(found[1]["divided_params"]))


@pytest.mark.thorough
def test_eight_devices_go_on_with_what_two_left(found: Found) -> None:
    gone_on_with = found[8]["stopped_on_two_and_ended_on_eight"]
    first, last = gone_on_with["steps"]
    assert 0 < first < last == 12
    alone = found[1]["divided_params"]
    assert are_close(gone_on_with, {name: alone[name] for name in ("first", "second", "bias")})


@pytest.mark.thorough
def test_other_rows_would_be_noticed(found: Found) -> None:
    """The comparison above tells runs apart that differ in one row or one draw."""
    alone, other = (found[1][case] for case in CASES[:2])
    assert not are_close(other, {"first": alone["first"]})


@pytest.mark.thorough
def test_the_guarantee_is_that_of_one_device(found: Found) -> None:
    said = {str(found[devices]["divided_params"]["guarantee"]) for devices in (1, *MANY)}
    said.add(str(found[8]["a_mesh_of_some_devices_with_two_axes"]["guarantee"]))
    assert len(said) == 1
    assert 0 < json.loads(said.pop())["epsilon"] < 100


@pytest.mark.thorough
def test_the_same_rows_are_in_every_batch(found: Found) -> None:
    """Noise is a fiftieth of a row here: 25 deviations lie between half a row and none."""
    sets = {name: np.rint(who) for name, who in found[8]["who_is_in_each_batch"].items()}
    for who in sets.values():
        assert set(np.unique(who)) <= {0, 1}
    assert (sets["FixedSize"].sum(axis=1) == 9).all()
    assert (sets["FullBatch"] == 1).all()
    assert np.array_equal(sets["FixedSize"], np.rint(found[1]["who_is_in_each_batch"]["FixedSize"]))


@pytest.mark.thorough
def test_divided_parameters_and_their_moments_lie_in_parts(found: Found) -> None:
    for devices in MANY:
        parts = found[devices]["divided_params"]
        for name in ("first", "moment"):
            assert parts[f"parts of {name}"].tolist() == [8 // devices] * devices
        assert parts["parts of second"].tolist() == [4 if devices == 8 else 4 // devices] * devices
        assert parts["parts of bias"].tolist() == [1] * devices


def is_noise(values: np.ndarray, deviation: float) -> bool:
    """Whether the sum of squares is that of Gaussian noise: FALSE_ALARM on either side."""
    total = float(np.sum((values.astype(np.float64) / deviation) ** 2))
    return min(chdtr(values.size, total), chdtrc(values.size, total)) > FALSE_ALARM / 2


NOISY = ((1, "noise"), (2, "noise"), (8, "noise_on_divided_params"))


def test_noise_is_added_once_on_two_devices(noises: Found) -> None:
    for devices in (1, 2):
        assert is_noise(noises[devices]["noise"]["w"], NOISE), devices
    assert np.array_equal(noises[2]["noise"]["w"], noises[1]["noise"]["w"])


def test_models_of_one_name_and_other_sizes_do_not_share_places_of_noise(noises: Found) -> None:
    drawn = noises[2]["noise_of_one_name"]
    assert len(drawn["100"]) == 100
    assert not np.intersect1d(drawn["100"], drawn["beside"]).size


def test_correlated_noise_is_that_of_one_device(noises: Found) -> None:
    """Also where each device keeps its part of what is taken back."""
    alone = noises[1]["correlated_noise"]
    assert any(array.std() > 0.05 for array in alone.values())
    assert are_close(noises[2]["correlated_noise"], alone)


def test_allocated_batches_of_two_devices_have_every_record_once_per_round(noises: Found) -> None:
    """Noise is a fiftieth of a row here, as above."""
    two, alone = (np.rint(noises[devices]["who_is_in_allocated_batches"]["who"]) for devices in (2, 1))
    assert two.shape == (12, 37)
    assert (two.reshape(3, 4, 37).sum(axis=1) == 1).all()
    assert np.array_equal(two, alone)
    assert not np.array_equal(two[:4], two[4:8])


@pytest.mark.thorough
def test_noise_is_added_once_however_many_devices_there_are(found: Found) -> None:
    for devices, case in NOISY:
        assert is_noise(found[devices][case]["w"], NOISE), (case, devices)


@pytest.mark.parametrize("kind", ["the same", "of its own"])
def test_noise_that_every_device_adds_is_noticed(noises: Found, kind: str) -> None:
    """Planted, on two devices: half a million numbers are as strict as four thousand, and these do."""
    assert not is_noise(noises[2]["noise_that_every_device_adds"][kind], NOISE)
    assert not is_noise(noises[1]["noise"]["w"][:4096] * 1.06, NOISE)


@pytest.mark.thorough
def test_noise_is_that_of_one_device_to_the_last_bit(found: Found) -> None:
    alone = found[1]["noise"]["w"]
    for devices, case in NOISY[1:]:
        assert np.array_equal(found[devices][case]["w"], alone), (devices, case)


@pytest.mark.thorough
def test_no_part_repeats_the_noise_of_another(found: Found) -> None:
    """Correlations of 65,536 numbers: beyond five deviations once in 60,000 such tests."""
    parts = found[8]["noise_on_divided_params"]["w"].reshape(8, -1) / NOISE
    between = (parts @ parts.T / parts.shape[1])[~np.eye(8, dtype=bool)]
    assert np.abs(between).max() < 5 / np.sqrt(parts.shape[1])


@pytest.mark.thorough
def test_no_device_draws_the_noise_of_all_parameters(found: Found) -> None:
    """Numbers come in stretches of 131,072: those of its part, and one that it begins in the middle of."""
    stretch = 2 * 131_072  # words: two for each number
    (words,) = found[8]["noise_on_divided_params"]["words"]
    assert words <= -(-(1 << 20) // 8 // stretch) * stretch + stretch < 1 << 20


@pytest.mark.thorough
def test_a_step_exchanges_one_gradient(found: Found) -> None:
    """Or, where parameters are divided, one gradient and one set of parameters."""
    whole, divided = (
        json.loads(str(found[2][case]["exchanged"]))
        for case in ("shuffled_batches_in_blocks_clipped_by_layers", "divided_params")
    )
    assert {kind for kind, _ in whole} == {"all-reduce"}
    assert sum(size for _, size in whole) == GRADIENT + SCALARS
    gathered = sum(size for kind, size in divided if kind == "all-gather")
    assert gathered == GRADIENT - 4  # all but the leaf that has one number
    assert sum(size for _, size in divided) - gathered == GRADIENT + SCALARS


@pytest.mark.thorough
def test_what_cannot_be_shared_is_refused(found: Found) -> None:
    said = {name: str(words) for name, words in found[8]["refused"].items()}
    assert "A mesh of 8 devices is too large for batches of 7" in said["too many devices"]
    assert "Take at most 7 devices" in said["too many devices"]
    assert "This optimizer looks at several parameters at once" in said["looks at all"]
    assert "A projection looks at all parameters at once" in said["projection"]
