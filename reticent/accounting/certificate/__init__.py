"""Certificates: an upper bound on epsilon with everything needed to prove it again, and the proof.

    prove     takes the bound and the lattice of the fast accountant, and has them checked
    check     proves the bound from the certificate alone; shares no code with that accountant

Read `checker` first. What it needs stands in `releases` (events to pairs), `balls` (pairs in ball arithmetic)
and `measure` (whole numbers that are composed exactly). Section 7 of docs/accounting.md has the argument.
"""

from reticent.accounting.certificate.certificate import Certificate as Certificate
from reticent.accounting.certificate.certificate import read as read
from reticent.accounting.certificate.checker import check as check
from reticent.accounting.certificate.prover import prove as prove
