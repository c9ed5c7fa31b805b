"""Pictures of fitted models with matplotlib: ``pip install 'kexpfam[plot]'``.

Every function draws into `ax` (or `axes`), or into a new figure, and returns the axes. No figure is
shown and no setting of matplotlib is changed. Colors keep their order in gray and for color-blind
readers.
"""

from kexpfam.plotting.calibration import plot_calibration, plot_log_density_quantiles
from kexpfam.plotting.comparison import plot_comparison
from kexpfam.plotting.conditional import (
    plot_conditional,
    plot_conditional_curves,
    plot_coverage,
    plot_pit,
)
from kexpfam.plotting.corner import plot_corner
from kexpfam.plotting.density import plot_density
from kexpfam.plotting.history import plot_tuning_history
from kexpfam.plotting.loss_surface import plot_loss_surface
from kexpfam.plotting.noise_levels import plot_noise_levels
from kexpfam.plotting.score_field import plot_score_field

__all__ = [
    "plot_calibration",
    "plot_comparison",
    "plot_conditional",
    "plot_conditional_curves",
    "plot_corner",
    "plot_coverage",
    "plot_density",
    "plot_log_density_quantiles",
    "plot_loss_surface",
    "plot_noise_levels",
    "plot_pit",
    "plot_score_field",
    "plot_tuning_history",
]
