"""What a model gives away about its training set, from a file of its probabilities.

    python examples/audit_saved_probabilities.py [FOLDER]

The model is a random forest, trained without privacy; it could also be a PyTorch model, or somebody else's.
An attack needs its answers about records that it was trained on, and about records of the same kind that it
was not. With the two files, the same works from a terminal:

    reticent attack --members members.npz --outsiders outsiders.npz
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from reticent.attacks import battery, read_outputs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# The owner of the model trains it, asks it about both sides and saves its answers.
images, labels = load_digits(return_X_y=True)
inside, outside, inside_labels, outside_labels = train_test_split(
    images, labels, test_size=0.5, stratify=labels, random_state=0
)
forest = RandomForestClassifier(random_state=0).fit(inside, inside_labels)
for name, rows, truth in (("members", inside, inside_labels), ("outsiders", outside, outside_labels)):
    np.savez(
        folder / f"{name}.npz",
        probabilities=forest.predict_proba(rows),
        labels=truth,
        features=rows,  # may be left out; with them, a record on both sides is found and refused
    )

# The attacker has nothing but the two files.
members = read_outputs(folder / "members.npz", name="members")
outsiders = read_outputs(folder / "outsiders.npz", name="outsiders")
found = battery.run_without_shadows(members, outsiders)

print(f"right about {found.accuracies.train:.1%} of members, {found.accuracies.test:.1%} of outsiders\n")
print(f"{'attack':12}{'TPR at 0.1% FPR':>28}{'TPR at 1% FPR':>28}{'AUC':>28}")
for result in found.results:
    rare, some = result.measured.tpr_at_fpr
    numbers = (rare.true_positive_rate, some.true_positive_rate, result.measured.auc)
    print(f"{result.name:12}" + "".join(f"{number!s:>28}" for number in numbers))
print(
    "\nIn brackets: 95% intervals. An attack that knows nothing has an AUC of 0.5 and a TPR equal to its FPR."
)
print(found["threshold"].measured.tpr_at_fpr[0].note)
print("What was found is there. What was not proves nothing: shadow models may find more.")
