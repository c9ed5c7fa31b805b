"""Stage 3: symmetric noise, known by its characteristic function."""

from kexpfam.noise.laws import (
    CharacteristicNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    UniformNoise,
)

NOISES: dict[str | None, Noise] = {
    "gaussian": GaussianNoise(),
    "laplace": LaplaceNoise(),
    "uniform": UniformNoise(),
    None: GaussianNoise(),  # at scale zero
}

__all__ = [
    "NOISES",
    "CharacteristicNoise",
    "GaussianNoise",
    "LaplaceNoise",
    "Noise",
    "UniformNoise",
]
