"""
A table with categories and missing values
==========================================

Measurements of wines, with the cultivar as a category, and a fifth of the cells gone. `KernelChain`
is fitted to the incomplete table, fills in missing values, and gives the probability of each
cultivar.
"""

# %%
# Rows
# ----
# scikit-learn's wines: four measurements of each and the cultivar. One cell in five is removed at
# random.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from kexpfam import KernelChain

wines = load_wine(as_frame=True)
columns = ["alcohol", "flavanoids", "color_intensity", "proline"]
whole = wines.data[columns].copy()
whole["cultivar"] = np.array(["Barolo", "Grignolino", "Barbera"])[wines.target]

generator = np.random.default_rng(0)
holes = generator.random(whole.shape) < 0.2
table = whole.mask(holes)
print(table.head())

# %%
# The fit
# -------
# Kinds of columns are read from the table: proline is measured in whole milligrams.

model = KernelChain(random_state=0).fit(table)
for name, kind in model.column_kinds_.items():
    print(f"{name:16} {kind}")
print(model.health_.in_words)

# %%
# Missing values
# --------------
# Every missing value is imputed four times, given the other values of the row. If the model is
# correct, the range of the four draws contains the removed value with probability 3/5.

completed = [model.impute(table, random_state=seed) for seed in range(4)]
inside = []
for column in columns:
    gone = table[column].isna().to_numpy()
    draws = np.array([one[column][gone] for one in completed])
    low, high = draws.min(axis=0), draws.max(axis=0)
    inside.append((low <= whole[column][gone]) & (whole[column][gone] <= high))
print(f"inside the range of four draws: {np.concatenate(inside).mean():.0%} (60 % expected)")

unknown = table["cultivar"].isna()
found = model.conditional(table[unknown], "cultivar", n_draws=64, random_state=0)
shares = pd.DataFrame(found.probabilities("cultivar"))
right = shares.idxmax(axis=1).to_numpy() == whole["cultivar"][unknown].to_numpy()
print(f"likeliest cultivar is the true one for {right.mean():.0%} of {len(right)} wines")

# %%
# The picture
# -----------

figure, (left, middle, last) = plt.subplots(1, 3, figsize=(11.5, 3.7), layout="constrained")
draws = model.sample(178, random_state=0)
colors = {"Barolo": "tab:red", "Grignolino": "tab:olive", "Barbera": "tab:purple"}
for panel, rows, title in ((left, whole, "wines"), (middle, draws, "draws of the model")):
    for cultivar, color in colors.items():
        own = rows[rows["cultivar"] == cultivar]
        panel.scatter(own["flavanoids"], own["proline"], s=9, color=color, label=cultivar)
    panel.set(title=title, xlabel="flavanoids", xlim=(0, 5.5), ylim=(200, 1800))
left.set_ylabel("proline")
left.legend(fontsize=8)
gone = table["flavanoids"].isna().to_numpy()
drawn = np.array([one["flavanoids"][gone] for one in completed])
truth = whole["flavanoids"][gone].to_numpy()
last.vlines(truth, drawn.min(axis=0), drawn.max(axis=0), color="0.75")
last.scatter(truth, np.median(drawn, axis=0), s=9, color="tab:blue")
last.axline((2, 2), slope=1, color="0.4", linewidth=0.8)
last.set(title="flavanoids taken away", xlabel="true value", ylabel="four imputations")
plt.show()
