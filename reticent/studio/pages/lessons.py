"""What each page of the course says: what one can move, what to look at, and where it is from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    """A slider. With `is_log`, its places are spread by their logarithms."""

    name: str
    label: str
    low: float
    high: float
    value: float
    is_log: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Lesson:
    """One page of the course.

    Args:
        charts: ids of the pictures and what they are called.
        origin: (what it is, where it is from): lecture, theorem, function, command, page.
    """

    id: str
    title: str
    said: str
    look: str
    controls: tuple[Control, ...]
    charts: tuple[tuple[str, str], ...]
    origin: tuple[tuple[str, str], ...]
    draws_again: bool = True


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        id="clipping",
        title="Clipping and noise",
        said="Each arrow is the gradient of one record. Arrows longer than C are cut to C, so that one "
        "record can move the sum by at most C. Noise of deviation sigma times C then hides whether it did.",
        look="Make C small: all arrows count alike, and the direction of rare large ones is lost. Make it "
        "large: one record moves the sum far, and the noise has to grow with it.",
        controls=(
            Control("norm", "clipping norm C", 0.1, 4, 1),
            Control("sigma", "noise multiplier sigma", 0, 10, 2),
            Control("records", "records", 5, 200, 40, is_whole=True),
        ),
        charts=(("cloud", "Gradients, cut to C"), ("mean", "Their mean: true, clipped, released")),
        origin=(
            ("lecture 2, 3 and 5", "DP-SGD; CLIP; clipping threshold C"),
            ("theorem", "sensitivity of a clipped sum is C; Gaussian mechanism (Balle and Wang 2018)"),
            (
                "function",
                "reticent.training.clipping.clip_to_norm, reticent.mechanisms.gaussian.add_gaussian_noise",
            ),
            ("command", "reticent train DATA --method sgd"),
            ("page", "docs/training.md, what one step is; docs/course.md, errata E4 and E6"),
        ),
    ),
    Lesson(
        id="composition",
        title="Composition",
        said="Each release costs a little. What do T of them cost together? Basic composition adds epsilons. "
        "Advanced composition allows a small delta, and grows with the root of T. Optimal is what no "
        "theorem can beat.",
        look="For few steps of a large epsilon, advanced composition is worse than adding up. For many small "
        "ones it is far better, and still not optimal.",
        controls=(
            Control("epsilon", "epsilon of one release", 0.001, 2, 0.1, is_log=True),
            Control("times", "releases T", 2, 2000, 500, is_log=True, is_whole=True),
        ),
        charts=(("composition", "Epsilon of all releases, at delta 1e-5"),),
        origin=(
            ("lecture 1 and 4", "basic, adaptive and advanced composition; the numeric example"),
            (
                "theorem",
                "Dwork, Rothblum and Vadhan (2010); Kairouz, Oh and Viswanath (2017) for the optimum",
            ),
            (
                "function",
                "reticent.accounting.theorems.composition.basic, .advanced_first, .advanced, .optimal",
            ),
            ("command", "reticent account, rows basic and advanced composition"),
            ("page", "docs/accounting.md, the small theorems; docs/course.md, errata E8"),
        ),
        draws_again=False,
    ),
    Lesson(
        id="amplification",
        title="Amplification by sampling",
        said="A record that joins the batch only with probability q is better hidden: nobody knows whether "
        "it was drawn. A release that costs epsilon on the batch costs ln(1 + q (e^epsilon - 1)) on the "
        "data.",
        look="For small epsilon the cost falls by about the factor q. For large epsilon much less.",
        controls=(
            Control("epsilon", "epsilon on the batch", 0.01, 10, 1, is_log=True),
            Control("rate", "sampling rate q", 0.0001, 1, 0.01, is_log=True),
        ),
        charts=(("amplified", "Epsilon on the data, by sampling rate"), ("batch", "Who is in the batch")),
        origin=(
            ("lecture 1 and 2", "privacy amplification by sub-sampling; lemma 3"),
            ("theorem", "Balle, Barthe and Gaboardi (2018), theorems 8 and 9; Smith (2009), lemma 3"),
            ("function", "reticent.accounting.theorems.amplification.poisson"),
            ("command", "reticent account --sampling poisson, beside --sampling shuffled, which has none"),
            ("page", "docs/accounting.md, from a run to an event"),
        ),
    ),
    Lesson(
        id="pate",
        title="Voting teachers",
        said="Teachers, each trained on records of their own, vote on a label. One record changes one vote. "
        "Noise of scale 1 / gamma on every count hides it, and the largest noisy count is released.",
        look="When teachers agree, much noise does no harm: privacy is nearly free. When they are divided, "
        "noise decides. Every answer costs 2 gamma.",
        controls=(
            Control("teachers", "teachers", 10, 500, 100, is_log=True, is_whole=True),
            Control("agreement", "share that votes for the right class", 0.1, 1, 0.6),
            Control("gamma", "gamma: one over the scale of the noise", 0.005, 2, 0.05, is_log=True),
            Control("answers", "answers", 1, 1000, 100, is_log=True, is_whole=True),
        ),
        charts=(
            ("votes", "Votes and noisy votes by class"),
            ("right", "How often the noisy winner is right"),
        ),
        origin=(
            ("lecture 2 and 5", "PATE; argmax of votes with Laplacian noise"),
            ("theorem", "Papernot et al. (2017), section 2.1: 2 gamma per answer, composed tightly"),
            ("function", "reticent.pate.aggregators.LaplaceMax; Confident asks only where teachers agree"),
            ("command", "reticent pate DATA --public FILE"),
            ("page", "docs/pate.md; docs/course.md, worked example W12"),
        ),
    ),
    Lesson(
        id="membership",
        title="A membership attack",
        said="A toy model: the mean label in each of B bins. With many bins it memorises: on records that it "
        "was trained on its loss is smaller. The attack says 'member' where the loss is below a threshold. "
        "Noise on the sums and counts of the bins makes the model private.",
        look="More bins: the losses of members and outsiders part. More noise: they come together again, and "
        "epsilon says how far any attack can get.",
        controls=(
            Control("bins", "bins B", 1, 60, 40, is_whole=True),
            Control("records", "records", 20, 300, 80, is_whole=True),
            Control("sigma", "noise multiplier sigma", 0, 10, 0),
        ),
        charts=(("fit", "The model and its records"), ("losses", "The attack at every threshold")),
        origin=(
            ("lecture 1 and 5", "membership inference; threshold attack (Yeom et al. 2018)"),
            (
                "theorem",
                "Gaussian mechanism; Kairouz, Oh and Viswanath (2017), theorem 2.1: what attacks can find",
            ),
            ("function", "reticent.attacks.membership.threshold.scores; reticent.report.best_guess"),
            ("command", "reticent attack RUN --attacks threshold"),
            ("page", "docs/attacks.md, the attacks"),
        ),
    ),
    Lesson(
        id="descent",
        title="Descent in a bowl",
        said="DP-GD: in every step the gradients of all records are cut to C, summed, and noise is added. "
        "More steps come nearer to the bottom, but each of them then has to be noisier for the same epsilon.",
        look="Find the number of steps that ends nearest to the bottom. Then halve epsilon, or double the "
        "records.",
        controls=(
            Control("epsilon", "epsilon", 0.05, 20, 1, is_log=True),
            Control("steps", "steps T", 1, 200, 30, is_log=True, is_whole=True),
            Control("records", "records", 20, 5000, 100, is_log=True, is_whole=True),
            Control("rate", "learning rate", 0.02, 1, 0.3),
        ),
        charts=(("bowl", "The way down"), ("distance", "Distance to the bottom")),
        origin=(
            ("lecture 3", "Algorithm DP-GD; a first privacy analysis; heavy price for increased T"),
            (
                "theorem",
                "exact composition of Gaussian releases; the lecture's first analysis for comparison",
            ),
            (
                "function",
                "reticent.accounting.calibrate.noise_multiplier, "
                "reticent.accounting.calibrate.first_analysis",
            ),
            ("command", "reticent train DATA --method gd"),
            ("page", "docs/training.md, the theory's version; docs/course.md, errata E10"),
        ),
    ),
)
