"""The real libraries, each where it is installed: what they give is what plain arrays give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError
from reticent.data.dataset import Dataset

pytestmark = pytest.mark.thorough

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 2


def check(data: Dataset) -> None:
    """Whether it holds `X` and `Y`, whole and row by row."""
    loaded = data.load()
    assert np.array_equal(loaded["x"], X)
    assert np.array_equal(loaded["y"], Y)
    some = np.array([7, 0, 19])
    found = data.take(slice(5, None)).read(some[:1] - 5)
    assert np.array_equal(found["x"], X[7:8])
    assert np.array_equal(data.read(some)["x"], X[some])


def test_polars():
    pl: Any = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y})
    check(Dataset({"x": frame[["a", "b", "c"]], "y": frame["y"]}))
    check(Dataset(pl.DataFrame({"x": X, "y": Y})))  # a column of arrays
    assert list(Dataset(frame, names=["a", "y"])) == ["a", "y"]
    with pytest.raises(DataError, match=r"query.collect\(\)"):
        Dataset(frame.lazy())
    with pytest.raises(DataError, match=r"not numbers \(city"):
        Dataset(frame.with_columns(city=pl.lit("Oslo")))
    with pytest.raises(DataError, match="missing cells"):
        Dataset(pl.DataFrame({"y": [1, None]}))
    assert np.isnan(Dataset(pl.DataFrame({"y": [1.0, None]}))["y"][1])


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_datasets():
    datasets: Any = pytest.importorskip("datasets")
    plain = datasets.Dataset.from_dict({"x": X.tolist(), "y": Y.tolist(), "text": ["a"] * 20})
    chosen = plain.select_columns(["x", "y"]).cast_column("y", datasets.Value("int64"))
    check(Dataset(chosen))
    check(Dataset(plain, names=["x", "y"]))
    check(Dataset(chosen.with_format("torch")) if _has("torch") else Dataset(chosen.with_format("numpy")))
    doubled = chosen.with_transform(
        lambda rows: {"x": [[2 * c for c in r] for r in rows["x"]], "y": rows["y"]}
    )
    assert np.allclose(Dataset(doubled).load()["x"], 2 * X)
    with pytest.raises(DataError, match=r"'text'.* not an array of numbers"):
        Dataset(plain)
    with pytest.raises(DataError, match="one after the other"):
        Dataset(chosen.to_iterable_dataset())


def test_grain():
    grain: Any = pytest.importorskip("grain")
    records = [{"x": X[i], "y": Y[i]} for i in range(20)]
    check(Dataset(grain.MapDataset.source(records)))
    doubled = grain.MapDataset.source(records).map(lambda record: {**record, "x": 2 * record["x"]})
    assert np.allclose(Dataset(doubled).load()["x"], 2 * X)
    with pytest.raises(DataError, match="repeats endlessly"):
        Dataset(grain.MapDataset.source(records).repeat())
    with pytest.raises(DataError, match="filtered out"):
        Dataset(grain.MapDataset.source(records).filter(lambda record: record["y"] == 1)).load()
    with pytest.raises(DataError, match="one after the other"):
        Dataset(grain.MapDataset.source(records).to_iter_dataset())


def test_torch():
    torch: Any = pytest.importorskip("torch")
    tensor = torch.tensor(X, requires_grad=True)
    check(Dataset({"x": tensor, "y": torch.tensor(Y)}))
    check(Dataset({"x": torch.tensor(X).to_sparse(), "y": torch.tensor(Y)}))
    assert Dataset({"x": tensor.to(torch.bfloat16)})["x"].dtype.name == "bfloat16"
    pairs = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    check(Dataset(pairs, names=["x", "y"]))
    check(Dataset(torch.utils.data.Subset(pairs, range(20)), names=["x", "y"]))
    with pytest.raises(DataError, match=r"DataLoader.dataset"):
        Dataset(torch.utils.data.DataLoader(pairs))

    class Stream(torch.utils.data.IterableDataset):
        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Any:
            return iter(())

    with pytest.raises(DataError, match="one after the other"):
        Dataset(Stream())


def test_tensorflow():
    tf: Any = pytest.importorskip("tensorflow")
    check(Dataset({"x": tf.constant(X), "y": tf.constant(Y)}))
    with pytest.raises(DataError, match="as_numpy_iterator"):
        Dataset(tf.data.Dataset.from_tensor_slices({"x": X, "y": Y}))


def test_arrays_in_files(tmp_path):
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["x"], file["y"] = X, Y
        check(Dataset({"x": file["x"], "y": file["y"]}))


def test_zarr(tmp_path):
    zarr: Any = pytest.importorskip("zarr")
    x, y = (zarr.array(values, store=str(tmp_path / name)) for name, values in (("x", X), ("y", Y)))
    check(Dataset({"x": x, "y": y}))


def _has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None
