"""Tests of whether rows come from a density of which only the gradient of the log is known."""

from kexpfam.goodness_of_fit.finite_set import FiniteSetResult, fssd_test
from kexpfam.goodness_of_fit.kernel_stein import SteinResult, stein_test
from kexpfam.goodness_of_fit.kernels import Profile

__all__ = ["FiniteSetResult", "Profile", "SteinResult", "fssd_test", "stein_test"]
