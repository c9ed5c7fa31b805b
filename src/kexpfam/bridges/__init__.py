"""Fitted models for other libraries: JAX, NumPyro, scikit-learn, ArviZ."""

from kexpfam.bridges.arviz_tree import as_arviz
from kexpfam.bridges.fourier_feature_map import FourierFeatureMap
from kexpfam.bridges.log_density import LogDensityFunction, jax_log_density
from kexpfam.bridges.numpyro_distribution import as_numpyro

__all__ = ["FourierFeatureMap", "LogDensityFunction", "as_arviz", "as_numpyro", "jax_log_density"]
