"""Fitted models from files."""

from __future__ import annotations

import os
from typing import TypeAlias

from kexpfam.estimators.conditional_kernel_exponential_family import (
    ConditionalKernelExponentialFamily,
)
from kexpfam.estimators.kernel_anomaly_detector import KernelAnomalyDetector
from kexpfam.estimators.kernel_chain import KernelChain
from kexpfam.estimators.kernel_diffusion import KernelDiffusion
from kexpfam.estimators.kernel_exponential_family import KernelExponentialFamily
from kexpfam.estimators.saving import Saved, restored

__all__ = ["load"]


Loaded: TypeAlias = (
    KernelExponentialFamily
    | KernelDiffusion
    | KernelChain
    | ConditionalKernelExponentialFamily
    | KernelAnomalyDetector
)


def load(path: str | os.PathLike[str]) -> Loaded:
    """The fitted model in a file that `save` wrote.

    Its predictions are those of the saved model, to the last bit. Nothing in the file is executed:
    a file from an untrusted source can only yield a wrong model or an error.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    KernelExponentialFamily, KernelDiffusion, KernelChain, ConditionalKernelExponentialFamily or \
KernelAnomalyDetector
        Fitted.

    Raises
    ------
    ModelFileError
        If the file does not hold a model, is damaged, or was written by a later version.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile, pathlib, kexpfam
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(200, random_state=0)
    >>> settings = {"penalty": 1e-4, "noise_scale": 0.1, "length_scale": 1.0}
    >>> model = kexpfam.KernelExponentialFamily(n_components=32, random_state=0, **settings).fit(X)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ring.kexpfam"
    >>> model.save(path)
    >>> bool((kexpfam.load(path).score_samples(X) == model.score_samples(X)).all())
    True
    """
    kinds: dict[str, type[Saved]] = {
        kind.__name__: kind
        for kind in (
            ConditionalKernelExponentialFamily,
            KernelAnomalyDetector,
            KernelChain,
            KernelDiffusion,
            KernelExponentialFamily,
        )
    }
    model: Loaded = restored(path, kinds)
    return model
