"""Stage 3: symmetric noise, known by its characteristic function."""

from kexpfam.noise.laws import (
    AutomaticNoise,
    CharacteristicNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    NoNoise,
    UniformNoise,
)

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
    "NoNoise",
    "Noise",
    "UniformNoise",
]
