"""One target under atheris, until the time is over or something is found: started by `benchmarks.fuzz`."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import atheris

TESTS = Path(__file__).resolve().parents[2] / "tests" / "fuzz"


def main(name: str, home: str, room: str, seconds: str) -> None:
    sys.path.insert(0, str(TESTS))
    fuzzer: Any = atheris  # some of it is made when it is imported
    with fuzzer.instrument_imports(include=["reticent"]):
        from targets import TARGETS  # pyright: ignore[reportMissingImports]

        target = TARGETS[name]
        place = Path(room) / "copy"
        place.mkdir()
        file = target.place(Path(home), place)
        specimen = file.read_bytes()
        whole = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        target.read(file, specimen)  # whatever is imported when it is needed
    seeds = Path(room) / "seeds"
    seeds.mkdir()
    (seeds / "whole").write_bytes(specimen)

    def read(content: bytes) -> None:
        for path, before in whole.items():
            path.write_bytes(before)
        target.read(file, content)

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        chance = Random(seed)
        if chance.random() < 0.5:
            return atheris.Mutate(content, most)
        return target.damage(content if chance.random() < 0.7 else specimen, chance)[:most]

    limits = [f"-max_total_time={seconds}", "-timeout=30", "-rss_limit_mb=4096", "-max_len=100000"]
    kept = [f"-artifact_prefix={room}/found-", "-print_final_stats=1", "-len_control=0"]
    atheris.Setup([sys.argv[0], *limits, *kept, str(seeds)], read, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
