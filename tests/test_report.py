"""The report: its figures against other ways to have them, its page against hostile text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from kexpfam import DegenerateTableError, KernelDiffusion, KernelExponentialFamily
from kexpfam.datasets import make_density
from kexpfam.progress import Progress
from kexpfam.report import make_report, write_report
from kexpfam.report.markup import element, embedded_json, number
from kexpfam.report.split import open_table

HOSTILE = "</script><script>alert(1)</script>"
NAMES = [HOSTILE, 'quote " & <b>bold</b>', "plain"]


def rows_of(n_rows: int, seed: int = 0) -> np.ndarray:
    banana = make_density("banana").sample(n_rows, random_state=seed)
    third = 100 + 5 * np.random.default_rng(seed).standard_normal(n_rows) + banana[:, 0]
    return np.column_stack([banana, third])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(rows_of(240), columns=NAMES)


@pytest.fixture(scope="module")
def report(frame):
    model = KernelDiffusion(n_components=32, n_levels=3)
    return make_report(data=frame, model=model, title=HOSTILE)


@pytest.fixture(scope="module")
def family() -> KernelExponentialFamily:
    """Nothing tuned: quick."""
    settings = {"penalty": 0.1, "noise_scale": 0.3, "length_scale": 1.5, "base": "gaussian"}
    return KernelExponentialFamily(n_components=32, random_state=0, **settings).fit(rows_of(200))


def held_out(report) -> np.ndarray:
    """Places of the judged rows, from 0; the report's numbers count from 1."""
    return np.asarray(report.sections["pairs"].data["data"]["numbers"]) - 1


class Elements(HTMLParser):
    """What a parser makes of a page: tags with their attributes, and the text in each tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found, self.texts = [], {}
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.texts.setdefault(self.found[-1][0] if self.found else "", []).append(text)


def test_likelihood_is_that_of_the_model_at_the_held_out_rows(report, frame):
    logs = report.model.score_samples(frame.iloc[held_out(report)])
    data = report.sections["likelihood"].data
    assert data["n_rows"] == len(logs)
    assert data["mean"] == pytest.approx(logs.mean())
    assert data["error"] == pytest.approx(logs.std(ddof=1) / np.sqrt(len(logs)))


def test_gaussian_peer_is_the_maximum_likelihood_fit_to_the_training_rows(report, frame):
    judged = frame.iloc[held_out(report)]
    training = frame.drop(index=judged.index).to_numpy()
    distribution = multivariate_normal(training.mean(axis=0), np.cov(training.T, bias=True))
    logs = distribution.logpdf(judged.to_numpy())
    peer = report.sections["likelihood"].data["peers"][0]
    assert peer["name"] == "Gaussian"
    assert peer["mean"] == pytest.approx(logs.mean(), abs=0.01)
    difference = report.model.score_samples(judged) - logs
    assert peer["difference"] == pytest.approx(difference.mean(), abs=0.01)
    expected = difference.std(ddof=1) / np.sqrt(len(logs))
    assert peer["difference_error"] == pytest.approx(expected, rel=0.02)


def test_unusual_rows_are_the_least_likely(report, frame):
    data = report.sections["unusual"].data
    judged = frame.iloc[held_out(report)]
    logs = np.sort(report.model.score_samples(judged))[: len(data["numbers"])]
    np.testing.assert_allclose(data["log_density"], logs)
    np.testing.assert_array_equal(data["values"], frame.iloc[data["numbers"] - 1])
    assert (np.diff(data["share_of_draws_below"]) >= 0).all()


def test_the_value_to_look_at_is_the_most_surprising_one(family):
    """One row in which one value does not go with the other."""
    rows = rows_of(60)
    rows[7, 1] += 8 * rows[:, 1].std()
    unusual = make_report(data=rows, model=family).sections["unusual"]
    assert unusual.data["numbers"][0] == 8
    assert unusual.data["marked"][0] == 1
    np.testing.assert_allclose(
        unusual.data["surprise"], family.surprise(unusual.data["values"]), rtol=1e-9
    )
    low, high = unusual.data["expected"][0]
    assert low < np.median(rows[:, 1]) < high < rows[7, 1]
    assert f"<strong>{number(rows[7, 1], 5)}</strong>" in unusual.body


def test_rows_count_from_one_in_words_tables_and_plots(frame, family):
    """As they do in what `kexpfam score` writes."""
    rows = rows_of(40)
    report = make_report(data=rows, model=family)
    assert sorted(report.sections["pairs"].data["data"]["numbers"]) == list(range(1, 41))
    unusual = report.sections["unusual"]
    logs = family.score_samples(rows)
    np.testing.assert_allclose(logs[unusual.data["numbers"] - 1], unusual.data["log_density"])
    assert "Row numbers count from 1" in unusual.body
    lowest = int(logs.argmin()) + 1
    assert f'aria-label="Show row {lowest} in the plot"' in unusual.body
    assert f'data-value="{lowest}"' in unusual.body


@pytest.mark.parametrize("model", [KernelDiffusion(), KernelExponentialFamily()])
def test_a_constant_column_is_called_by_its_name(frame, model, tmp_path):
    table = frame.set_axis(["a", "b", "c"], axis=1).assign(planet=3.0)
    table.to_csv(tmp_path / "rows.csv", index=False)
    for data in (table, tmp_path / "rows.csv"):
        with pytest.raises(DegenerateTableError, match=r"'planet'.*--exclude planet"):
            make_report(data=data, model=model)
    with pytest.raises(DegenerateTableError, match=r"column 3.*columns count from 0"):
        make_report(data=table.to_numpy(), model=model)


def test_marginals_have_area_one_and_a_gap(report):
    for column in report.sections["marginals"].data["columns"]:
        areas = [(column[kind] * np.diff(column["edges"])).sum() for kind in ("rows", "draws")]
        assert areas == pytest.approx([1.0, 1.0], abs=0.05)
        assert 0 < column["gap"] < 0.5


def test_split_follows_the_content(frame):
    rows = np.repeat(frame.to_numpy(), 2, axis=0)
    order = np.random.default_rng(1).permutation(len(rows))
    kept = open_table(rows, 0, Progress()).judged(5000)
    shuffled = open_table(rows[order], 0, Progress()).judged(5000)
    np.testing.assert_array_equal(kept.rows, shuffled.rows)
    np.testing.assert_array_equal(rows[order][shuffled.numbers], shuffled.rows)
    training = np.concatenate(list(open_table(rows, 0, Progress()).training(5000)))
    assert len(training) + len(kept.rows) == len(rows)
    assert not (training[:, None] == kept.rows).all(axis=2).any()


def test_values_that_are_mostly_copies_are_on_both_sides():
    rows = np.random.default_rng(0).integers(0, 6, (400, 1)).astype(float)
    table = open_table(rows, 0, Progress())
    training = np.concatenate(list(table.training(5000)))
    kept = table.judged(5000)
    assert 70 < len(kept.rows) < 130
    np.testing.assert_array_equal(rows[kept.numbers], kept.rows)
    assert set(kept.rows.ravel()) == set(training.ravel()) == set(range(6))


def test_files_are_split_as_arrays_are_and_in_bounded_memory(tmp_path):
    rows = rows_of(3000)
    np.save(tmp_path / "rows.npy", rows)
    table = open_table(tmp_path / "rows.npy", 0, Progress())
    kept = table.judged(500)
    assert 400 < len(kept.rows) < 600
    np.testing.assert_array_equal(kept.rows, open_table(rows, 0, Progress()).judged(500).rows)
    assert 400 < len(table.training_sample(500, 600)) < 600


def test_names_and_titles_stay_text(report):
    page = Elements(report.html)
    tags = [tag for tag, _ in page.found]
    assert tags.count("script") == 2
    assert "b" not in tags
    assert HOSTILE in page.texts["h1"]
    assert HOSTILE in page.texts["option"]
    content = re.search(r'id="picture">(.*?)</script>', report.html, re.DOTALL).group(1)
    assert json.loads(content)["columns"] == [*NAMES, "log density"]


def test_the_page_needs_nothing_else(report):
    page = Elements(report.html)
    links = [values[name] for _, values in page.found for name in ("src", "href") if name in values]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "http" not in report.html.replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    )
    policy = next(values["content"] for _, values in page.found if "http-equiv" in values)
    script = re.findall(r"<script>(.*?)</script>", report.html, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_headings_labels_and_captions_are_there(report):
    page = Elements(report.html)
    identities = [values["id"] for _, values in page.found if "id" in values]
    assert len(identities) == len(set(identities))
    tags = [tag for tag, _ in page.found]
    assert tags.count("h1") == 1
    assert tags.count("h2") == len(report.sections)
    assert tags.count("table") == tags.count("caption") > 3
    labeled = {values["for"] for tag, values in page.found if tag == "label"}
    controls = {values["id"] for tag, values in page.found if tag in ("input", "select")}
    assert labeled == controls
    charts = [values for tag, values in page.found if tag == "svg"]
    assert all(values.get("aria-label") for values in charts)


def test_the_snippet_makes_the_page_again(report, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(report.sections["reproduction"].data["snippet"], {"rows": frame})
    again = (tmp_path / "report.html").read_text(encoding="utf-8")
    titled = again.replace("KernelDiffusion report", element("b", HOSTILE)[3:-4])
    assert titled == report.html


def test_fitted_model_is_judged_by_the_given_rows(family):
    own = family.sample(150, random_state=3)
    right = make_report(model=family, data=own).sections
    wrong = make_report(model=family, data=own * [2, 1, 1]).sections
    assert right["goodness"].data["p_value"] > 0.05
    assert "no difference" in right["goodness"].data["words"]
    assert wrong["goodness"].data["p_value"] < 0.01
    assert "not in the model" in wrong["goodness"].data["words"]
    assert right["likelihood"].data["mean"] == pytest.approx(family.score(own))
    kernel_density = wrong["likelihood"].data["peers"][2]
    assert kernel_density["difference"] < -2 * kernel_density["difference_error"] < 0
    assert "is worse than" in wrong["likelihood"].body


def test_columns_are_matched_by_name(report, frame):
    few = frame.iloc[:60]
    ordered = make_report(model=report.model, data=few)
    mixed = make_report(model=report.model, data=few[NAMES[::-1]])
    assert mixed.sections["likelihood"].data["mean"] == pytest.approx(
        ordered.sections["likelihood"].data["mean"]
    )
    with pytest.raises(ValueError, match="does not know"):
        make_report(model=report.model, data=few.rename(columns={"plain": "other"}))
    with pytest.raises(ValueError, match="Expected 3 columns"):
        make_report(model=report.model, data=few.to_numpy()[:, :2])


def test_model_alone_shows_draws_settings_and_health(family):
    alone = make_report(model=family)
    assert list(alone.sections) == ["health", "pairs", "marginals", "choices", "reproduction"]
    figures = alone.sections["health"].data["figures"]
    assert figures["Effective sample size"] == number(family.effective_sample_size_)
    assert figures["Pareto shape"] == f"{family.pareto_shape_:.2f}"
    assert len(alone.sections["pairs"].data["draws"]["values"]) > 1000


def test_rows_of_no_density_are_counted_and_shown():
    settings = {"penalty": 0.1, "noise_scale": 0.3, "length_scale": 1.5, "base": "uniform"}
    model = KernelExponentialFamily(n_components=32, random_state=0, **settings)
    model.fit(rows_of(200)[:, :1])
    rows = np.linspace(-0.5, 0.5, 40)[:, None]
    rows[::4] = 50
    page = make_report(model=model, data=rows)
    assert page.sections["likelihood"].data["mean"] == -np.inf
    assert "At 10 rows its density is zero" in page.html
    assert "−∞" in page.html
    assert "could not be run" in page.html
    content = re.search(r'id="picture">(.*?)</script>', page.html, re.DOTALL).group(1)
    assert json.loads(content)["data"]["log_density"].count("−∞") == 10


def test_repeated_values_are_pointed_out(family):
    rows = rows_of(60, seed=2)
    rows[:, 1] = rows[:, 1].round()
    page = make_report(model=family, data=pd.DataFrame(rows, columns=["a", "b", "c"]))
    assert "Values repeat in b." in page.sections["likelihood"].body


def test_warnings_are_on_the_page_instead_of_the_console():
    settings = {"penalty": 1e-9, "noise_scale": 0.02, "length_scale": 1.0, "base": "gaussian"}
    page = make_report(
        data=rows_of(120), model=KernelExponentialFamily(n_components=32, **settings)
    )
    health = page.sections["health"]
    assert health.data["warnings"]
    assert health.data["good"] is False
    assert element("li", health.data["warnings"][0]) in page.html


def test_the_file_is_the_page(family, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    written = write_report(path, model=family, title="lone \ud800 surrogate")
    assert path.read_text(encoding="utf-8") == written.html
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "got neither"),
        ({"model": KernelDiffusion()}, "got an unfitted"),
        ({"model": object()}, "has no score_samples"),
        ({"data": np.zeros((5, 2))}, "at least 20 rows"),
        ({"data": np.zeros((50, 2)), "model": KernelDiffusion()}, "columns that vary"),
    ],
)
def test_what_cannot_be_reported_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        make_report(**given)


def test_json_holds_what_json_cannot():
    text = embedded_json({"a": np.array([[1.0, np.nan], [np.inf, -np.inf]]), "b": "</script>&"})
    assert "<" not in text
    assert "&" not in text
    expected = {"a": [[1.0, "not a number"], ["∞", "−∞"]], "b": "</script>&"}
    assert json.loads(text) == expected
