"""Processes that charge each thing once while the server is killed. Prints how often a charge failed.

    python outliving.py LEDGER PROCESSES CHARGES

A charge that was refused because nothing was recorded is tried again; one of which nobody knows is looked up.
"""

from __future__ import annotations

import os
import sys
import time

from reticent.core.errors import OutcomeUnknown, Unavailable
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian


def charge_each_once(address: str, me: int, charges: int) -> int:
    """Returns how often the server could not be used."""
    failures = 0
    ledger = Ledger(address, timeout=30.0)
    for turn in range(charges):
        purpose = f"{me}, {turn}"
        is_unknown = False
        while True:
            try:
                if is_unknown and ledger.has_charge("patients", purpose=purpose):
                    break
                budget = ledger.for_dataset("patients")
                budget.charge(
                    Gaussian(noise_multiplier=100.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose
                )
                break
            except Unavailable as error:
                failures += 1
                is_unknown = is_unknown or isinstance(error, OutcomeUnknown)
                time.sleep(0.05)
        time.sleep(0.02)
    return failures


def main(address: str, processes: int, charges: int) -> None:
    readers = []
    for me in range(processes):
        reader, writer = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.write(writer, str(charge_each_once(address, me, charges)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        readers.append(reader)
    print(sum(int(os.read(reader, 100)) for reader in readers))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
