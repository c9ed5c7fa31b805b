"""
Does a simulator follow its distribution?
=========================================

A Stein test asks whether rows come from a density of which only the gradient of the logarithm is
known: no normalizing constant, and no rows of the true distribution.
"""

# %%
# A simulator with a hidden fault
# -------------------------------
# A particle in two wells, with potential U(x, y) = (x² − 1)² + y², settles into the distribution
# p ∝ exp(−2U). The usual way to simulate it takes small steps
#
#     x ← x − δ ∇U(x) + √δ ξ,
#
# and is right only in the limit δ → 0. How small is small enough?

import matplotlib.pyplot as plt
import numpy as np

from kexpfam import KernelExponentialFamily
from kexpfam.goodness_of_fit import fssd_test, stein_test
from kexpfam.plotting import plot_density


def slope(rows):
    """∇U."""
    x, y = rows.T
    return np.column_stack([4 * x * (x**2 - 1), 2 * y])


def gradient(rows):
    """∇log p = −2∇U."""
    return -2 * slope(rows)


def simulate(step, n_rows=1000, duration=10.0, seed=0):
    """The ends of independent runs: rows of a Stein test must not depend on one another."""
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-1, 1, (n_rows, 2))
    for _ in range(round(duration / step)):
        rows = rows - step * slope(rows) + np.sqrt(step) * generator.standard_normal(rows.shape)
    return rows


# %%
# How often is the fault seen?
# ----------------------------
# One p-value is a matter of luck: a simulator without fault falls below 0.05 once in twenty times.
# So every step size is simulated twenty times, 1000 rows each, and we count. `stein_test` compares
# everywhere at once; `fssd_test` at a few locations, which it looks for with some of the rows.

steps, n_repeats = [0.01, 0.02, 0.05, 0.1], 20
simulated = {step: [simulate(step, seed=seed) for seed in range(n_repeats)] for step in steps}


def share_rejected(test, distribution, **options):
    """For every step size, how often the p-value is below 0.05."""
    return [
        np.mean(
            [test(distribution, rows, random_state=0, **options).p_value < 0.05 for rows in repeats]
        )
        for repeats in simulated.values()
    ]


shares = {
    "Stein test": share_rejected(stein_test, gradient, n_null_draws=300),
    "FSSD test": share_rejected(fssd_test, gradient, locations="optimized"),
}

# %%
# With rows of the real thing instead of its distribution
# -------------------------------------------------------
# Often the distribution is unknown, but some rows of it are there (here: a simulation with tiny
# steps). A fitted model then stands in for it. It is an estimate, and the more rows are tested, the
# more the test sees of the model's own errors: what it says of the smallest steps tells how much
# that is.

reference = simulate(0.002, n_rows=2000, seed=n_repeats)
model = KernelExponentialFamily(n_components=128, random_state=0).fit(reference)
shares["Stein test, fitted distribution"] = share_rejected(stein_test, model, n_null_draws=300)
print(f"{'share rejected, by step':24s}", *(f"{step:6}" for step in steps))
for name, found in shares.items():
    print(f"{name:24s}", *(f"{share:6.2f}" for share in found))

# %%
# The picture
# -----------
# The fitted distribution, with rows of the finest and of the coarsest simulation: nobody sees the
# difference by eye.

figure, panels = plt.subplots(1, 3, figsize=(11.5, 3.7), layout="constrained")
limits = [(-2.2, 2.2), (-2, 2)]
for panel, step in zip(panels, (steps[0], steps[-1]), strict=False):
    plot_density(model, simulated[step][0], ax=panel, limits=limits, colorbar=False)
    panel.set(title=f"step {step}", xlabel="$x$", ylabel="$y$")
for name, found in shares.items():
    panels[2].semilogx(steps, found, "o-", label=name)
panels[2].axhline(0.05, color="black", linestyle=":")
panels[2].set(
    xlabel="step of the simulator", ylim=(-0.02, 1.02), title="share of tests that reject"
)
panels[2].legend()
plt.show()
