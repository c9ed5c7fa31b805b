"""Both appendix tables: seven densities, 100 features, 1000 rows, with and without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.datasets import make_density
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table
from kexpfam_experiments.measures import measure_model
from kexpfam_experiments.systems import QUICK_TUNING, fit_system

__all__ = ["EXPERIMENT"]

PROTOCOL = """
1000 rows for training and 1000 for testing, 100 random Fourier features, mixture base, 60 Adam
steps at rate 0.1, our defaults otherwise (penalty and noise scale are chosen once more by five
folds); mean of three seeds beside the paper's figure (a single run, it seems). *KDSM* is the
paper's name for its method here (DSM RFF), *RFFSM* for plain score matching. F is the Fisher
divergence ½E|∇log p − ∇log q|², LL the mean log-likelihood, LL_p the truth's, FSSD the statistic
n·FSSD² with five test points from a Gaussian fitted to the rows, W₁ the exact Wasserstein
distance between the test rows and as many MALA draws.

Caveats. The paper's ring log-likelihoods lie above the truth's (−2.34 where the truth has −3.93),
which a normalized model cannot: its normalizers are off there, and perhaps elsewhere. Its W₁
between samples of 1000 rows are mostly below the *floor*, the distance between two samples of the
truth itself, so they must be of another quantity (regularized transport, or a squared or rescaled
one): the columns are not comparable, and our W₁ should be read against its floor. The paper does
not define F up to its factor ½.
"""

REASONS = """
Where the paper is ahead. *Cosine, F*: our choice of penalty and noise scale lets the score
matching loss decide only among settings that held-out likelihood does not reject. By the loss
alone F falls from 5.3–7.1 to 3.1–5.0 over the three seeds, and LL to between −245 and −5600 (the
paper has −5.65 against the truth's −3.50); what is left to 1.86 we could not trace, since the
paper does not give its mixture or its tuned values. *Mixture of rings, F*: the truth's score has
a pole −x/|x|² at the origin; a few test rows near it carry the mean, which differs between our
test and training rows by a factor of thirteen. *Mixture of uniforms, LL*: 0.04 further from the
truth, with a lower F. *Banana, F*: the base mixture alone, or nearly, is what held-out rows
prefer, by loss and by likelihood.
"""

# As printed: F train, F test, LL train, truth train, LL test, truth test, FSSD, p, W₁.
PAPER: dict[tuple[str, str], tuple[float, ...]] = {
    ("cosine", "DSM RFF"): (2.197, 1.858, -5.53, -3.528, -5.648, -3.503, -0.128, 0.425, 0.251),
    ("cosine", "SM RFF"): (5.331, 5.102, -5.008, -3.528, -5.056, -3.503, 0.059, 0.308, 0.372),
    ("uniform", "DSM RFF"): (1.365, 1.584, -3.66, -3.584, -3.689, -3.584, 0.212, 0.093, 0.06),
    ("uniform", "SM RFF"): (1.785, 1.901, -3.649, -3.584, -3.692, -3.584, 0.189, 0.131, 0.055),
    ("banana", "DSM RFF"): (0.301, 0.291, -3.529, -2.83, -3.659, -2.894, -0.085, 0.604, 0.047),
    ("banana", "SM RFF"): (0.28, 0.319, -3.528, -2.83, -3.697, -2.894, -0.045, 0.452, 0.052),
    ("funnel", "DSM RFF"): (0.34, 0.339, -2.867, -2.868, -2.821, -2.796, 0.058, 0.299, 0.06),
    ("funnel", "SM RFF"): (0.288, 0.307, -2.846, -2.868, -2.783, -2.796, -0.041, 0.392, 0.084),
    ("ring", "DSM RFF"): (0.862, 0.803, -2.35, -3.949, -2.338, -3.929, -1.316, 0.775, 0.063),
    ("ring", "SM RFF"): (0.635, 0.562, -2.328, -3.949, -2.346, -3.929, -1.219, 0.694, 0.086),
    ("mixture_of_rings", "DSM RFF"): (
        3.664, 3.298, -3.668, -4.68, -3.591, -4.633, -0.759, 0.985, 0.212,
    ),
    ("mixture_of_rings", "SM RFF"): (
        3.528, 3.293, -4.221, -4.68, -4.13, -4.633, -0.851, 0.859, 0.15,
    ),
    ("mixture_of_uniforms", "DSM RFF"): (
        3.705, 3.582, -3.046, -2.89, -3.08, -2.89, 0.057, 0.347, 0.26,
    ),
    ("mixture_of_uniforms", "SM RFF"): (
        4.97, 4.82, -27.879, -2.89, -27.904, -2.89, -0.367, 0.673, 0.327,
    ),
}  # fmt: skip
FIELDS = {
    "F train": "fisher_train",
    "F test": "fisher",
    "LL train": "log_likelihood_train",
    "LL_p train": "truth_train",
    "LL test": "log_likelihood",
    "LL_p test": "truth",
    "FSSD": "fssd",
    "p-value": "fssd_p_value",
    "W₁": "wasserstein",
}


def _cells(options: Options) -> list[tuple[str, ...]]:
    pairs = [("uniform", "DSM RFF"), ("uniform", "SM RFF")] if options.quick else list(PAPER)
    return [(*pair, str(run)) for pair in pairs for run in range(options.n_runs(3))]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    name, system, run = cell
    density, seed = make_density(name), int(run)
    count = options.size(1000, 150)
    train = density.sample(count, random_state=seed)
    test = density.sample(count, random_state=1000 + seed)
    extra: dict[str, Any] = {"tuning": QUICK_TUNING} if options.quick else {}
    model, seconds = fit_system(system, train, seed, n_components=options.size(100, 32), **extra)
    return {**measure_model(model, train, test, seed, density), "seconds": seconds}


def _mean(results: Results, name: str, system: str, field: str) -> float:
    values = [r[field] for cell, r in results.records.items() if cell[:2] == (name, system)]
    return float(np.mean(values))


def _table(results: Results) -> str:
    pairs = list(dict.fromkeys(cell[:2] for cell in results.records))
    names = list(dict.fromkeys(name for name, _ in pairs))
    lines, verdicts = [], []
    for name in names:
        for number, (heading, field) in enumerate(FIELDS.items()):
            row: list[Any] = [name if number == 0 else "", heading]
            for system in ("DSM RFF", "SM RFF"):
                ours, theirs = _mean(results, name, system, field), PAPER[name, system][number]
                row += [ours, theirs]
            lines.append(row)
        verdicts.append([name, *_verdict(results, name)])
        floor = _mean(results, name, "DSM RFF", "wasserstein_floor")
        lines.append(["", "W₁ floor", floor, None, None, None])
    headings = ["density", "", "KDSM, ours", "paper", "RFFSM, ours", "paper"]
    return "\n\n".join(
        [
            markdown_table(headings, lines),
            "KDSM against the paper's. Test samples differ, so log-likelihoods are compared by "
            "their distance from the truth's on the same rows:",
            markdown_table(
                ["density", "LL − LL_p, ours", "paper", "", "F test, ours", "paper", ""], verdicts
            ),
            REASONS.strip(),
        ]
    )


def _verdict(results: Results, name: str) -> list[Any]:
    """Distances from the truth's log-likelihood and Fisher divergences, with who is ahead."""
    paper = PAPER[name, "DSM RFF"]
    ours = _mean(results, name, "DSM RFF", "log_likelihood") - _mean(
        results, name, "DSM RFF", "truth"
    )
    theirs = paper[4] - paper[5]
    likelihood = "paper's impossible" if theirs > 0.1 else _ahead(ours, theirs, 0.01)
    fisher = _mean(results, name, "DSM RFF", "fisher")
    return [ours, theirs, likelihood, fisher, paper[1], _ahead(-fisher, -paper[1], 0.05)]


def _ahead(ours: float, theirs: float, margin: float) -> str:
    if abs(ours - theirs) <= margin:
        return "level"
    return "ours" if ours > theirs else "paper"


EXPERIMENT = Experiment(
    name="appendix",
    title="Appendix tables: 100 features, 1000 rows",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
)
