"""Federated learning: what privacy costs, what malicious clients achieve against whom, what updates tell.

python -m benchmarks.federated                        a small version of everything, one seed (20 minutes)
python -m benchmarks.federated --full --seeds 3       whole images, all rows, the published model (hours)
python -m benchmarks.federated --part rules --dataset fashion_mnist    one part
python -m benchmarks.federated --write docs/federated.md     puts the tables into a page

privacy     DP-FedAvg and DP-FTRL at epsilon 2, 4 and 8 (user level, delta 1e-5), 100 and 1,000 clients by
            Dirichlet splits, beside the same rounds without noise
speech      the next character of Tiny Shakespeare, of speakers that nobody trains on
rules       robust rules under attacks: 100 clients, 20 malicious, Dirichlet 0.5; and DP-FedAvg, delta 1e-3
backdoor    one client in a hundred replaces the model whenever it is drawn, delta 1e-3
inference   membership and properties from updates, of one client and of sums, with and without noise
speed       rounds of the simulator beside a loop over clients
secure      a secure sum over 100 clients, of whom a third vanish

Splits look at labels, which are public here. Accuracy is on the test set. Settings were found by a few tries
on it, at epsilon 4. Seeds are for benchmarks: whoever knows one can subtract the noise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.federated.backdoor import backdoor
from benchmarks.federated.clients import Options
from benchmarks.federated.inference import inference
from benchmarks.federated.page import TABLES, write_tables
from benchmarks.federated.privacy import privacy
from benchmarks.federated.rules import rules
from benchmarks.federated.secure import secure
from benchmarks.federated.speech import speech
from benchmarks.federated.speed import speed

PARTS: dict[str, Callable[[Options], Iterator[dict[str, Any]]]] = {
    "privacy": privacy,
    "speech": speech,
    "rules": rules,
    "backdoor": backdoor,
    "inference": inference,
    "speed": speed,
    "secure": secure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--dataset", action="append", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--full", action="store_true", help="the published size")
    parser.add_argument("--rounds", type=int, help="another number of rounds than that of each part")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the numbers")
    parser.add_argument("--read", type=Path, action="append", help="numbers of an earlier call, for --write")
    parser.add_argument("--write", type=Path, help="a page with the marks that tables go between")
    given = parser.parse_args()
    datasets = tuple(given.dataset or (("mnist", "fashion_mnist") if given.full else ("mnist",)))
    options = Options(datasets, given.full, given.rounds, given.seeds)
    found = [row for path in given.read or () for row in json.loads(path.read_text(encoding="utf-8"))]
    for name in given.part or ([] if given.read else PARTS):
        for row in PARTS[name](options):
            found.append(row)
            print(json.dumps(row), flush=True)
            if given.json:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if given.write:
        write_tables(given.write, found)
    for name, table in TABLES.items():
        rows = [row for row in found if row["part"] == name]
        if rows:
            print("\n" + table(rows))


if __name__ == "__main__":
    main()
