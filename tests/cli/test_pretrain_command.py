"""`reticent pretrain`: it says that it is not private, and a run starts from what it wrote."""

from __future__ import annotations

import json

from tests.runs import coloured


def test_public_patches_are_written_named_and_started_from(reticent, tmp_path, monkeypatch):
    coloured.put_into_catalog(monkeypatch)
    public, run = tmp_path / "public", tmp_path / "run"
    code, out, err = reticent("pretrain", "cifar100", "--model", "patches", "-o", public, "--json")
    told = json.loads(out)
    assert (code, told["is_private"], told["rows"], told["model"]) == (0, False, 400, "patches")
    assert "not private" in err
    code, out, err = reticent("train", "cifar10", "--epsilon", 8, "--from", public, "-o", run)
    assert code == 0, err
    assert "auto chose public-features" in err
    assert "steps go with the root of" in err
    options = json.loads((run / "run.json").read_text())["request"]
    assert (options["start_digest"], options["learn"]) == (told["digest"], "dense")
    code, _, err = reticent(
        "train", "cifar10", "--epsilon", 8, "--from", public, "--learn", "lora", "-o", tmp_path / "no"
    )
    assert (code, (tmp_path / "no").exists()) == (1, False)
    assert "patches without a network" in err
