"""
Missing values, filled in
=========================

`KernelDiffusion.impute` draws missing values from their distribution given the rest of the row.
Several such draws say how certain a value is, which a single best guess cannot.
"""

# %%
# The table
# ---------
# Ten measurements of scikit-learn's breast cancer table, which depend on one another strongly and
# not linearly (an area is no linear function of a radius). In 200 rows three values are hidden, in
# one of six sets of columns; the other rows are complete.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

from kexpfam import KernelDiffusion

table = load_breast_cancer(as_frame=True).data.iloc[:, :10]
names = [name.removeprefix("mean ") for name in table.columns]
generator = np.random.default_rng(0)
order = generator.permutation(len(table))
train, truth = table.to_numpy()[order[200:]], table.to_numpy()[order[:200]]
sets = np.argsort(generator.random((6, truth.shape[1])), axis=1) < 3
hidden = sets[generator.integers(len(sets), size=len(truth))]
incomplete = np.where(hidden, np.nan, truth)

# %%
# Draws
# -----
# Twenty from each method that draws. scikit-learn's `IterativeImputer` predicts every column from
# the others by Bayesian ridge regression, and can draw from its predictions.

n_draws = 20
many = np.tile(incomplete, (n_draws, 1))
model = KernelDiffusion(random_state=0).fit(train)
imputer = IterativeImputer(sample_posterior=True, max_iter=20, tol=0, random_state=0)
with warnings.catch_warnings():
    # With draws instead of best guesses there is nothing to converge to.
    warnings.simplefilter("ignore", ConvergenceWarning)
    by_regression = imputer.fit(train).transform(many)
draws = {
    "KernelDiffusion": model.impute(many, random_state=0).reshape(n_draws, *truth.shape),
    "IterativeImputer": by_regression.reshape(n_draws, *truth.shape),
    "column means": SimpleImputer().fit(train).transform(incomplete)[None],
}

# %% Errors and coverage ------------------- The error of the draws' mean, in standard deviations of
# the column; and how often the hidden value lies between the lowest and the highest of twenty
# draws, which for draws of the right distribution is 19/21.

spread = train.std(axis=0)
print(f"{'':18s} error   coverage (0.905 is right)")
for name, found in draws.items():
    error = ((found.mean(axis=0) - truth) / spread)[hidden]
    line = f"{name:18s} {np.sqrt(np.mean(error**2)):.3f}"
    if len(found) > 1:
        inside = (found.min(axis=0) <= truth) & (truth <= found.max(axis=0))
        line += f"   {inside[hidden].mean():.3f}"
    print(line)

# %%
# The picture
# -----------
# Hidden values of three columns against twenty draws of each: their mean, and from the lowest to
# the highest.

figure, panels = plt.subplots(2, 3, figsize=(10.5, 6.4), layout="constrained")
for line, name in zip(panels, ("KernelDiffusion", "IterativeImputer"), strict=True):
    for panel, column in zip(line, (3, 6, 9), strict=True):
        rows = np.flatnonzero(hidden[:, column])
        values, found = truth[rows, column], draws[name][:, rows, column]
        panel.vlines(values, found.min(axis=0), found.max(axis=0), color="tab:blue", alpha=0.4)
        panel.plot(values, found.mean(axis=0), "o", markersize=3, color="tab:blue")
        panel.axline((values.min(), values.min()), slope=1, color="black", linewidth=0.8)
        panel.set(title=names[column], xlabel="hidden value")
    line[0].set_ylabel(f"draws of {name}")
plt.show()
