"""The estimators, with the interface of scikit-learn."""

from kexpfam.estimators.conditional_kernel_exponential_family import (
    ConditionalKernelExponentialFamily,
)
from kexpfam.estimators.conditionals import TableConditional
from kexpfam.estimators.explanations import Explanation
from kexpfam.estimators.kernel_anomaly_detector import KernelAnomalyDetector
from kexpfam.estimators.kernel_chain import KernelChain
from kexpfam.estimators.kernel_diffusion import KernelDiffusion
from kexpfam.estimators.kernel_exponential_family import KernelExponentialFamily
from kexpfam.estimators.loading import load

__all__ = [
    "ConditionalKernelExponentialFamily",
    "Explanation",
    "KernelAnomalyDetector",
    "KernelChain",
    "KernelDiffusion",
    "KernelExponentialFamily",
    "TableConditional",
    "load",
]
