"""
What changed between two tables
===============================

Rows arrive every week. Do they still come from the same source?
`compare` says whether two tables differ, how far apart they are, and which columns and pairs of
columns moved.
"""

# %%
# The tables
# ----------
# Two weeks of orders. In the second one, more people pay by card, delivery times have a longer
# tail, some ages are missing, and the price follows the weight in half of the orders only, though
# each of the two is distributed as before.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kexpfam import compare
from kexpfam.plotting import plot_comparison


def week(n_rows, seed, changed):
    """Orders of a week, before or after the changes."""
    generator = np.random.default_rng(seed)
    weight = generator.gamma(2.0, 2.0, n_rows)
    priced = weight.copy()
    if changed:
        places = np.flatnonzero(generator.random(n_rows) < 0.5)
        priced[places] = generator.permutation(priced[places])
    table = pd.DataFrame(
        {
            "weight": weight,
            "price": 5 + 3 * priced + generator.normal(0, 2, n_rows),
            "days": generator.lognormal(1.0, 0.55 if changed else 0.4, n_rows),
            "items": generator.poisson(3, n_rows),
            "age": generator.normal(45, 12, n_rows),
            "paid": np.where(generator.random(n_rows) < (0.6 if changed else 0.45), "card", "cash"),
        }
    )
    table.loc[generator.random(n_rows) < (0.08 if changed else 0.01), "age"] = np.nan
    return table


last_week, this_week = week(600, 0, changed=False), week(450, 1, changed=True)

# %%
# The answer
# ----------
# The p-value is that of a permutation test, and those of columns and pairs are corrected for their
# number. Divergences are in nats per row: the mean of log p_A − log p_B over rows of A that neither
# density was fitted to.

found = compare(last_week, this_week, labels=("last week", "this week"), random_state=0)
print(found)

# %%
# A week in which nothing changed is not mistaken for one:

print(compare(last_week, week(450, 2, changed=False), divergence=False, random_state=0).in_words)

# %%
# The picture
# -----------
# The columns with the surest changes, and a map of all pairs of columns. The dependence of price
# and weight has become weaker, as the brown cell with a dot says.

plot_comparison(found, n_columns=5)
plt.show()
