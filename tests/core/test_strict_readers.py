"""JSON and tensors of strangers: what comes back is plain, or a ValueError says why nothing does."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from reticent.core import strict_json, tensors
from reticent.core.errors import IntegrityError
from reticent.core.files import digest_of_file, misfits_as, read_inside, read_named, read_start_inside

REFUSED = {
    "nothing": ("", "not JSON"),
    "half of it": ('{"a": ', "not JSON"),
    "two values": ("1 2", "not JSON"),
    "no UTF-8": (b'"\xff"', "not UTF-8"),
    "NaN": ('{"a": NaN}', "JSON has no NaN"),
    "infinity": ("[-Infinity]", "JSON has no -Infinity"),
    "a number beyond floats": ("1e999", "too large"),
    "a whole number beyond 64 bits": (str(2**63), "too large"),
    "a whole number of many digits": ("9" * 5000, "too large"),
    "half of a character": (r'{"a": "\ud800"}', "half of a character"),
    "half of a character in a name": (r'[{"\udfff": 1}]', "half of a character"),
    "a name twice": ('{"epsilon": 1, "delta": 0, "epsilon": 9}', "'epsilon' is there twice"),
    "lists without number": ("[" + "[[]]," * 600_000 + "0]", "more than 1,048,576"),
    "names without number": ("{" + '"":0,' * 1_100_000 + '"":0}', "more than 1,048,576"),
    "many levels": ("[" * 101 + "]" * 101, "too deeply"),
    "levels without end": ("[" * 100_000, "too deeply"),
    "objects without end": ('{"a":' * 100_000, "too deeply"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_json_that_is_refused(name: str) -> None:
    content, says = REFUSED[name]
    with pytest.raises(ValueError, match=says) as raised:
        strict_json.parse(content)
    assert len(str(raised.value)) < 120


def test_a_name_twice_is_found_at_once_among_many() -> None:
    names = [*range(100_000), "z", "z"]
    content = "{" + ",".join(f'"{name}": 0' for name in names) + "}"
    begin = time.process_time()
    with pytest.raises(ValueError, match="'z' is there twice"):
        strict_json.parse(content)
    assert time.process_time() - begin < 5  # comparing each with each takes minutes


texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)


@given(value=values, is_ascii=st.booleans())
def test_json_that_can_be_written_is_read_as_it_was(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, allow_nan=False, ensure_ascii=is_ascii)
    assert strict_json.parse(text) == strict_json.parse(text.encode()) == value


def test_what_is_not_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        strict_json.parse_object("[]")


def test_tensors_come_with_their_texts() -> None:
    content = save({"w": np.arange(3, dtype=np.float32)}, metadata={"said": "so"})
    found = tensors.parse(content)
    assert found.texts == tensors.texts_of(content) == {"said": "so"}
    np.testing.assert_array_equal(found.tensors["w"], [0, 1, 2])


@given(at=st.integers(0, 120), byte=st.integers(0, 255), cut=st.integers(0, 120))
def test_a_damaged_tensor_file_is_read_or_refused(at: int, byte: int, cut: int) -> None:
    content = bytearray(save({"w": np.ones(4, np.float32)}, metadata={"said": "so"}))
    content[at % len(content)] = byte
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            tensors.parse(damaged)
        except ValueError:
            continue


@pytest.mark.parametrize("length", [0, 1, 2**63, 2**64 - 1])
def test_a_header_of_any_length_takes_no_memory(length: int) -> None:
    with pytest.raises(ValueError, match=r"safetensors|JSON"):
        tensors.parse(length.to_bytes(8, "little") + b"{}")


def test_no_more_is_read_than_known_tensors_can_take(tmp_path: Path) -> None:
    sizes = {f"layer {at}/\x01": 12 for at in range(100)}
    leaves = {name: np.ones(3, np.float32) for name in sizes}
    content = save(leaves, metadata={"assumptions": "x" * 100_000})
    (tmp_path / "m").write_bytes(content)
    assert tensors.read_known_inside(tmp_path, "m", sizes) == content
    os.truncate(tmp_path / "m", 3 << 30)  # a sparse file: large for its reader alone
    with pytest.raises(OSError, match="Larger") as raised:
        tensors.read_known_inside(tmp_path, "m", sizes)
    assert raised.value.errno == errno.EFBIG
    assert tensors.texts_inside(tmp_path, "m") == {"assumptions": "x" * 100_000}


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**64 - 1])
def test_texts_of_a_large_file_are_refused_by_its_start(tmp_path: Path, length: int) -> None:
    (tmp_path / "m").write_bytes(length.to_bytes(8, "little"))
    os.truncate(tmp_path / "m", 3 << 30)
    with pytest.raises(ValueError, match=r"safetensors|JSON"):
        tensors.texts_inside(tmp_path, "m")


def test_the_start_of_a_file_is_read_inside_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert read_start_inside(tmp_path, "f", 3) == b"123"
    assert read_start_inside(tmp_path, "f", 9) == read_inside(tmp_path, "f", most=5) == b"12345"
    for name, number in (
        ("link", errno.ELOOP),
        ("folder", errno.EISDIR),
        ("pipe", errno.EINVAL),
        ("none", errno.ENOENT),
    ):
        for read in (
            lambda name: read_start_inside(tmp_path, name, 3),
            lambda name: read_inside(tmp_path, name),
            lambda name: digest_of_file(tmp_path / name),
        ):
            with pytest.raises(OSError) as raised:  # noqa: PT011
                read(name)
            assert raised.value.errno == number


def test_a_misfit_becomes_the_error_of_its_file_and_keeps_its_cause() -> None:
    damage = IntegrityError("f is damaged.", remedy="Restore it.")
    for wrong in (lambda: {}["a"], lambda: int("x"), lambda: 1 / 0, lambda: None.a, lambda: [][0]):  # type: ignore[attr-defined]
        with pytest.raises(IntegrityError) as raised, misfits_as(damage):
            wrong()
        assert raised.value is damage
        assert raised.value.__cause__ is not None
    with pytest.raises(OSError, match="full"), misfits_as(damage):
        raise OSError("full")


def test_a_named_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_named(tmp_path / "f", most=5) == b"12345"
    for endless, most in ((tmp_path / "f", 4), (Path("/dev/zero"), 1000)):
        with pytest.raises(OSError, match="Larger") as raised:
            read_named(endless, most=most)
        assert raised.value.errno == errno.EFBIG
