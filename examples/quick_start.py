"""
Quick start
===========

Fit a density to a table of numbers, ask for log p, its gradient and new rows, and look at them.
"""

# %%
# Rows of a known density
# -----------------------
# Any table will do: NumPy, pandas or polars. Here the truth is known, so that we can compare.

import matplotlib.pyplot as plt

from kexpfam import KernelExponentialFamily
from kexpfam.datasets import make_density
from kexpfam.plotting import plot_density, plot_score_field

truth = make_density("ring")
X = truth.sample(800, random_state=0)

# %%
# Fit
# ---
# The noise level, the penalty and the length-scales are tuned on held-out rows.

model = KernelExponentialFamily(n_components=256, random_state=0).fit(X)
print(f"log Z = {model.log_normalizer_:.3f} ± {model.log_normalizer_error_:.3f}")
print("noise scale", round(model.noise_scale_, 3), " length-scales", model.length_scale_.round(2))

# %%
# Judge
# -----
# The mean log density of fresh rows: ours, that of the base density the fit starts from, and the
# truth, which nothing can beat in the mean.

fresh = truth.sample(5000, random_state=1)
print(f"model {model.score(fresh):.3f}")
print(f"base  {model.base_.log_density(fresh).mean():.3f}")
print(f"truth {truth.log_density(fresh).mean():.3f}")

# %%
# New rows
# --------
# Markov chains side by side, adapted and diagnosed.

chains = model.sample_chains(1000, random_state=0)
draws = chains.rows(1000)
print(f"largest R-hat {chains.r_hat.max():.3f}, acceptance {chains.acceptance.mean():.2f}")

# %%
# The picture
# -----------

figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
limits = list(zip(X.min(axis=0) - 1, X.max(axis=0) + 1, strict=True))
plot_density(model, X, ax=panels[0], limits=limits, colorbar=False)
plot_score_field(model, ax=panels[1], limits=limits, colorbar=False)
panels[2].scatter(*draws.T, s=4, color="tab:blue", alpha=0.5, linewidths=0)
panels[2].set(xlim=limits[0], ylim=limits[1], xlabel="$x_0$", ylabel="$x_1$")
for panel, title in zip(panels, ("density and rows", "its gradient", "draws"), strict=True):
    panel.set_title(title)
plt.show()
