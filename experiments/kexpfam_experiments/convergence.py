"""Fourier features against the exact solution as their number grows, beside the bounds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kexpfam.bounds import fourier_error_bound
from kexpfam.datasets import make_density
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.features import FourierFeatures
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table

__all__ = ["EXPERIMENT"]

PROTOCOL = """
60 rows of the mixture of Gaussians, standardized, Gaussian base, plain score matching with an RBF
kernel of length-scale 1 and a fixed penalty λ. *error* is the root mean square over 1000 fresh
rows and eight draws of the frequencies of f_m − f, with f the exact solution in the RKHS.
*paper's draws* are independent with random phases, for which Theorem 1 is stated; *ours* are
orthogonal cosine-sine pairs. The bounds are the square roots of Theorem 1's right-hand side as
printed (δ = 0.05) and with the constants that its proof yields (see `kexpfam.bounds`). Neither is
tight; both fall as m^(−1/2), which is how the error falls once m is large enough.
"""

PENALTIES = (1e-2, 1.0)
_VARIANTS = {
    "paper's draws": FourierFeatures("independent", "random"),
    "ours": FourierFeatures(),
}


def _cells(options: Options) -> list[tuple[str, ...]]:
    counts = [16, 64] if options.quick else [2**k for k in range(4, 12)]
    return [(f"{penalty:g}", str(count)) for penalty in PENALTIES for count in counts]


def _fitted(rows: np.ndarray, penalty: float, seed: int, **settings: Any) -> Any:
    model = KernelExponentialFamily(
        noise=None,
        base="gaussian",
        penalty=penalty,
        length_scale=1.0,
        normalizer="importance",
        gate=False,
        random_state=seed,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormalizerWarning)
        return model.fit(rows)


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    penalty, count = float(cell[0]), int(cell[1])
    density = make_density("gaussian_mixture")
    rows = density.sample(options.size(60, 20), random_state=0)
    fresh = density.sample(1000, random_state=1)
    exact = _fitted(rows, penalty, 0, basis="exact").density_
    points = exact.standardizer.forward(fresh)
    target = exact.tilt(points)
    record: Record = {"size": float(np.sqrt(np.mean((target - target.mean()) ** 2)))}
    for name, family in _VARIANTS.items():
        squares = [
            np.mean((found.tilt(points) - target) ** 2)
            for found in (
                _fitted(rows, penalty, seed, basis=family, n_components=count).density_
                for seed in range(options.n_runs(8))
            )
        ]
        record[name] = float(np.sqrt(np.mean(squares)))
    standardized = exact.standardizer.forward(rows)
    for form in ("paper", "proved"):
        bound = fourier_error_bound(
            standardized,
            count,
            penalty=penalty,
            base_gradient=exact.base.gradient(standardized),
            form=form,
            random_state=0,
        )
        record[form] = float(np.sqrt(bound.bound))
    return record


def _table(results: Results) -> str:
    rows = [
        [penalty, count, *(f"{record[key]:.3g}" for key in (*_VARIANTS, "paper", "proved", "size"))]
        for (penalty, count), record in results.records.items()
    ]
    headings = ["λ", "m", "error, paper's draws", "error, ours", "bound, printed", "bound, proved"]
    lines = [markdown_table([*headings, "standard deviation of f"], rows)]
    for penalty in dict.fromkeys(penalty for penalty, _ in results.records):
        counts, errors = _line(results, penalty, "paper's draws")
        slope = np.polyfit(np.log(counts[-4:]), np.log(errors[-4:]), 1)[0]
        lines.append(f"λ = {penalty}: the error falls as m^{slope:.2f} over the last four sizes.")
    return "\n\n".join(lines)


def _line(results: Results, penalty: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    chosen = [(int(m), record[key]) for (p, m), record in results.records.items() if p == penalty]
    counts, values = np.transpose(chosen)
    return counts, values


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    penalties = list(dict.fromkeys(penalty for penalty, _ in results.records))
    figure, panels = plt.subplots(
        1, len(penalties), figsize=(4.6 * len(penalties), 3.8), squeeze=False
    )
    styles = {
        "paper's draws": ("C0", "o-", "error, independent draws"),
        "ours": ("C2", "s-", "error, orthogonal pairs"),
        "proved": ("C1", "--", "bound, proved"),
        "paper": ("C3", ":", "bound, as printed"),
    }
    for panel, penalty in zip(panels[0], penalties, strict=True):
        for key, (color, style, label) in styles.items():
            counts, values = _line(results, penalty, key)
            panel.loglog(counts, values, style, color=color, label=label, markersize=4)
        counts, errors = _line(results, penalty, "paper's draws")
        guide = errors[-1] * 1.6 * np.sqrt(counts[-1] / counts)
        panel.loglog(counts, guide, color="0.6", linewidth=1, label=r"$m^{-1/2}$")
        panel.set(xlabel="features m", ylabel="root mean square of f_m − f", title=f"λ = {penalty}")
    panels[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="convergence",
    title="Fourier features approach the exact solution",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
