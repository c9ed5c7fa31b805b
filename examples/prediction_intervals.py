"""
Prediction intervals: skew, branches, heavy tails and bounds
============================================================

Five tables whose noise is no bell of one width, each with the density of y given x that
`ConditionalKernelExponentialFamily` finds. It is normalized exactly, and its intervals are where
the rows are: wide here and narrow there, in two pieces, or short on one side.
"""

# %%
# Tables
# ------
# A scale that changes tenfold; two branches; noise with a long upper tail; noise with heavy tails
# (Student's t with two degrees of freedom); and shares, which stay between zero and one.

import matplotlib.pyplot as plt
import numpy as np

from kexpfam import ConditionalKernelExponentialFamily
from kexpfam.plotting import plot_conditional, plot_coverage


def tables(n_rows, seed):
    generator = np.random.default_rng(seed)
    x = generator.uniform(-2, 2, n_rows)
    wave, normal = np.sin(2 * x), generator.standard_normal(n_rows)
    side = np.where(generator.random(n_rows) < 0.6, 1.0, -1.0)
    targets = {
        "scale that changes tenfold": wave + 0.1 * 10 ** (x / 4 + 0.5) * normal,
        "two branches": side * (0.3 + x**2 / 2) + 0.2 * normal,
        "skew": wave + 0.4 * generator.gamma(1.2, size=n_rows),
        "heavy tails": wave + 0.15 * np.clip(generator.standard_t(2, n_rows), -25, 25),
        "shares": generator.beta(2 * np.exp(x), 2.0),
    }
    return x[:, None], targets


X, targets = tables(400, seed=0)
X_new, new_targets = tables(2000, seed=1)

# %%
# Fits
# ----
# Bounds are looked for; one kernel and few functions make the example quick. The gain is what the
# shape of the density is worth on held-out rows, beyond a bell of the right location and scale:
# where it is not worth more than its error, the bell is returned. Coverage is that of fresh rows.

settings = {"bounds": "auto", "kernel": "rbf", "n_components": 20, "random_state": 0}
models = {}
for name, y in targets.items():
    model = ConditionalKernelExponentialFamily(**settings).fit(X, y)
    models[name] = model
    low, high = model.predict_interval(X_new, coverage=0.9).T
    inside = np.mean((low <= new_targets[name]) & (new_targets[name] <= high))
    print(f"{name:<28} gain {model.gain_:5.2f} nats, 90 % intervals hold {inside:.1%}", end="")
    print(f", bounds {model.bounds_}" if np.isfinite(model.bounds_).any() else "")

# %%
# Pictures
# --------
# The smallest regions that hold y with a probability of 50, 90 and 99 %, and some of the rows. The
# last panel asks whether intervals of the two branches cover what they say, at every level.

figure, panels = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for panel, (name, model) in zip(panels.ravel(), models.items(), strict=False):
    limits = (-3, 3) if name == "heavy tails" else None
    plot_conditional(
        model, X, targets[name], max_rows=300, limits=limits, colorbar=panel is panels[0, 2],
        ax=panel,
    )  # fmt: skip
    panel.set_title(name)
plot_coverage(models["two branches"], X_new, new_targets["two branches"], ax=panels[1, 2])
plt.show()

# %%
# In pieces
# ---------
# Where there are two branches, the shortest set that holds y with 90 % is two intervals, and one
# interval between quantiles is mostly empty.

at = np.array([[1.5]])
print("one interval:   ", np.round(models["two branches"].predict_interval(at)[0], 2))
pieces = models["two branches"].predict_interval(at, kind="highest_density")
print("highest density:", np.round(pieces[0], 2).tolist())
