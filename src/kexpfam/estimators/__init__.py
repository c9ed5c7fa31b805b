"""The scikit-learn face of the library."""

from kexpfam.estimators.conditional_kernel_exponential_family import (
    ConditionalKernelExponentialFamily,
)
from kexpfam.estimators.conditionals import TableConditional
from kexpfam.estimators.kernel_chain import KernelChain
from kexpfam.estimators.kernel_diffusion import KernelDiffusion
from kexpfam.estimators.kernel_exponential_family import KernelExponentialFamily
from kexpfam.estimators.loading import load

__all__ = [
    "ConditionalKernelExponentialFamily",
    "KernelChain",
    "KernelDiffusion",
    "KernelExponentialFamily",
    "TableConditional",
    "load",
]
