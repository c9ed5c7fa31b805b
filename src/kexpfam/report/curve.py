"""The density of a single column: p(x) as a curve over the rows.

    p(x) = exp(log density at x),        its share of a bin ≈ p(x) · width

so that curve and histogram, which has area one, are in the same units. Whole numbers and levels
have probabilities instead, which stand in the pictures of `kexpfam.report.marginals`.
"""

from __future__ import annotations

import numpy as np

from kexpfam.report.charts import histogram_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.marginals import histogram
from kexpfam.report.markup import element, joined, number
from kexpfam.report.section import Section

__all__ = ["curve_section"]

_NODES = 400


def curve_section(evidence: Evidence) -> Section | None:
    """The curve over a histogram; None for more columns, or one without a density."""
    kind = evidence.kinds[0]
    if len(evidence.names) > 1 or kind.is_discrete:
        return None
    name = evidence.names[0]
    rows, draws = (part[np.isfinite(part)] for part in (evidence.rows[:, 0], evidence.draws[:, 0]))
    # An atom has a probability, and no density.
    rows, draws = (part[~np.isin(part, kind.atoms)] for part in (rows, draws))
    edges, bars, _ = histogram(rows, draws)
    nodes = np.linspace(edges[0], edges[-1], _NODES)
    nodes = nodes[~np.isin(nodes, kind.atoms)]
    heights = np.exp(evidence.model.density_.log_density(nodes[:, None]))
    if kind.atoms and bars is not None:
        bars = bars * len(rows) / np.isfinite(evidence.rows[:, 0]).sum()
    highest = nodes[heights.argmax()]
    label = (
        f"Density of {name} from {number(edges[0])} to {number(edges[-1])}, highest at "
        f"{number(highest, 3)}"
    )
    words = f"The normalized density of {name}, per unit of the column"
    words += f", over a histogram of {evidence.kind}s." if bars is not None else "."
    if kind.atoms:
        atoms = ", ".join(number(atom) for atom in kind.atoms)
        words += f" What is exactly {atoms} has a probability of its own and is left out."
    body = joined(
        [
            element("p", words),
            element(
                "figure",
                histogram_chart(edges, bars, None, label, curve=(nodes, heights), size=(640, 280)),
                element("figcaption", f"Highest at {number(highest, 3)}."),
                class_="wide",
            ),
        ]
    )
    data = {"name": name, "x": nodes, "density": heights}
    return Section("curve", "The density", body, data)
