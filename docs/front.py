"""The picture at the top of the README: three questions to one table.

    python docs/front.py

Fisher's irises (from scikit-learn), with their species as a column of words and a tenth of the
cells taken out. Left: rows, and draws of `KernelChain`. Middle: one column given another, by
`ConditionalKernelExponentialFamily`. Right: how likely every species is, given one value, by
imputations of `KernelChain`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from kexpfam import ConditionalKernelExponentialFamily, KernelChain
from kexpfam.plotting import plot_conditional

HERE = Path(__file__).parent
COLORS = {"setosa": "#0072b2", "versicolor": "#e69f00", "virginica": "#009e73"}


def main() -> None:
    """Fit, and draw."""
    loaded = load_iris(as_frame=True)
    whole = loaded.data.rename(columns=lambda name: name.removesuffix(" (cm)"))
    whole["species"] = loaded.target_names[loaded.target]
    generator = np.random.default_rng(0)
    table = whole.mask(generator.random(whole.shape) < 0.1)
    chain = KernelChain(random_state=0).fit(table)

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    _draws(axes[0], chain, whole)
    # Widths are measured to a tenth; a density between the tenths is what is drawn.
    model = ConditionalKernelExponentialFamily(bounds=(0, None), lattice=None, random_state=0)
    model.fit(whole[["petal length"]], whole["petal width"])
    plot_conditional(model, whole[["petal length"]], whole["petal width"], ax=axes[1])
    axes[1].set_title("p(petal width | petal length)")
    _species(axes[2], chain)
    figure.savefig(HERE / "images" / "front.png", dpi=120)


def _draws(ax: plt.Axes, chain: KernelChain, whole: object) -> None:
    drawn = chain.sample(6000, random_state=0)
    for name, color in COLORS.items():
        some = drawn[drawn["species"] == name]
        ax.plot(some["sepal length"], some["petal length"], ".", ms=2, alpha=0.12, color=color)
        rows = whole[whole["species"] == name]  # type: ignore[index]
        ax.plot(rows["sepal length"], rows["petal length"], "o", ms=3.5, color=color, label=name)
    ax.set(xlabel="sepal length", ylabel="petal length")
    ax.set_title("150 rows (dots) and draws (haze)")
    ax.legend(frameon=False, loc="upper left")


def _species(ax: plt.Axes, chain: KernelChain) -> None:
    import pandas as pd

    lengths = np.linspace(1.0, 7.0, 61)
    rows = pd.DataFrame({"petal length": lengths})
    rows = rows.reindex(columns=chain.feature_names_in_)
    drawn = [chain.impute(rows, random_state=seed)["species"] for seed in range(400)]
    shares = pd.concat(drawn, axis=1)
    for name, color in COLORS.items():
        ax.plot(lengths, (shares == name).mean(axis=1), color=color, label=name)
    ax.set(xlabel="petal length (nothing else known)", ylabel="probability", ylim=(-0.02, 1.02))
    ax.set_title("p(species | petal length)")


if __name__ == "__main__":
    main()
