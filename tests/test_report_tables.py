"""The report on a table of mixed columns: its figures against other ways to have them."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from kexpfam import KernelChain, load
from kexpfam.data.frames import read_table
from kexpfam.data.kinds import ColumnKind
from kexpfam.progress import Progress
from kexpfam.report import make_report
from kexpfam.report.frame_table import open_frame
from kexpfam.report.peers import peers_for
from tests.test_command_line_tables import NAMES, make_table

HOSTILE = "</script><b>pike</b>"
# A row in which nothing fits, and a seed that holds it out.
STRANGE, SEED = 5, 3


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """As fish are, with a level of a hostile name, and one strange row."""
    table = make_table(200)[NAMES].replace({"kind": {"pike": HOSTILE}})
    table.loc[STRANGE] = ["perch", 62.0, 2, True]
    return table


@pytest.fixture(scope="module")
def report(frame):
    return make_report(data=frame, random_state=SEED)


@pytest.fixture(scope="module")
def held_out(report, frame):
    """The judged rows, and the others."""
    places = np.sort(np.asarray(report.sections["pairs"].data["data"]["numbers"]) - 1)
    return frame.iloc[places], frame.drop(index=frame.index[places])


def test_a_chain_is_fitted_to_the_other_rows(report, held_out):
    judged, training = held_out
    assert 25 < len(judged) < 75
    assert type(report.model) is KernelChain
    data = report.sections["likelihood"].data
    assert data["mean"] == pytest.approx(report.model.score(judged))
    assert data["training_mean"] == pytest.approx(report.model.score(training))


def test_peers_are_the_product_of_marginals_and_the_base_density(report, held_out):
    judged, _ = held_out
    model, peers = report.model, report.sections["likelihood"].data["peers"]
    assert peers[0]["name"] == "product of marginals"
    assert peers[0]["difference"] > 2 * peers[0]["difference_error"]
    base = model.density_.untilted().log_density(model.as_numbers(judged))
    if model.has_tilt_:
        assert peers[1]["mean"] == pytest.approx(base.mean())
    assert len(peers) == 1 + model.has_tilt_


def test_the_product_of_marginals_is_normalized_and_has_no_dependence(report, frame):
    numbers, kinds = report.model.as_numbers(frame), tuple(report.model.column_kinds_.values())
    peer = peers_for(kinds, numbers)["product of marginals"](numbers, kinds, 0)

    def alone(place, values):
        rows = np.full((len(values), len(kinds)), np.nan)
        rows[:, place] = values
        return peer.log_density(rows)

    each = [alone(place, numbers[:, place]) for place in range(len(kinds))]
    np.testing.assert_allclose(peer.log_density(numbers), np.sum(each, axis=0))
    for name in ("kind", "tagged"):
        place, shares = NAMES.index(name), frame[name].value_counts(normalize=True)
        found = np.exp(alone(place, np.arange(2.0)))
        levels = kinds[place].names()
        # Half a row more for each of two levels moves a share by less than a row’s.
        assert dict(zip(levels, found, strict=True)) == pytest.approx(
            {str(level): share for level, share in shares.items()}, abs=1 / len(frame)
        )
    # Even steps of u reach the heavy tails in x = 5 sinh u. The density has kinks,
    # at which the rule errs by the square of the spacing.
    turns = np.linspace(-16, 16, 80_001)
    heights = np.exp(alone(1, 5 * np.sinh(turns))) * 5 * np.cosh(turns)
    assert np.trapezoid(heights, turns) == pytest.approx(1, abs=1e-6)
    # Every count by itself, then even steps of log k, where neighbors are nearly equal.
    nearest = np.exp(alone(2, np.arange(3e5))).sum()
    steps = np.linspace(np.log(3e5), np.log(1e15), 50_001)
    further = np.trapezoid(np.exp(alone(2, np.exp(steps).round()) + steps), steps)
    assert nearest + further == pytest.approx(1, abs=1e-6)


def test_which_peers_can_take_a_table():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    kinds = [ColumnKind("real"), ColumnKind("real")]
    of_numbers = ["Gaussian", "Gaussian mixture", "kernel density estimate"]
    assert list(peers_for(kinds, rows)) == of_numbers
    rows[0, 0] = np.nan
    assert list(peers_for(kinds, rows)) == []
    bounded = [kinds[0], ColumnKind("bounded", (0.0, np.inf))]
    assert list(peers_for(bounded, rows)) == ["product of marginals"]
    assert list(peers_for(bounded, rows[1:])) == [*of_numbers, "product of marginals"]


def test_columns_are_described(report, frame):
    columns = {one["name"]: one for one in report.sections["columns"].data["columns"]}
    assert [one["kind"] for one in columns.values()] == ["category", "real", "count", "boolean"]
    for name in NAMES:
        assert columns[name]["missing"] == pytest.approx(frame[name].isna().mean())


def test_marginals_are_shares_of_levels_and_histograms(report, held_out):
    judged, _ = held_out
    columns = {one["name"]: one for one in report.sections["marginals"].data["columns"]}
    kind = columns["kind"]
    expected = judged["kind"].value_counts(normalize=True)
    assert dict(zip(kind["levels"], kind["rows"], strict=True)) == pytest.approx(dict(expected))
    assert kind["gap"] == pytest.approx(np.abs(kind["rows"] - kind["draws"]).sum() / 2)
    # Every whole number in one bin, with the same number of them in each.
    assert (columns["eggs"]["edges"] % 1 == 0.5).all()
    for name in ("length", "eggs"):
        area = (columns[name]["rows"] * np.diff(columns[name]["edges"])).sum()
        assert area == pytest.approx(1, abs=0.05)


def test_rows_and_draws_are_compared_by_log_densities_of_complete_rows(report, held_out):
    judged, _ = held_out
    logs = report.model.score_samples(judged.dropna())
    draws = report.model.score_samples(report.model.sample(2000, random_state=SEED))
    found = report.sections["goodness"].data
    assert found["n_rows"] == len(logs)
    assert found["statistic"] == pytest.approx(ks_2samp(logs, draws).statistic)
    assert "kernel Stein test" in report.sections["goodness"].body


def test_the_value_to_look_at_is_explained_as_by_the_model(report, frame):
    """A perch with the length of a pike."""
    model, unusual = report.model, report.sections["unusual"]
    place = list(unusual.data["numbers"]).index(STRANGE + 1)
    assert place < 3
    assert NAMES[unusual.data["marked"][place]] == "length"
    low, high = unusual.data["expected"][place]
    assert 10 < low < 25 < high < 50
    why = model.explain(frame.iloc[[STRANGE]])
    # Nodes depend a little on the other rows that are looked at.
    np.testing.assert_allclose(unusual.data["surprise"][place], why.surprise[0], rtol=1e-3)
    assert unusual.data["words"][place] == why.in_words()[0]
    assert why.in_words()[0].startswith("'length' is 62, expected ")


def test_pairs_have_levels_by_their_place(report, held_out):
    judged, _ = held_out
    content = re.search(r'id="picture">(.*?)</script>', report.html, re.DOTALL).group(1)
    picture = json.loads(content)
    assert picture["levels"] == [[HOSTILE, "perch"], None, None, ["False", "True"], None]
    by_number = dict(zip(picture["data"]["numbers"], picture["data"]["values"], strict=True))
    for place, kind in judged["kind"].items():
        expected = (
            "not a number" if kind is None or kind != kind else picture["levels"][0].index(kind)
        )
        assert by_number[place + 1][0] == expected
    assert HOSTILE not in report.html


def test_files_and_frames_are_one_table_for_a_model(report, frame, tmp_path):
    few = frame.iloc[:20]
    few.to_csv(tmp_path / "few.csv", index=False)
    few.to_parquet(tmp_path / "few.parquet", index=False)
    report.model.save(tmp_path / "model.kexpfam")
    model = load(tmp_path / "model.kexpfam")
    sources = (few[NAMES[::-1]], tmp_path / "few.csv", [tmp_path / "few.parquet"])
    expected, *others = (open_frame(data, model, 0, fitted=True) for data in sources)
    assert expected.names == tuple(NAMES)
    for other in others:
        np.testing.assert_array_equal(other.keys, expected.keys)
        np.testing.assert_allclose(
            model.score_samples(other.frame), model.score_samples(few), rtol=1e-12
        )
    with pytest.raises(ValueError, match="does not know"):
        make_report(data=few.rename(columns={"eggs": "roe"}), model=model)
    with pytest.raises(ValueError, match="needs it in memory"):
        make_report(data=iter([few]), model=model)


def test_the_snippet_and_the_command_name_the_chain(report):
    found = report.sections["reproduction"].data
    assert "KernelChain" in found["snippet"]
    assert "--estimator chain" in found["command"]
    assert found["again"] is None


class Stages(Progress):
    """What would be shown of the stages."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def stage(self, text: str) -> None:
        self.seen.append(text)


@pytest.fixture(scope="module")
def one_column():
    """A single column with more rows than a page is made of, and what was shown meanwhile."""
    rows = np.random.default_rng(0).gamma(3.0, 2.0, (400, 1))
    stages = Stages()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kexpfam.report.evidence._MOST_TRAINING", 120)
        patch.setattr("kexpfam.report.evidence._MOST_JUDGED", 60)
        made = make_report(data=pd.DataFrame(rows, columns=["wait"]), progress=stages)
    return made, stages.seen


def test_a_single_column_has_a_density_curve(one_column):
    report, _ = one_column
    curve = report.sections["curve"].data
    logs = report.model.score_samples(pd.DataFrame({"wait": curve["x"]}))
    np.testing.assert_allclose(curve["density"], np.exp(logs))
    # 0.2 % at either end of rows and draws is left out.
    assert np.trapezoid(curve["density"], curve["x"]) == pytest.approx(1, abs=0.03)
    assert report.sections["curve"].body.count('class="draws-line"') == 1


def test_rows_are_capped_and_the_page_says_so(one_column, report):
    capped, stages = one_column
    lead = re.search(r'class="lead">(.*?)<', capped.html).group(1)
    n_training, n_judged = (int(one) for one in re.findall(r"(\d+) (?:held-out )?rows", lead))
    assert 90 < n_training < 150
    assert 40 < n_judged < 80
    note = "Rows are capped for this page: of 400 rows"
    assert note in capped.html
    assert "Rows are capped" not in report.html
    assert stages == [
        f"Fitting KernelChain to {n_training} rows",
        f"Judging it by {n_judged} held-out rows",
    ]


def test_tiles_are_those_of_health_by_the_rows_of_the_page(report, held_out):
    judged, training = held_out
    health = report.sections["health"]
    gap = report.model.score(training) - report.model.score(judged)
    assert health.data["optimism"] == pytest.approx(gap)
    tiles = {one.name: one for one in health.findings}
    assert list(tiles)[:2] == ["Trust", "Optimism"]
    assert tiles["Optimism"].value == f"{gap:+.3g}".replace("-", "−")


def test_rows_of_a_sampled_file_keep_their_numbers(frame, tmp_path):
    frame.to_csv(tmp_path / "fish.csv", index=False)
    read = read_table([tmp_path / "fish.csv"], most_rows=50, seed=1)
    assert (len(read.frame), read.n_rows) == (50, len(frame))
    taken = frame.iloc[read.places]
    np.testing.assert_allclose(read.frame["length"], taken["length"])
    table = open_frame(read, KernelChain(), 0, fitted=False)
    assert table.n_given == len(frame)
    kept = table.judged(5000)
    np.testing.assert_allclose(kept.rows["length"], frame["length"].iloc[kept.numbers])
