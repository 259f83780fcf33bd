"""Each reader against files small enough to write here, whole and damaged."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reticent.core.errors import DataError, IntegrityError
from reticent.data.catalog import RowCounts, Splits

LoadFiles = Callable[[str, str, Mapping[str, bytes], RowCounts], Splits]

RNG = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in the idx format."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def tar(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, body in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(body)
            archive.addfile(header, io.BytesIO(body))
    return packed.getvalue()


def npz(**arrays: Any) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def webp(images: np.ndarray) -> bytes:
    """Images of 32x32 pixels stacked downwards, as one lossless picture."""
    packed = io.BytesIO()
    Image.fromarray(images.reshape(-1, 32, 3)).save(packed, format="WEBP", lossless=True, exact=True)
    return packed.getvalue()


def strips(images: np.ndarray, labels: np.ndarray, *, each: int) -> bytes:
    pictures = [webp(images[start : start + each]) for start in range(0, len(images), each)]
    offsets = np.cumsum([0, *map(len, pictures)])
    return npz(webp=np.frombuffer(b"".join(pictures), np.uint8), offsets=offsets, labels=labels)


IMAGES = RNG.integers(0, 256, size=(5, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)
MNIST = {
    "train-images-idx3-ubyte.gz": gzip.compress(idx(IMAGES)),
    "train-labels-idx1-ubyte.gz": gzip.compress(idx(LABELS)),
    "t10k-images-idx3-ubyte.gz": gzip.compress(idx(IMAGES[:2])),
    "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(LABELS[:2])),
}
CIFAR_IMAGES = RNG.integers(0, 256, size=(6, 32, 32, 3), dtype=np.uint8)
CIFAR_LABELS = np.array([9, 0, 1, 2, 3, 4], dtype=np.uint8)
STRIPS = {
    "data_batch_1.webp.npz": strips(CIFAR_IMAGES[:4], CIFAR_LABELS[:4], each=2),
    "data_batch_2.webp.npz": strips(CIFAR_IMAGES[4:5], CIFAR_LABELS[4:5], each=1),
    "test_batch.webp.npz": strips(CIFAR_IMAGES[5:], CIFAR_LABELS[5:], each=1),
}
SVM = b"-1 3:1 123:0.5 \n+1 1:2\n1\n"
BANGKOK = b"\n".join(b'"%d",' % label + b",".join([b"0", b"1"] * 223) for label in (1, 30, 13))


def cifar_binary(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Records of the authors' format: the label, then the red, the green and the blue plane."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


CIFAR_TAR = {
    f"cifar-10-batches-bin/data_batch_{number}.bin": cifar_binary(
        CIFAR_IMAGES[number - 1 : number], CIFAR_LABELS[number - 1 : number]
    )
    for number in range(1, 6)
} | {"cifar-10-batches-bin/test_batch.bin": cifar_binary(CIFAR_IMAGES[5:], CIFAR_LABELS[5:])}


def test_idx_files_become_bytes_and_whole_labels(load_files: LoadFiles):
    splits = load_files("mnist", "idx", MNIST, RowCounts(5, 2))
    np.testing.assert_array_equal(splits.train["x"], IMAGES)
    np.testing.assert_array_equal(splits.train["y"], LABELS)
    assert splits.train["x"].dtype == np.uint8
    assert splits.train["y"].dtype == np.int32
    assert splits.test is not None
    assert len(splits.test) == 2


def test_idx_files_may_be_unzipped_under_a_zipped_name(load_files: LoadFiles):
    plain = {name: gzip.decompress(body) for name, body in MNIST.items()}
    assert len(load_files("mnist", "idx", plain, RowCounts(5, 2)).train) == 5


def test_both_forms_of_cifar_give_the_same_images(load_files: LoadFiles):
    archive = {"cifar-10-binary.tar.gz": tar(CIFAR_TAR)}
    from_strips = load_files("cifar10", "cifar_strips", STRIPS, RowCounts(5, 1))
    from_tar = load_files("cifar10", "cifar_binary", archive, RowCounts(5, 1))
    for splits in (from_strips, from_tar):
        np.testing.assert_array_equal(splits.train["x"], CIFAR_IMAGES[:5])
        np.testing.assert_array_equal(splits.train["y"], CIFAR_LABELS[:5])
        assert splits.test is not None
        np.testing.assert_array_equal(splits.test["x"], CIFAR_IMAGES[5:])
        assert splits.train["x"].flags.c_contiguous


def test_libsvm_text_becomes_dense_with_labels_from_zero(load_files: LoadFiles):
    splits = load_files("a9a", "libsvm", {"a9a": SVM, "a9a.t": gzip.compress(SVM)}, RowCounts(3, 3))
    assert splits.train["x"].shape == (3, 123)
    assert splits.train["x"][0, 2] == 1
    assert splits.train["x"][0, 122] == 0.5
    assert splits.train["x"].sum() == 3.5
    assert splits.train["y"].tolist() == [0, 1, 1]


def test_locations_count_their_classes_from_zero(load_files: LoadFiles):
    files = {"dataset_location.tgz": tar({"bangkok": BANGKOK})}
    splits = load_files("location30", "location", files, RowCounts(3))
    assert splits.train["x"].shape == (3, 446)
    assert splits.train["x"].dtype == np.float32
    assert splits.train["x"].mean() == 0.5
    assert splits.train["y"].tolist() == [0, 29, 12]


def test_sentences_are_text_of_any_length_without_objects(load_files: LoadFiles):
    part = "label\tsentence\n1\tgood\n0\tquite bad \u2028 as films go\n"
    files = {name: gzip.compress(part.encode()) for name in ("train.tsv.gz", "test.tsv.gz", "dev.tsv.gz")}
    splits = load_files("sst2", "sst2", files, RowCounts(2, 2, 2))
    assert splits.train["text"].tolist() == ["good", "quite bad \u2028 as films go"]
    assert splits.train["y"].tolist() == [1, 0]
    assert isinstance(splits.train["text"].dtype, np.dtypes.StringDType)
    assert splits.train.take(np.array([1]))["text"].tolist() == ["quite bad \u2028 as films go"]


def test_messages_have_spam_as_class_one(load_files: LoadFiles):
    files = {"SMSSpamCollection": b"ham\thello\tthere\r\nspam\tFREE\n"}
    splits = load_files("sms_spam", "sms_spam", files, RowCounts(2))
    assert splits.train["text"].tolist() == ["hello\tthere", "FREE"]
    assert splits.train["y"].tolist() == [0, 1]


def test_names_are_lines_and_plays_are_characters(load_files: LoadFiles):
    names = load_files("names", "lines", {"makemore_names.txt": b"emma\nava"}, RowCounts(2))
    assert names.train["text"].tolist() == ["emma", "ava"]
    play = load_files("tinyshakespeare", "characters", {"input.txt": b"First!\n"}, RowCounts(7))
    assert play.train["x"].tobytes() == b"First!\n"
    assert play.train["x"].dtype == np.uint8


BAD_MNIST_TEST_IMAGES = {
    "gz cut short": (MNIST["t10k-images-idx3-ubyte.gz"][:-9], "cut short or damaged"),
    "gz of nonsense": (b"\x1f\x8bnonsense", "cut short or damaged"),
    "idx of labels": (idx(LABELS), "not an idx file of bytes with 3 axes: it starts with 00 00 08 01"),
    "idx of floats": (bytes([0, 0, 13, 3]) + idx(IMAGES)[4:], "it starts with 00 00 0d 03"),
    "idx with too few bytes": (idx(IMAGES)[:-1], "3,919 bytes after its header, which promises 3,920"),
    "idx that promises the moon": (bytes([0, 0, 8, 3]) + b"\xff" * 12, "holds 0 bytes after its header"),
    "idx that is empty": (b"", "not an idx file"),
}
BAD_CIFAR_TEST_STRIPS = {
    "no offsets": (npz(webp=LABELS, labels=LABELS), "has no array offsets"),
    "beyond the end": (npz(webp=LABELS, offsets=np.array([0, 6]), labels=LABELS), "offsets that do not fit"),
    "no pictures": (npz(webp=LABELS, offsets=np.array([0, 5]), labels=LABELS), "not a WebP picture"),
    "a label missing": (strips(CIFAR_IMAGES, CIFAR_LABELS[:-1], each=3), "6 images and 5 labels"),
    "npz cut short": (STRIPS["test_batch.webp.npz"][:-30], "not an npz archive"),
    "a pickle": (pickle.dumps([1]), "not an npz archive"),
    "objects": (npz(webp=np.array([{}], object), offsets=LABELS, labels=LABELS), "not an npz archive"),
    "one array": (idx(IMAGES), "not an npz archive"),
}
HALF_RECORDS = {name: body[:-1] for name, body in CIFAR_TAR.items()}
BAD_CIFAR_ARCHIVES = {
    "tar without a batch": (tar({"other": b""}), "has no member cifar-10-batches-bin/data_batch_1.bin"),
    "tar cut short": (tar(CIFAR_TAR)[:-2000], "cut short or damaged"),
    "tar with half a record": (tar(HALF_RECORDS), "not a multiple of 3073"),
}
BAD_LOCATIONS = {
    "no tar at all": (b"nonsense", "cut short or damaged"),
    "words": (tar({"bangkok": b'"1",yes,no\n'}), "not whole numbers"),
    "uneven length": (tar({"bangkok": b"1,0,1\n1,0\n"}), "not whole numbers"),
    "no locations": (tar({"bangkok": b""}), "not whole numbers"),
}
BAD_LIBSVM = {
    "beyond the last feature": (b"-1 124:1\n", "of 123 features on line 1"),
    "counted from zero": (b"-1 1:1\n+1 0:1\n", "of 123 features on line 2"),
    "third class": (b"2 1:1\n", "on line 1"),
    "empty line": (b"1 1:1\n\n1 1:1\n", "on line 2"),
    "not text": (b"-1 \xff:1\n", "is not UTF-8 at byte 3"),
}
BAD_MESSAGES = {"no label": (b"ham\thi\nhello\n", "line 2 does not start with one of the labels ham, spam")}
BAD_PLAYS = {"other letters": ("Ä".encode(), "outside of ASCII")}


def damaged_cases() -> list:
    """For every bad file: the dataset, its reader, all its files, and what the message has to say."""
    groups = [
        ("mnist", "idx", MNIST, "t10k-images-idx3-ubyte.gz", BAD_MNIST_TEST_IMAGES),
        ("cifar10", "cifar_strips", STRIPS, "test_batch.webp.npz", BAD_CIFAR_TEST_STRIPS),
        ("cifar10", "cifar_binary", {}, "cifar-10-binary.tar.gz", BAD_CIFAR_ARCHIVES),
        ("location30", "location", {}, "dataset_location.tgz", BAD_LOCATIONS),
        ("a9a", "libsvm", {}, "a9a", BAD_LIBSVM),
        ("sms_spam", "sms_spam", {}, "SMSSpamCollection", BAD_MESSAGES),
        ("tinyshakespeare", "characters", {}, "input.txt", BAD_PLAYS),
    ]
    return [
        pytest.param(name, reader, {**good, file: body}, says, id=f"{name}: {what}")
        for name, reader, good, file, cases in groups
        for what, (body, says) in cases.items()
    ]


@pytest.mark.parametrize(("name", "reader", "files", "says"), damaged_cases())
def test_a_damaged_file_is_named_with_what_is_wrong_and_what_to_do(
    load_files: LoadFiles, tmp_path: Path, name: str, reader: str, files: dict[str, bytes], says: str
):
    with pytest.raises(IntegrityError) as caught:
        load_files(name, reader, files, RowCounts(1))
    assert says in caught.value.happened
    assert str(tmp_path) in caught.value.happened
    assert "Replace it with a good copy" in caught.value.remedy


def test_a_link_out_of_an_archive_is_not_followed(load_files: LoadFiles):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        link = tarfile.TarInfo("bangkok")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(IntegrityError, match="has no member bangkok"):
        load_files("location30", "location", {"dataset_location.tgz": packed.getvalue()}, RowCounts(1))


@pytest.mark.parametrize(
    ("change", "rows", "says"),
    [
        ({}, RowCounts(6, 2), "has 5 train records, not 6"),
        ({}, RowCounts(5, 3), "has 2 test records, not 3"),
        ({}, RowCounts(5, 2, 1), "has 0 validation records, not 1"),
        (
            {"train-images-idx3-ubyte.gz": idx(IMAGES[:, :14])},
            RowCounts(5, 2),
            "shape [14, 28], not [28, 28]",
        ),
        ({"train-labels-idx1-ubyte.gz": idx(LABELS + 5)}, RowCounts(5, 2), "labels from 6 to 10, not 0 to 9"),
    ],
    ids=["train", "test", "validation", "shape", "labels"],
)
def test_a_copy_that_is_not_the_whole_dataset_is_refused(
    load_files: LoadFiles, tmp_path: Path, change: dict[str, bytes], rows: RowCounts, says: str
):
    with pytest.raises(IntegrityError) as caught:
        load_files("mnist", "idx", {**MNIST, **change}, rows)
    assert says in caught.value.happened
    assert str(tmp_path) in caught.value.happened
    assert "reticent datasets get mnist" in caught.value.remedy


def test_images_and_labels_of_different_number_are_refused(load_files: LoadFiles):
    files = {**MNIST, "train-labels-idx1-ubyte.gz": idx(LABELS[:3])}
    with pytest.raises(DataError, match="differ in length"):
        load_files("mnist", "idx", files, RowCounts(5, 2))
