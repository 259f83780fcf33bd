"""Every record in one shard, by a coin of its own."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.pate.partition import Shards, partition, shard_capacity

# Many records are equal: 200 of 12 kinds.
CONTENT = (
    np.random.default_rng(1).integers(3, size=(200, 1)).astype(np.float32),
    np.random.default_rng(2).integers(4, size=200),
)


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


def records_of(shards: Shards, content: tuple[np.ndarray, ...]) -> list[bytes]:
    """What each teacher sees, to the last bit."""
    return [
        b"".join(array[teacher].tobytes() for array in map(shards.gather, content))
        + bytes(shards.is_real[teacher])
        for teacher in range(shards.teachers)
    ]


def differing(one: list[bytes], other: list[bytes]) -> int:
    return sum(mine != yours for mine, yours in zip(one, other, strict=True))


@pytest.mark.parametrize("examples", [150, 200, 231])
def test_whichever_record_is_removed_one_teacher_sees_another_shard(examples: int) -> None:
    """With the same, known coins: records before and behind it, and its copies, stay where they are."""
    whole = records_of(partition(200, 7, examples=examples, seed=0, content=CONTENT), CONTENT)
    for removed in range(200):
        fewer = tuple(np.delete(array, removed, axis=0) for array in CONTENT)
        shards = partition(199, 7, examples=examples, seed=0, content=fewer)
        assert differing(whole, records_of(shards, fewer)) <= 1


def test_the_order_of_records_is_nothing_to_their_teachers() -> None:
    turned = tuple(array[::-1] for array in CONTENT)
    one, other = (partition(200, 7, seed=0, content=content) for content in (CONTENT, turned))
    assert records_of(one, CONTENT) == records_of(other, turned)


def test_coins_by_content_are_even_and_follow_the_seed() -> None:
    """Of 200 records on 7 shards; chi squared of 6 degrees is beyond 33 once in 100,000."""
    found = [partition(200, 7, seed=seed, content=CONTENT) for seed in range(20)]
    assert max(np.square(shards.sizes - 200 / 7).sum() / (200 / 7) for shards in found) < 33
    assert len({tuple(shards.sizes) for shards in found}) > 10


def test_a_record_that_is_replaced_keeps_its_shard_where_coins_go_by_place() -> None:
    shards = partition(200, 7, seed=0)
    changed = (CONTENT[0].copy(), CONTENT[1])
    changed[0][17] = 9
    assert differing(records_of(shards, CONTENT), records_of(shards, changed)) == 1


def test_a_user_that_is_removed_moves_no_other() -> None:
    users = np.random.default_rng(0).integers(60, size=600)
    whole = partition(600, 5, seed=0, users=users)
    for user in range(60):
        rest = users != user
        fewer = partition(int(rest.sum()), 5, examples=600, seed=0, users=users[rest])
        assert (fewer.shard_of == whole.shard_of[rest]).all()
        assert fewer.capacity == whole.capacity


def test_room_follows_from_the_declared_number_alone() -> None:
    found = {partition(rows, 8, examples=232, seed=0).capacity for rows in (0, 1, 100, 231, 232, 233, 5000)}
    assert found == {shard_capacity(232, 8)}


def test_whoever_finds_no_room_is_left_out_of_the_own_shard_alone() -> None:
    shards = partition(5000, 5, examples=100, seed=0)
    assert shards.is_real.all()
    for number, own in enumerate(shards):
        assert (shards.shard_of[own] == number).all()


def test_padding_is_zeros_of_nobody() -> None:
    shards = partition(50, 20, seed=0)
    found = shards.gather(np.full((50, 3), np.nan))
    assert found.shape == (20, shards.capacity, 3)
    assert np.isnan(found[shards.is_real]).all()
    assert (found[~shards.is_real] == 0).all()
    assert (shards.indices[~shards.is_real] == 50).all()  # no record has this number


def test_a_shard_may_be_empty() -> None:
    shards = partition(100, 99, seed=0)
    assert (shards.sizes == 0).any()
    assert sum(len(own) for own in shards) == 100


@pytest.mark.parametrize(
    ("rows", "teachers", "more", "message"),
    [
        (10, 11, {}, "11 teachers cannot share 10 records"),
        (20, 11, {"examples": 10}, "11 teachers cannot share 10 records"),
        (10, 1, {}, "teachers must be a whole number of at least 2"),
        (10, 2, {"users": [0, 1]}, "10 records, and users of shape"),
        (10, 2, {"content": (np.zeros(9),)}, r"10 records, and content\[0\] of shape"),
        (2, 2, {"content": (np.array(["a", None], object),)}, "type object"),
    ],
)
def test_what_cannot_be_divided_is_refused(rows, teachers, more, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        partition(rows, teachers, seed=0, **more)
