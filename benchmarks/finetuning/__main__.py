"""Fine-tuning under privacy, measured: `make bench-finetune`.

Each part is a module of this package with a function that prints what it found.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.finetuning import public_features

_WHITENED_BY = {"cifar10": "cifar100", "sst2": "sms_spam"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["cifar10", "sst2"], action="append")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["sgd", "prototype"])
    parser.add_argument("--public", help="a dataset to whiten by; 'none' for none")
    parser.add_argument("--tune", action="store_true", help="score on held-out training rows")
    parser.add_argument("--rows", type=int, help="train on so many, for a quick look")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "reticent-bench-features")
    asked = parser.parse_args()
    for part in asked.part or ["cifar10", "sst2"]:
        public = asked.public or _WHITENED_BY[part]
        public_features.measure(
            part,
            asked.cache,
            epsilons=asked.epsilons,
            seeds=asked.seeds,
            public=None if public == "none" else public,
            methods=asked.methods,
            tune=asked.tune,
            rows=asked.rows,
        )


if __name__ == "__main__":
    main()
