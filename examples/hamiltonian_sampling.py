"""
Hamiltonian Monte Carlo without a gradient
==========================================

Hamiltonian Monte Carlo makes long moves along the gradient of the log density. An expensive program
has no gradient to give; but rows from a first, poor run have a density that can be fitted, and its
gradient drives the moves. Each is accepted or rejected by the true density, so that the chains have
the right distribution whatever the fit is worth.
"""

# %%
# An expensive target
# -------------------
# The growth of a population, n' = r n (1 − n/k) − c n²/(1 + n²), is simulated step by step and
# compared with nine measurements. The posterior of log r and log k, given c, is the target: a
# function that NumPy evaluates for many rows, and that we pretend to be slow.

import blackjax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from blackjax.diagnostics import effective_sample_size

from kexpfam import KernelExponentialFamily
from kexpfam.bridges import jax_log_density


def growth(rows, n_steps=90):
    """The population at nine times, for rows of (log r, log k)."""
    rate, capacity = np.exp(rows.T)
    size, seen = np.full(len(rows), 0.5), []
    for number in range(1, n_steps + 1):
        change = rate * size * (1 - size / capacity) - 0.4 * size**2 / (1 + size**2)
        size = np.maximum(size + 0.1 * change, 0.0)
        if number % 10 == 0:
            seen.append(size)
    return np.column_stack(seen)


truth = np.log([[0.8, 3.0]])
measured = growth(truth) + np.random.default_rng(1).normal(0, 0.35, 9)
calls = 0


def log_posterior(rows):
    """Measurements with errors of 0.35, and normal priors with standard deviations of one."""
    global calls
    calls += len(rows)
    misfit = ((growth(rows) - measured) ** 2).sum(axis=1) / 0.35**2
    return -(misfit + ((rows - [[-0.5, 1.0]]) ** 2).sum(axis=1)) / 2


# %%
# A first run
# -----------
# Random walks of sixteen chains, all that can be done without a gradient.


def metropolis(propose, starts, n_steps, seed):
    """Chains side by side; `propose` gives new rows and the log of the proposal's correction."""
    generator = np.random.default_rng(seed)
    rows, logs, kept, accepted = starts, log_posterior(starts), [], []
    for _ in range(n_steps):
        proposed, corrections = propose(rows, generator)
        new = log_posterior(proposed)
        taken = np.log(generator.random(len(rows))) < new - logs + corrections
        rows, logs = np.where(taken[:, None], proposed, rows), np.where(taken, new, logs)
        kept.append(rows)
        accepted.append(taken.mean())
    return np.stack(kept, axis=1), np.mean(accepted)


def blind_walk(rows, generator):
    return rows + 0.2 * generator.standard_normal(rows.shape), 0.0


starts = np.repeat(truth, 16, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((16, 2))
walked, _ = metropolis(blind_walk, starts, 400, seed=0)
pilot = walked[:, 100::5].reshape(-1, 2)

# %%
# The fit, and the moves
# ----------------------
# `jax_log_density` hands the fitted log density to blackjax, whose integrator follows it for twelve
# steps. Its errors and those of the fit are corrected together: the difference in true log density
# and in kinetic energy is what a proposal is judged by.

model = KernelExponentialFamily(n_components=128, random_state=0).fit(pilot)
spread = pilot.std(axis=0)
metric = blackjax.mcmc.metrics.default_metric(jnp.asarray(spread**2))
integrate = blackjax.mcmc.integrators.velocity_verlet(jax_log_density(model), metric.kinetic_energy)


@jax.jit
@jax.vmap
def move(row, momentum):
    """Where twelve steps lead, and the kinetic energy lost on the way."""
    start = blackjax.mcmc.integrators.new_integrator_state(jax_log_density(model), row, momentum)
    end = jax.lax.fori_loop(0, 12, lambda _, state: integrate(state, 0.25), start)
    return end.position, metric.kinetic_energy(momentum) - metric.kinetic_energy(end.momentum)


def hamiltonian(rows, generator):
    momenta = generator.standard_normal(rows.shape) / spread
    ends, lost = move(rows, momenta)
    return np.asarray(ends, float), np.asarray(lost, float)


# %%
# The same number of evaluations for both
# ---------------------------------------
# The random walk, too, learns from the first run: its steps have the shape of the rows' covariance,
# at the size that is best for a Gaussian.

root = 2.38 / np.sqrt(2) * np.linalg.cholesky(np.cov(pilot.T))


def random_walk(rows, generator):
    return rows + generator.standard_normal(rows.shape) @ root.T, 0.0


results = {}
for name, propose in {"random walk": random_walk, "Hamiltonian, fitted": hamiltonian}.items():
    before = calls
    chains, acceptance = metropolis(propose, walked[:, -1], 300, seed=1)
    worth = float(np.min(effective_sample_size(jnp.asarray(chains))))
    results[name] = chains
    print(
        f"{name:20s} evaluations {calls - before}, acceptance {acceptance:.2f}, "
        f"effective draws {worth:.0f}"
    )

# %%
# The picture
# -----------
# The true posterior as contours (evaluated on a grid, as we only pretend it is slow), one chain's
# first forty moves, and how fast each forgets.

x, y = np.linspace(-1.1, 1.1, 90), np.linspace(0.5, 2.5, 90)
grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
logs = log_posterior(grid).reshape(90, 90)
levels = logs.max() - np.array([8.0, 4.5, 2.0, 0.5])


def autocorrelation(chains, lag):
    """Of log k, averaged over chains."""
    values = chains[:, :, 1] - chains[:, :, 1].mean()
    return (values[:, lag:] * values[:, : values.shape[1] - lag]).mean() / (values**2).mean()


figure, panels = plt.subplots(1, 3, figsize=(11.5, 3.8), layout="constrained")
for panel, (name, chains) in zip(panels, results.items(), strict=False):
    panel.contour(x, y, logs, levels=levels, colors="gray", linestyles="solid", linewidths=0.8)
    panel.plot(*chains[0, :40].T, "o-", markersize=3, linewidth=0.8)
    panel.set(title=name, xlabel="log r", ylabel="log k")
    panels[2].plot([autocorrelation(chains, lag) for lag in range(40)], label=name)
panels[2].axhline(0, color="black", linewidth=0.8)
panels[2].set(title="autocorrelation of log k", xlabel="steps apart")
panels[2].legend()
plt.show()
