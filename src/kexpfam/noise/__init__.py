"""Stage 3: symmetric noise, known by its characteristic function, drawn or expanded."""

from kexpfam.noise.distributions import (
    AutomaticNoise,
    CharacteristicNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    NoNoise,
    UniformNoise,
)
from kexpfam.noise.drawn import MonteCarloNoise
from kexpfam.noise.expanded import TaylorMoments, TaylorNoise

NOISES: dict[str | None, Noise] = {
    "auto": AutomaticNoise(),
    "gaussian": GaussianNoise(),
    "laplace": LaplaceNoise(),
    "uniform": UniformNoise(),
    None: NoNoise(),
}

__all__ = [
    "NOISES",
    "AutomaticNoise",
    "CharacteristicNoise",
    "GaussianNoise",
    "LaplaceNoise",
    "MonteCarloNoise",
    "NoNoise",
    "Noise",
    "TaylorMoments",
    "TaylorNoise",
    "UniformNoise",
]
