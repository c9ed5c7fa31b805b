"""Stage 10: draws from the fitted density, by Markov chain Monte Carlo."""

from kexpfam.exceptions import SamplingWarning
from kexpfam.sampling.chains import Chains
from kexpfam.sampling.methods import METHODS
from kexpfam.sampling.sample import sample_density
from kexpfam.sampling.target import LogDensity, jax_log_density

__all__ = [
    "METHODS",
    "Chains",
    "LogDensity",
    "SamplingWarning",
    "jax_log_density",
    "sample_density",
]
