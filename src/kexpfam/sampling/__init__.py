"""Stage 7: draws by Markov chain Monte Carlo, of any density that JAX can differentiate."""

from kexpfam.exceptions import SamplingWarning
from kexpfam.sampling.chains import Chains
from kexpfam.sampling.methods import METHODS
from kexpfam.sampling.sample import sample_density

__all__ = [
    "METHODS",
    "Chains",
    "SamplingWarning",
    "sample_density",
]
