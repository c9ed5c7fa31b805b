"""
The log ratio of two densities
==============================

Where does one sample have more rows than another, and by how much? The difference of two fitted log
densities answers; here it is compared with the truth, and with a classifier.
"""

# %%
# Two samples
# -----------
# A banana, and a Gaussian of the same means and variances.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline

from kexpfam import KernelExponentialFamily
from kexpfam.bridges import FourierFeatureMap
from kexpfam.datasets import make_density

banana = make_density("banana")  # x0 ~ N(0, 1), x1 ~ N(x0² − 1, 1)
gaussian = multivariate_normal([0, 0], [[1, 0], [0, 3]])
X = banana.sample(1000, random_state=0)
Y = gaussian.rvs(1000, random_state=1)


def true_ratio(rows):
    return banana.log_density(rows) - gaussian.logpdf(rows)


# %%
# Two fits, or one classifier
# ---------------------------
# A classifier between the samples has the log ratio as its log odds. Ours here is logistic
# regression on Fourier features, its penalty chosen by cross-validation.

first = KernelExponentialFamily(n_components=128, random_state=0).fit(X)
second = KernelExponentialFamily(n_components=128, random_state=0).fit(Y)
classifier = make_pipeline(
    FourierFeatureMap(n_components=128, length_scale=2.0, random_state=0),
    LogisticRegressionCV(
        Cs=np.logspace(-2, 2, 5),
        cv=3,
        max_iter=2000,
        l1_ratios=(0,),
        scoring="neg_log_loss",
        use_legacy_attributes=False,
    ),
).fit(np.vstack([X, Y]), np.repeat([1, 0], 1000))

estimates = {
    "two fits": lambda rows: first.score_samples(rows) - second.score_samples(rows),
    "classifier": classifier.decision_function,
}

# %%
# Beside the truth
# ----------------
# On fresh rows of both. The mean log ratio over rows of the first is the Kullback–Leibler
# divergence between the two.

fresh = banana.sample(2000, random_state=2), gaussian.rvs(2000, random_state=3)
print(f"divergence: truth {true_ratio(fresh[0]).mean():.3f}", end="")
for name, estimate in estimates.items():
    print(f", {name} {estimate(fresh[0]).mean():.3f}", end="")
print("\nmedian absolute error of the log ratio, at rows of the banana and of the Gaussian:")
for name, estimate in estimates.items():
    errors = [np.median(np.abs(estimate(rows) - true_ratio(rows))) for rows in fresh]
    print(f"{name:11s} {errors[0]:.3f} {errors[1]:.3f}")

# %%
# The picture
# -----------
# The log ratio where there are rows of either sample; red where the banana has more.

x, y = np.linspace(-3, 3, 150), np.linspace(-5, 7, 150)
grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
somewhere = np.logaddexp(banana.log_density(grid), gaussian.logpdf(grid)) > -8
figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for panel, (name, ratio) in zip(panels, {"truth": true_ratio, **estimates}.items(), strict=True):
    shown = np.where(somewhere, ratio(grid), np.nan).reshape(150, 150)
    image = panel.pcolormesh(x, y, shown, cmap="RdBu_r", vmin=-4, vmax=4, rasterized=True)
    panel.set(title=name, xlabel="$x_0$")
panels[0].set_ylabel("$x_1$")
panels[0].scatter(*X[:300].T, s=3, color="darkred", linewidths=0)
panels[0].scatter(*Y[:300].T, s=3, color="darkblue", linewidths=0)
panels[0].set(xlim=(-3, 3), ylim=(-5, 7))
figure.colorbar(image, ax=panels, label="log ratio", extend="both")
plt.show()
