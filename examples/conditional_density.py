"""
A conditional density from a joint one
======================================

p(y | x) = p(x, y) / ∫ p(x, y') dy': with a fitted joint density, the integral is a sum over a grid
of y. What a regression calls noise may have two humps and any shape.
"""

# %%
# Rows
# ----
# For every x, y has two humps that cross and part again, and a width that grows with x.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from kexpfam import KernelExponentialFamily


def humps(x):
    return 1.5 * np.sin(2 * x), -1.5 * np.sin(2 * x), 0.4 + 0.05 * x


def true_log_density(x, y):
    upper, lower, width = humps(x)
    parts = np.logaddexp(norm.logpdf(y, upper, width), norm.logpdf(y, lower, width))
    return parts - np.log(2)


def draw(n_rows, seed):
    generator = np.random.default_rng(seed)
    x = generator.uniform(-3, 3, n_rows)
    upper, lower, width = humps(x)
    middle = np.where(generator.random(n_rows) < 0.5, upper, lower)
    return np.column_stack([x, generator.normal(middle, width)])


train, fresh = draw(1500, seed=0), draw(2000, seed=1)

# %%
# The joint density, and the conditional one
# ------------------------------------------
# The normalizer of the joint density cancels.

model = KernelExponentialFamily(n_components=256, random_state=0).fit(train)
heights = np.linspace(-4, 4, 321)
step = heights[1] - heights[0]


def log_conditional(x, y, log_joint):
    """log p(y | x) at pairs of x and y, from the log of a joint density."""
    pairs = np.stack(np.broadcast_arrays(x[:, None], heights), axis=-1)
    logs = log_joint(pairs.reshape(-1, 2)).reshape(len(x), -1)
    return log_joint(np.column_stack([x, y])) - logsumexp(logs, axis=1) - np.log(step)


# %%
# Beside the truth
# ----------------
# The mean of log p(y | x) over fresh rows. The base density, a mixture of Gaussians, is what the
# fit starts from. The last line is what a regression would say: the mean of y is zero at every x.
# With waves half as fast the mixture follows them as well as the model does; the fit pays where the
# base density cannot follow.

x, y = fresh[:300].T
print(f"truth             {true_log_density(x, y).mean():.3f}")
print(f"model             {log_conditional(x, y, model.score_samples).mean():.3f}")
print(f"its base density  {log_conditional(x, y, model.base_.log_density).mean():.3f}")
print(f"one Gaussian      {norm.logpdf(y, 0, train[:, 1].std()).mean():.3f}")

# %%
# The picture
# -----------

columns = np.linspace(-2.8, 2.8, 113)
mesh = np.stack(np.meshgrid(columns, heights), axis=-1).reshape(-1, 2)
joint = model.score_samples(mesh).reshape(len(heights), -1)
estimated = np.exp(joint - logsumexp(joint, axis=0)) / step
exact = np.exp(true_log_density(*mesh.T)).reshape(len(heights), -1)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
shades = {"vmin": 0, "vmax": np.quantile(exact, 0.995), "rasterized": True}
for panel, shown, title in zip(panels, (exact, estimated), ("truth", "model"), strict=False):
    panel.pcolormesh(columns, heights, shown, **shades)
    panel.set(title=f"p(y | x): {title}", xlabel="x", ylim=(-3.5, 3.5))
panels[0].set_ylabel("y")
for place, color in zip((-1.5, 0.0, 2.0), ("tab:blue", "tab:orange", "tab:green"), strict=True):
    column = np.abs(columns - place).argmin()
    panels[2].plot(heights, estimated[:, column], color=color, label=f"x = {columns[column]:.1f}")
    panels[2].plot(heights, exact[:, column], color=color, linestyle=":")
panels[2].set(title="model (lines) and truth (dots)", xlabel="y", xlim=(-3.5, 3.5))
panels[2].legend()
plt.show()
