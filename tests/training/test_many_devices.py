"""A run on several devices is the run of one: the same batches, parameters and guarantee, and noise once.

Each number of devices has a process of its own, which runs small cases and writes what came out.
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

MANY = (2, 4, 8)
DRIVER = Path(__file__).with_name("device_runs.py")

NOISE = 3.0 * 0.5 / 12  # the noise multiplier times the norm, over the expected batch
FALSE_ALARM = 1e-6  # that noise as it should be is taken for something else
GRADIENT = 4 * (8 * 4 + 4 * 3 + 1)  # bytes
SCALARS = 4 * 3  # a loss and two counts

Arrays = dict[str, np.ndarray]
Found = Mapping[int, Mapping[str, Arrays]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What came out, by devices, case and name. Each process goes on with a run that the last one stopped."""
    folder, before, found = tmp_path_factory.mktemp("devices"), "none", {}
    for devices in (1, *MANY):
        command = [sys.executable, str(DRIVER), str(devices), str(folder), before]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        left = f"checkpoint of {devices}"
        before = left if (folder / left).exists() else before
        cases: dict[str, Arrays] = {}
        with np.load(folder / f"{devices}.npz") as arrays:
            for name in arrays:
                case, _, key = name.partition(": ")
                cases.setdefault(case, {})[key] = arrays[name]
        found[devices] = cases
    return found


def are_close(ours: Arrays, theirs: Arrays) -> bool:
    """Equal but for the order in which a few dozen float32 are added, and the margin that pays for it."""
    return all(np.allclose(ours[name], theirs[name], rtol=0, atol=5e-6) for name in theirs)


CASES = (
    "a_plain_run_and_what_it_says",
    "fixed_batches_in_blocks",
    "users_with_several_views_of_their_rows",
    "a_norm_that_adapts_projection_and_the_mean",
    "clipping_by_layers",
    "divided_params",
    "stopped_here_and_gone_on_with_elsewhere",
)


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_those_of_one_device(found: Found, case: str) -> None:
    numbers = [devices for devices in MANY if case in found[devices]]
    assert numbers
    for devices in numbers:
        ours, alone = found[devices][case], found[1][case]
        compared = {
            name: array for name, array in alone.items() if name != "guarantee" and "parts" not in name
        }
        assert any(array.std() > 0.05 for array in compared.values())
        assert are_close(ours, compared), devices


def test_a_mesh_may_have_two_axes_or_some_of_the_devices(found: Found) -> None:
    alone = {name: found[1]["divided_params"][name] for name in ("first", "second", "bias")}
    assert are_close(found[4]["a_mesh_with_two_axes"], alone)
    assert are_close(found[8]["a_mesh_of_some_devices"], alone)


def test_other_rows_would_be_noticed(found: Found) -> None:
    """The comparison above tells runs apart that differ in one row or one draw."""
    alone, other = (found[1][case] for case in ("divided_params", "fixed_batches_in_blocks"))
    assert not are_close(other, {"first": alone["first"]})


def test_the_guarantee_is_that_of_one_device(found: Found) -> None:
    said = {str(found[devices]["a_plain_run_and_what_it_says"]["guarantee"]) for devices in (1, *MANY)}
    assert len(said) == 1
    assert 0 < json.loads(said.pop())["epsilon"] < 100


@pytest.mark.parametrize("sampler", ["Poisson", "FixedSize", "Shuffled", "FullBatch"])
def test_the_same_rows_are_in_every_batch(found: Found, sampler: str) -> None:
    """Noise is a fiftieth of a row here: 25 deviations lie between half a row and none."""
    sets = {devices: np.rint(found[devices]["who_is_in_each_batch"][sampler]) for devices in (1, *MANY)}
    assert set(np.unique(sets[1])) <= {0, 1}
    sizes = sets[1].sum(axis=1)
    assert {
        "Poisson": len(set(sizes)) > 1,
        "FixedSize": (sizes == 9).all(),
        "Shuffled": (sets[1][:4].sum(axis=0) == 1).all(),
        "FullBatch": (sizes == 37).all(),
    }[sampler]
    for devices in MANY:
        assert np.array_equal(sets[devices], sets[1]), devices


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


def test_noise_is_added_once_however_many_devices_there_are(found: Found) -> None:
    for case, numbers in (("noise", (1, 2)), ("noise_on_divided_params", MANY)):
        for devices in numbers:
            assert is_noise(found[devices][case]["w"], NOISE), (case, devices)


@pytest.mark.parametrize("kind", ["the same", "of its own"])
def test_noise_that_every_device_adds_is_noticed(found: Found, kind: str) -> None:
    """Planted, on two devices: half a million numbers are as strict as four thousand, and these do."""
    assert not is_noise(found[2]["noise_that_every_device_adds"][kind], NOISE)
    assert not is_noise(found[1]["noise"]["w"][:4096] * 1.06, NOISE)


def test_noise_is_that_of_one_device_to_the_last_bit(found: Found) -> None:
    alone = found[1]["noise"]["w"]
    for devices, case in ((2, "noise"), *((many, "noise_on_divided_params") for many in MANY)):
        assert np.array_equal(found[devices][case]["w"], alone), (devices, case)


def test_no_part_repeats_the_noise_of_another(found: Found) -> None:
    """Correlations of 65,536 numbers: beyond five deviations once in 60,000 such tests."""
    parts = found[8]["noise_on_divided_params"]["w"].reshape(8, -1) / NOISE
    between = (parts @ parts.T / parts.shape[1])[~np.eye(8, dtype=bool)]
    assert np.abs(between).max() < 5 / np.sqrt(parts.shape[1])


def test_no_device_draws_the_noise_of_all_parameters(found: Found) -> None:
    """Numbers come in stretches of 131,072: those of its part, and one that it begins in the middle of."""
    stretch = 2 * 131_072  # words: two for each number
    for devices in MANY:
        (words,) = found[devices]["noise_on_divided_params"]["words"]
        own = (1 << 20) // devices
        assert words <= -(-own // stretch) * stretch + stretch < 1 << 20


def test_a_step_exchanges_one_gradient(found: Found) -> None:
    """Or, where parameters are divided, one gradient and one set of parameters."""
    whole, divided = (
        json.loads(str(found[4]["bytes_that_devices_exchange"][name])) for name in ("kept whole", "divided")
    )
    assert {kind for kind, _ in whole} == {"all-reduce"}
    assert sum(size for _, size in whole) == GRADIENT + SCALARS
    gathered = sum(size for kind, size in divided if kind == "all-gather")
    assert gathered == GRADIENT - 4  # all but the leaf that has one number
    assert sum(size for _, size in divided) - gathered == GRADIENT + SCALARS


def test_what_cannot_be_shared_is_refused(found: Found) -> None:
    said = {name: str(words) for name, words in found[8]["refused"].items()}
    assert "A mesh of 8 devices is too large for batches of 7" in said["too many devices"]
    assert "Take at most 7 devices" in said["too many devices"]
    assert "This optimizer looks at several parameters at once" in said["looks at all"]
    assert "A projection looks at all parameters at once" in said["projection"]
