"""How reliable a fitted density is: one definition, for warnings, commands and pages.

A density is judged by up to three kinds of figures, which model files keep:

| record             | what it says                                                      |
|--------------------|-------------------------------------------------------------------|
| Comparison         | what rows that the fit has not seen say of it                     |
| NormalizerEstimate | log Z, where one had to be estimated                              |
| FlowQuality        | numerical errors of the probability flow, where there is one      |

Whether a figure is good or doubtful, and in which words, is decided here and nowhere else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.notebook import html_table

__all__ = [
    "POOR_FLOW",
    "Comparison",
    "Finding",
    "FlowQuality",
    "Health",
    "NormalizerEstimate",
    "flow_complaint",
    "flow_quality",
    "normalizer_complaint",
    "nothing_compared",
]

# Standard errors that a model must gain over its base density.
_SURE = 1.0
# Importance weights with a heavier tail have no error bar (Vehtari et al. 2024); with fewer
# effective draws the error bar itself is guesswork; a larger error shifts every log density.
_HEAVIEST_TAIL, _FEWEST_EFFECTIVE, _LARGEST_ERROR = 0.7, 200.0, 0.1
# Times its tolerance, an error of the flow is too large.
POOR_FLOW = 100.0
OPTIMISM = "Optimism"
# Shares of pairs; a half would be perfect. Training rows are always somewhat likelier than others.
_MOST_BELOW_DRAWS, _MOST_BELOW_TRAINING = 0.65, 0.8


class Comparison(NamedTuple):
    """The figures of a fit on rows that it has not seen.

    `gain`, with its standard error, is what the model gained over its base density in mean log
    density; NaN where there was no tilt to compare. All other figures are those of the density that
    was returned: the model, or its base density where that was the better one.

    | name           | meaning                                                                    |
    |----------------|----------------------------------------------------------------------------|
    | held_out       | mean log density of rows that the fit has not seen, with its error         |
    | training       | mean log density of rows that it has                                       |
    | below_training | share of pairs in which the held-out row is less likely than one seen      |
    | below_draws    | share of pairs in which it is less likely than a draw of the model         |
    """

    n_rows: int
    gain: float
    gain_error: float
    held_out: float
    held_out_error: float
    training: float
    below_training: float
    below_draws: float

    @property
    def optimism(self) -> float:
        """Nats by which rows that were fitted to are likelier than those held out, on average."""
        return self.training - self.held_out

    @property
    def wins(self) -> bool:
        """Whether the model is significantly better than its base density."""
        return beyond_doubt(self.gain, self.gain_error)


def beyond_doubt(gain: float, error: float) -> bool:
    """Whether a gain per row is more than chance, by its standard error."""
    return bool(gain > _SURE * error)


def nothing_compared() -> Comparison:
    """Where there were too few rows to hold any out."""
    unknown = math.nan
    return Comparison(0, unknown, unknown, unknown, unknown, unknown, unknown, unknown)


class NormalizerEstimate(NamedTuple):
    """log Z, and how far to trust it. Sizes and shapes are NaN where nothing was drawn."""

    log_normalizer: float
    error: float
    effective_sample_size: float
    pareto_shape: float


class FlowQuality(NamedTuple):
    """Estimated numerical errors of log densities along the flow, in nats, at held-out rows."""

    n_steps: int
    tolerance: float
    median_error: float
    nearly_largest_error: float
    largest_error: float


def flow_quality(n_steps: int, tolerance: float, errors: Float[np.ndarray, " n"]) -> FlowQuality:
    """What to keep of errors at rows; zeros where there were none."""
    if not len(errors):
        errors = np.zeros(1)
    quantiles = np.quantile(errors, [0.5, 0.99, 1.0])
    return FlowQuality(n_steps, tolerance, *map(float, quantiles))


class Finding(NamedTuple):
    """A figure, what it means, and whether it is as it should be (None: no matter)."""

    name: str
    value: str
    meaning: str
    good: bool | None = None


class Health(NamedTuple):
    """All that is known of how reliable a density is."""

    has_tilt: bool
    comparison: Comparison
    normalizer: NormalizerEstimate | None = None
    flow: FlowQuality | None = None

    @property
    def complaints(self) -> list[str]:
        """What is wrong, in whole sentences; none where nothing is."""
        found = [_draws_complaint(self.comparison), _training_complaint(self.comparison)]
        if self.has_tilt and self.normalizer is not None:
            found.append(normalizer_complaint(self.normalizer))
        if self.has_tilt and self.flow is not None and self._poor_flow:
            found.append(
                "The probability flow was not followed closely enough: at some held-out rows its "
                f"error estimate reaches {self.flow.largest_error:.2g} nats. Try a smaller "
                "tolerance."
            )
        return [one for one in found if one is not None]

    @property
    def _poor_flow(self) -> bool:
        """Whether more than a few rows, which may lie far out, have a large error."""
        assert self.flow is not None
        return not self.flow.nearly_largest_error <= POOR_FLOW * self.flow.tolerance

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.complaints

    @property
    def about_the_tilt(self) -> str:
        """A sentence on whether the model differs from its base density, and why."""
        n_rows, gain, error = self.comparison[:3]
        if n_rows == 0:
            if self.has_tilt:
                return "The model was not compared with its base density."
            return "There are too few rows to hold some out: the model is its base density."
        if math.isnan(gain):
            if self.has_tilt:
                return "The model was not compared with its base density."
            return (
                "No tilt was found that pays on held-out rows, or none was asked for: the model is "
                "its base density."
            )
        gained = f"{_signed(gain)} ± {error:.2g} nats per row over its base density"
        if self.has_tilt:
            return f"On {n_rows} held-out rows the model gains {gained}."
        return (
            f"On {n_rows} held-out rows the model gained {gained}, which is not enough: the base "
            "density is returned."
        )

    @property
    def in_words(self) -> str:
        """Everything in a line or two."""
        return " ".join([self.about_the_tilt, *self.complaints])

    def __repr__(self) -> str:
        return f"<Health: {'sound' if self.good else 'doubtful'}. {self.in_words}>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.value, one.meaning) for one in self.findings()]
        return html_table(self.in_words, ["Figure", "Value", "What it means"], rows)

    def headlines(self) -> list[Finding]:
        """The figures to show first: the optimism, and what is not as it should be."""
        return [one for one in self.findings() if one.name == OPTIMISM or one.good is False]

    def findings(self) -> list[Finding]:
        """Every figure that there is."""
        found = [*_comparison_findings(self)]
        if self.normalizer is not None and self.has_tilt:
            found += _normalizer_findings(self.normalizer)
        if self.flow is not None:
            found += _flow_findings(self.flow, self.has_tilt, not self._poor_flow)
        return found


def normalizer_complaint(estimate: NormalizerEstimate) -> str | None:
    """Why log Z is not to be relied upon, or None."""
    effective, shape = estimate.effective_sample_size, estimate.pareto_shape
    reasons = []
    if effective < _FEWEST_EFFECTIVE:
        reasons.append(f"only {effective:.0f} of the draws carry the estimate")
    if shape > _HEAVIEST_TAIL:
        reasons.append(f"the importance weights have a tail of shape {shape:.2f}")
    if not estimate.error <= _LARGEST_ERROR:
        reasons.append(f"its error is {estimate.error:.2g} nats")
    if not reasons:
        return None
    if math.isnan(effective):
        finer = "normalizer=QuadratureNormalizer(most_panels=3072)"
    else:
        finer = (
            "normalizer=ImportanceNormalizer(n_draws=500_000) or, in one or two columns, "
            "normalizer='quadrature'"
        )
    return (
        f"The normalizing constant is unreliable: {' and '.join(reasons)}. Log densities may be "
        "shifted by an unknown constant; gradients are not affected. Try a base density closer to "
        "the data (base='mixture'), a larger penalty, or a more precise normalizer, such as "
        f"{finer}."
    )


def flow_complaint(errors: Float[np.ndarray, " n"], tolerance: float) -> str | None:
    """Why log densities along the flow are not to be relied upon, or None."""
    poor = int((~(errors <= POOR_FLOW * tolerance)).sum())
    if not poor:
        return None
    return (
        f"The probability flow could not be followed at {poor} of {len(errors)} rows: its error "
        f"estimate is above {POOR_FLOW:g} times the tolerance of {tolerance:g}. Their log "
        "densities are those of the base density. Such rows lie far outside the data as a rule; "
        "score_samples(X, return_error=True) says which they are."
    )


def _pair_error(n_rows: int) -> float:
    """The standard error of a share of pairs (Mann and Whitney, under no difference)."""
    return math.sqrt(1 / (6 * n_rows)) if n_rows else math.inf


def _beyond(share: float, limit: float, n_rows: int) -> bool:
    return share > max(limit, 0.5 + 3 * _pair_error(n_rows))


def _draws_complaint(comparison: Comparison) -> str | None:
    share = comparison.below_draws
    if not _beyond(share, _MOST_BELOW_DRAWS, comparison.n_rows):
        return None
    return (
        f"New rows do not look like draws of the model: a held-out row is less likely than a draw "
        f"in {100 * share:.0f} % of pairs, where 50 % would be perfect. There may be too few rows "
        "for so many columns, or columns that depend on each other."
    )


def _training_complaint(comparison: Comparison) -> str | None:
    share = comparison.below_training
    if not _beyond(share, _MOST_BELOW_TRAINING, comparison.n_rows):
        return None
    return (
        "The model overfits the rows that it was fitted to: their mean log density is "
        f"{comparison.optimism:.3g} nats above that of held-out rows. Judge "
        "new rows by the held-out figure, and the model by other rows than these."
    )


def _comparison_findings(health: Health) -> list[Finding]:
    comparison = health.comparison
    n_rows, gain, error = comparison[:3]
    if n_rows == 0:
        return [Finding("Held-out rows", "0", health.about_the_tilt)]
    return [
        Finding(
            "Gain over the base density",
            "–" if math.isnan(gain) else f"{_signed(gain)} ± {error:.2g}",
            health.about_the_tilt,
        ),
        Finding(
            "Held-out mean log density",
            f"{comparison.held_out:.4g} ± {comparison.held_out_error:.2g}",
            f"of {n_rows} rows that the fit had not seen: what to expect of new rows",
        ),
        Finding(
            OPTIMISM,
            _signed(comparison.optimism),
            "nats by which rows that were fitted to are likelier than those held out",
            _training_complaint(comparison) is None,
        ),
        Finding(
            "Held-out rows below draws",
            f"{100 * comparison.below_draws:.0f} %",
            "of pairs have the row less likely than the draw; 50 % would be perfect",
            _draws_complaint(comparison) is None,
        ),
    ]


def _normalizer_findings(estimate: NormalizerEstimate) -> list[Finding]:
    good = normalizer_complaint(estimate) is None
    drawn = not math.isnan(estimate.effective_sample_size)
    how = "by draws of the base density" if drawn else "by quadrature"
    found = [
        Finding(
            "log Z",
            f"{estimate.log_normalizer:.4g} ± {estimate.error:.2g}",
            f"{how}; every log density is off by as much as this is",
            good,
        )
    ]
    if drawn:
        found += [
            Finding(
                "Effective sample size",
                f"{estimate.effective_sample_size:.0f}",
                "of the draws that estimate log Z",
                not estimate.effective_sample_size < _FEWEST_EFFECTIVE,
            ),
            Finding(
                "Pareto shape",
                f"{estimate.pareto_shape:.2f}",
                f"tail of the weights: dependable below 0.5, worthless above {_HEAVIEST_TAIL}",
                not estimate.pareto_shape > _HEAVIEST_TAIL,
            ),
        ]
    return found


def _flow_findings(flow: FlowQuality, has_tilt: bool, good: bool) -> list[Finding]:
    if not has_tilt:
        return [
            Finding("Steps of the flow", "0", "the base density alone is known exactly, no flow")
        ]
    return [
        Finding(
            "Steps of the flow",
            str(flow.n_steps),
            f"chosen to meet the tolerance of {flow.tolerance:g} nats",
        ),
        Finding(
            "Errors of the flow",
            f"{flow.median_error:.1g}, {flow.nearly_largest_error:.1g}, {flow.largest_error:.1g}",
            "median, 99th percentile and largest estimate at held-out rows, in nats",
            good,
        ),
    ]


def _signed(number: float) -> str:
    return f"{number:+.3g}"
