"""The page on the course has a row for every item of the lectures, and names nothing that does not exist.

The lectures are not a part of the project, so their items are listed here, apart from the page: a label, and
where the lecture has other words for it, those. Where the lectures lie in a folder beside the project, the
list is held to their text: every label is found in it, and every heading, theorem, claim and figure has one.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from reticent.cli.app import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "course.md"
LECTURES = DOCS.parent.parent / "shared" / "course"

_DOTTED = re.compile(r"`(reticent(?:\.\w+)+)`")
_COMMAND = re.compile(r"`(reticent [^`]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LABEL = re.compile(r"\*\*(.+?)\*\*")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(r"^\W*(Theorem|Lemma|Corollary|Claim|Definition|Example|Algorithm|Alg|Figure)\b\W*\w")


class Lecture(NamedTuple):
    """A section of the page, the file of its lecture, and its items: labels, with the lecture's words."""

    section: str
    file: str
    items: dict[str, str]
    other_headings: tuple[str, ...] = ()  # headings of the lecture that are about no item
    nameless: tuple[tuple[str, str], ...] = ()  # theorems without a name: some of their words, and the item


def items(text: str) -> dict[str, str]:
    """Items with bars between: `label`, or `label == the words that the lecture has for it`."""
    found = {}
    for item in " ".join(text.split()).split(" | "):
        label, _, words = item.partition(" == ")
        assert label not in found, f"'{label}' is listed twice"
        found[label] = words or label
    return found


COURSE = (
    Lecture(
        "1. Private SGD, its proof and its convergence",
        "000_de31d1ddfe19462a.txt",
        items("""
            Empirical Risk | Memorization Attack | Extracting Training Data from Large Language Models |
            Private SGD (DP-SGD) | Privacy Proof | Adaptive Composition | Basic Composition |
            Advanced Composition | Numeric Example | Multivariate Gaussian Mechanism | L_2 sensitivity |
            Theorem: the Gaussian mechanism is (epsilon, delta)-DP == Theorem: forall epsilon leq 1 |
            Lipschitzness | Privacy Amplification by Sub-sampling |
            Amplification for larger batches == Can generalize to | Wrapping up the privacy proof |
            DP-SGD (in Theory) | DP-SGD (in practice) | Clip(g, G) |
            Theorem: regular PGD == For regular PGD | Theorem: noisy PGD == For noisy PGD | Gap for EM |
            Claim. (Measure of Progress) | Jensen Inequality | "New" Progress Claim | Nonconvex Case |
            Smoothness
        """),
        other_headings=("lecture 17", "convergence optimality", "noisy private pgd"),
        nameless=(("be convex and G-Lipschitz", "Theorem: regular PGD"),),
    ),
    Lecture(
        "2. Private logistic regression, DP-SGD in JAX, PATE",
        "001_f8120991f02b7fbd.txt",
        items("""
            Private Logistic Regression | sensitivity 2/N == sensitivity Delta L = frac 2 N |
            Output perturbation | objective perturbation | Input perturbation |
            Private Non-Convex Learning | Composition Theorem | What is composition? | Markov structure |
            Theorem 3.20 (Advanced Composition) | Lemma 3 (Amplification via sampling) |
            Moments accountant improves bounds | MNIST epoch vs accuracy/privacy |
            CIFAR-10 epoch vs accuracy/privacy | Algorithm 1 Differentially private SGD (Outline) |
            privacy accounting method | per-example gradients | Autodiff Recap | k times slower |
            per-example gradient norms | Figure 2.1 |
            convolution as a sparse matrix == represented as a sparse matrix | Nuts and Bolts |
            privately fine-tune dense layers | TPUs |
            JAX trace and HLO == JAX trace. (b) HLO before fusion | 30X speedup | private_grad |
            private_update | train the whole conv net | Private Aggregation of Teacher Ensembles |
            partitioning private data into disjoint sets | Each teacher trains (non-privately) |
            election amongst teachers | private inference | train a student | semi-supervised setup |
            Table: LNMax against Confident-GNMax == Confident-GNMax | Interactive-GNMax, two rounds
        """),
    ),
    Lecture(
        "3. A first analysis of gradient descent",
        "002_0e47751ae7ae9c35.txt",
        items("""
            Setup | Adaptive composition | Alg: DP-GD | CLIP | A First Privacy Analysis |
            Claim [Basic Composition] | Claim [Gaussian Mechanism is DP] | Global sensitivity |
            postprocessing | A FIRST Utility Analysis | connections to sampling/ULA | Projected DP-GD |
            Clipping too big, too small == Clipping too big | heavy price for increased T
        """),
        nameless=(("then Alg 1", "A First Privacy Analysis"),),
    ),
    Lecture(
        "4. Output and objective perturbation",
        "003_2b8193132caeaf52.txt",
        items("""
            Optimization and Privacy | Figure [Fredrikson et al 2015] == Fredrikson et al 2015 |
            Figure [Carlini et al 2021] == Carlini et al 2021 | Attacks: Membership Inference |
            (Pure) differential privacy | Hypothesis testing viewpoint |
            (Approximate) differential privacy |
            Example: Pure DP does not allow Gaussian noise == Example: Pure DP does not allow |
            privacy loss random variable (PLRV) |
            Theorem: privacy loss is bounded with probability 1 - delta == If privacy loss is bounded |
            Definition: l_2 sensitivity == sensitivity of f is defined as |
            Theorem: Gaussian Mechanism == Recap: Gaussian Mechanism | Example: Mean estimation |
            Post-Processing | Group Privacy | Basic Adaptive Composition | Pick_Alg | Advanced Composition |
            Corollary: epsilon up to target/sqrt(8 T ln(1/delta')) == Corollary |
            Differentially private optimization | Exponential mechanism | Output perturbation |
            Theorem: sensitivity lemma == Output perturbation: sensitivity lemma |
            Theorem: Output perturbation: utility == Output perturbation: utility | How to regularize? |
            Trivial algorithm | Limitations of output perturbation | Objective perturbation |
            Privacy analysis | Utility analysis | Excess risk for objective perturbation |
            Limitations of objective perturbation | Example: median estimation |
            inject noise to the steps of the algorithm
        """),
        nameless=(
            ("a randomized algorithm M", "(Approximate) differential privacy"),
            ("have the ℓ 2 sensitivity", "Theorem: Gaussian Mechanism"),
            ("be μ strongly convex then", "Theorem: sensitivity lemma"),
            ("strongly convex regularizer then", "Theorem: Output perturbation: utility"),
            ("diam W D then there exists", "How to regularize?"),
        ),
    ),
    Lecture(
        "5. Renyi privacy, attacks and defences",
        "004_ecf160bed311c957.txt",
        items("""
            Group privacy | Group privacy with (epsilon, delta)-DP | Renyi Divergence |
            Renyi Divergence of order infinity == Renyi divergence of order alpha = infty |
            Kullback-Leibler divergence | Renyi DP |
            RDP of infinite order is epsilon-DP == infty -RDP is equivalent to epsilon -DP |
            RDP Sequential Composition | RDP to DP | Renyi Differential Privacy: Example |
            Table: Many other variations == Many other variations | classification problem | generalizes |
            confidence scores | Neural networks | Loss Functions | empirical loss | Gradient Descent |
            Stochastic Gradient Descent – with Mini Batches | Attacking ML models | Federated Learning |
            malicious parameters == send malicious | Poisoning attacks | Membership Inference |
            Attribute Inference | Property Inference | Model inversion | black-box access |
            Threshold attack | Neural Network-based Attacks | Shokri et al.'s attack |
            Works even with different models | Table: Attack Precision == Attack Precision |
            Attribute Inference Attacks | Where do we defend? | "Private" SGD | clipping threshold |
            DP-SGD | keeping track of epsilon, delta | choose a delta | naive composition |
            second-order sensitivity | RDP provides a tighter bound == RDP) provides a tighter |
            Figure: zCDP, NC, AC == zCDP | theoretical vs empirical privacy | Issues of DP-SGD |
            Is it OK to use epsilon = 100? | Teacher Ensembles (PATE) | Figure 1 |
            argmax of votes with Laplacian noise == Laplacian noise | Synthetic Data Generation |
            What can we do with the resulting dataset? | MemGuard | just leaks the predicted label |
            generalization is a good defense
        """),
        other_headings=(
            "cs489 698",
            "privacy cryptography network and data security",
            "prologue a couple more dp properties",
            "renyi differential privacy",
            "renyi differential privacy dp connection",
            "renyi differential privacy properties",
            "primer on machine learning",
            "machine learning quick primer",
            "sgd",
            "threshold attacks",
            "inference attacks",
            "inference attacks in ml",
            "defending against inference attacks",
            "defenses against inference attacks",
            "other defenses",
        ),
    ),
)

_EVERY = pytest.mark.parametrize("lecture", COURSE, ids=lambda lecture: lecture.section)


# The page


class Row(NamedTuple):
    """A row of a lecture's table."""

    item: str
    code: str
    command: str
    page: str
    remarks: str

    @property
    def label(self) -> str:
        found = _LABEL.match(self.item)
        assert found is not None, f"this row does not start with a label: {self.item}"
        return found[1]


@cache
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@cache
def prose() -> str:
    return _FENCE.sub("", text())


def sections_of(page: str) -> dict[str, str]:
    """What stands under each heading of the second level."""
    parts = re.split(r"^## (.+)$", _FENCE.sub("", page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows_of(section: str) -> list[Row]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    for row in cells:
        assert len(row) == len(Row._fields), f"a row of {len(row)} cells: {row[0]}"
    return [Row(*row) for row in cells]


@_EVERY
def test_every_item_of_a_lecture_has_its_row_and_every_row_its_item(lecture: Lecture):
    labels = [row.label for row in rows_of(sections_of(text())[lecture.section])]
    assert sorted(labels) == sorted(lecture.items)


@_EVERY
def test_every_row_names_code_a_command_and_a_page_or_says_why_not(lecture: Lecture):
    for row in rows_of(sections_of(text())[lecture.section]):
        assert _DOTTED.search(row.code) or re.search(r"\*not in the package\*: \w+", row.code), row.label
        assert _COMMAND.search(row.command) or re.fullmatch(r"– \(.{6,}\)", row.command), row.label
        assert _LINK.search(row.page), row.label


def resolved(name: str) -> Any:
    """What a dotted name means: a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_every_name_on_the_page_can_be_imported():
    unknown = []
    for name in sorted(set(_DOTTED.findall(text()))):
        try:
            resolved(name)
        except (AttributeError, ModuleNotFoundError):
            unknown.append(name)
    assert not unknown, "\n".join(unknown)


def commands_of(page: str) -> list[str]:
    shown = re.findall(r"^\$ (reticent .+)$", page, flags=re.MULTILINE)
    return sorted({*_COMMAND.findall(_FENCE.sub("", page)), *shown})


def test_every_command_on_the_page_exists_with_its_options():
    lines = commands_of(text())
    assert lines
    wrong = [f"`{line}`: no {unknown}" for line in lines if (unknown := unknown_word(line)) is not None]
    assert not wrong, "\n".join(wrong)


def unknown_word(line: str) -> str | None:
    """The first word of a command line that is no command or option of it, if there is one."""
    command: Any = typer.main.get_command(app)
    words = line.split()[1:]
    while words and hasattr(command, "commands"):
        word = words.pop(0)
        if word not in command.commands:
            return word
        command = command.commands[word]
    known = set(chain.from_iterable([*each.opts, *each.secondary_opts] for each in command.params))
    return next((word for word in words if word.startswith("-") and word not in known), None)


def slugs_of(page: str) -> set[str]:
    """The anchors of a page's headings, as both GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page), flags=re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def dead_link(target: str) -> str | None:
    path, _, anchor = target.partition("#")
    page = DOCS / path if path else PAGE
    if not page.is_file():
        return f"no page {path}"
    if anchor and anchor not in slugs_of(page.read_text(encoding="utf-8")):
        return f"no heading #{anchor} in {page.name}"
    return None


def test_every_link_leads_somewhere():
    dead = [reason for target in sorted(set(_LINK.findall(text()))) if (reason := dead_link(target))]
    assert not dead, "\n".join(dead)


def test_every_erratum_and_example_that_a_row_points_to_is_there_and_the_other_way_round():
    tables = "".join(sections_of(text())[lecture.section] for lecture in COURSE)
    errata = set(re.findall(r"^### (E\d+)\. ", prose(), flags=re.MULTILINE))
    examples = set(re.findall(r"^\*\*(W\d+)\. ", prose(), flags=re.MULTILINE))
    assert errata == {f"E{number}" for number in range(1, len(errata) + 1)}
    assert examples == {f"W{number}" for number in range(1, len(examples) + 1)}
    assert set(re.findall(r"\b[EW]\d+\b", tables)) == errata | examples


def test_every_erratum_is_shown_by_code():
    parts = re.split(r"^### (E\d+)\. ", text().partition("\n## Worked examples")[0], flags=re.MULTILINE)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        assert "```python\n>>> " in part, name
        assert re.search(r"\*[Ll]ecture", part), f"{name} says of no lecture where it is"


# The lectures, where they are


def plain(words: str) -> str:
    """Letters and digits in lower case, one space between: so that typesetting makes no difference."""
    return " ".join(re.findall(r"[^\W_]+", words.lower()))


def lecture_text(lecture: Lecture) -> str:
    if not LECTURES.is_dir():
        pytest.skip("The lectures are not beside the project: ../shared/course is absent.")
    return (LECTURES / lecture.file).read_text(encoding="utf-8")


@_EVERY
def test_the_words_of_every_label_are_in_the_lecture(lecture: Lecture):
    said = f" {plain(lecture_text(lecture))} "
    for label, words in lecture.items.items():
        assert f" {plain(words)} " in said, label


@_EVERY
def test_every_heading_of_a_lecture_is_about_an_item(lecture: Lecture):
    known = {plain(words) for words in lecture.items.values()}
    headings = {plain(line) for line in re.findall(r"^#+ (.+)$", lecture_text(lecture), flags=re.MULTILINE)}
    for heading in sorted(headings - set(lecture.other_headings)):
        assert any(f" {words} " in f" {heading} " for words in known), heading


@_EVERY
def test_every_theorem_claim_and_figure_of_a_lecture_is_an_item(lecture: Lecture):
    nameless = dict(lecture.nameless)
    assert set(nameless.values()) <= set(lecture.items)
    known = {plain(words) for words in (*lecture.items.values(), *nameless)}
    for line in lecture_text(lecture).splitlines():
        if _MARKED.search(line):
            assert any(f" {words} " in f" {plain(line)} " for words in known), line


# This file itself


def test_a_wrong_page_would_be_noticed():
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolved("reticent.accounting.theorems.composition.perfect")
    assert unknown_word("reticent account --epochs 3") is None
    assert unknown_word("reticent account --sigma 3") == "--sigma"
    assert unknown_word("reticent ledger burn FILE") == "burn"
    assert dead_link("accounting.md#the-small-theorems") is None
    assert dead_link("accounting.md#the-large-theorems") is not None
    assert dead_link("nowhere.md") is not None
    with pytest.raises(AssertionError, match="cells"):
        rows_of("| item | code |\n|---|---|\n| **One** | two |\n")
