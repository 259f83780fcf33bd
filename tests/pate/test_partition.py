"""Every record in one shard, by a coin of its own."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.pate.partition import Shards, partition


def test_every_record_is_in_exactly_one_shard() -> None:
    shards = partition(500, 7, seed=0)
    rows = shards.indices[shards.is_real]
    assert sorted(rows) == list(range(500))
    assert shards.indices.shape == shards.is_real.shape == (7, shards.capacity)
    for number, own in enumerate(shards):
        assert (shards.shard_of[own] == number).all()


def test_sizes_are_those_of_independent_coins() -> None:
    """A balanced division would have no spread at all; 1,000 coins on 10 shards have deviation 9.5 each."""
    sizes = np.concatenate([partition(1000, 10, seed=seed).sizes for seed in range(30)])
    assert sizes.mean() == 100
    assert 7.5 < sizes.std() < 11.5  # five deviations of the estimate each way


def test_another_record_at_the_end_moves_nobody() -> None:
    fewer, more = partition(400, 5, seed=3), partition(401, 5, seed=3)
    assert (fewer.shard_of == more.shard_of[:400]).all()


def test_a_seed_decides_and_another_decides_otherwise() -> None:
    assert (partition(100, 4, seed=1).shard_of == partition(100, 4, seed=1).shard_of).all()
    assert (partition(100, 4, seed=1).shard_of != partition(100, 4, seed=2).shard_of).any()


def test_records_of_a_user_stay_together() -> None:
    users = np.random.default_rng(0).integers(60, size=600)
    shards = partition(600, 5, seed=0, users=users)
    for user in range(60):
        assert len(set(shards.shard_of[users == user])) == 1
    assert (shards.sizes > 0).all()


def test_coins_are_not_those_of_data_drawn_with_the_same_seed() -> None:
    labels = np.random.default_rng(0).integers(5, size=1000)
    assert (partition(1000, 5, seed=0).shard_of == labels).mean() < 0.3


def test_the_room_of_a_shard_does_not_depend_on_the_coins() -> None:
    assert len({partition(1000, 10, seed=seed).capacity for seed in range(20)}) == 1


@pytest.mark.parametrize(
    ("rows", "teachers", "users", "message"),
    [
        (10, 11, None, "11 teachers cannot share 10 records"),
        (10, 4, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0], "4 teachers cannot share 3 users"),
        (10, 1, None, "teachers must be a whole number of at least 2"),
        (10, 2, [0, 1], "10 records, and users of shape"),
    ],
)
def test_what_cannot_be_divided_is_refused(rows, teachers, users, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        partition(rows, teachers, seed=0, users=users)


def test_an_empty_shard_is_named_with_what_to_do() -> None:
    with pytest.raises(DataError, match=r"is empty.*fewer teachers"):
        partition(100, 99, seed=0)


def test_a_shard_of_one_class_is_named() -> None:
    shards = Shards(shard_of=np.array([0, 0, 1, 1, 1]), teachers=2, capacity=4)
    shards.require_classes([0, 1, 1, 0, 1])
    with pytest.raises(DataError, match=r"Shard 1 of 2 has 3 records, all of one class\. Ask for fewer"):
        shards.require_classes([0, 1, 1, 1, 1])
    with pytest.raises(DataError, match="labels of shape"):
        shards.require_classes([0, 1])
