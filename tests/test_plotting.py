"""Pictures show what they say: rows, densities, slopes, losses, ranks, read back from the axes."""

from __future__ import annotations

import ast
import copy
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from scipy import stats
from sklearn.neighbors import KernelDensity

import kexpfam.plotting
from kexpfam import (
    ConditionalKernelExponentialFamily,
    KernelDiffusion,
    KernelExponentialFamily,
    Tuning,
)
from kexpfam.datasets import make_density
from kexpfam.plotting import (
    plot_calibration,
    plot_conditional,
    plot_conditional_curves,
    plot_corner,
    plot_coverage,
    plot_density,
    plot_log_density_quantiles,
    plot_loss_surface,
    plot_noise_levels,
    plot_pit,
    plot_score_field,
    plot_tuning_history,
)
from kexpfam.plotting.canvas import new_axes, shades
from kexpfam.plotting.corner import smoothed_histogram
from kexpfam.plotting.grids import cell_middles, checked_window, density_thresholds, grid_rows
from kexpfam.plotting.loss_surface import draw_loss_surface
from kexpfam.plotting.noise_levels import noised_rows, shown_levels
from kexpfam.plotting.ranks import _cumulative, count_band, ranks_among, spread_places
from kexpfam.plotting.score_field import compressed_lengths

COLUMNS = ["length", "width"]


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(make_density("cosine").sample(200, random_state=0), columns=COLUMNS)


@pytest.fixture(scope="module")
def tuned(frame):
    settings = {"n_components": 32, "tuning": Tuning(n_steps=6)}
    return KernelExponentialFamily(gate=False, random_state=0, **settings).fit(frame)


@pytest.fixture(scope="module")
def diffusion():
    rows = make_density("ring").sample(200, random_state=0)
    return KernelDiffusion(n_components=32, n_levels=3, random_state=0).fit(rows)


class Normal:
    """A standard normal of two columns, times `scale`."""

    def __init__(self, scale=(1.0, 1.0)):
        self.scale = np.asarray(scale)

    def sample(self, n_samples, random_state=None):
        return self.scale * np.random.default_rng(random_state).standard_normal((n_samples, 2))

    def log_density(self, X):
        return stats.norm.logpdf(X, scale=self.scale).sum(axis=1)

    def gradient(self, X):
        return -X / self.scale**2


def dots(ax):
    """Places of the dots of a scatter plot."""
    found = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    assert len(found) == 1
    return np.asarray(found[0].get_offsets())


def line(ax, label):
    (found,) = (each for each in ax.lines if each.get_label() == label)
    return np.transpose(found.get_data())


def quiver(ax):
    (found,) = (c for c in ax.collections if type(c).__name__ == "Quiver")
    return found


def arrows_of(ax):
    """Places, steps and color values of the arrows."""
    found = quiver(ax)
    return found.XY, np.stack([found.U, found.V], axis=1), np.asarray(found.get_array())


# Everything


def test_matplotlib_is_not_imported_with_the_package():
    for path in Path(kexpfam.plotting.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        at_import = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        assert not [n for n in at_import if "matplotlib" in ast.unparse(n)], path.name


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'kexpfam\[plot\]'"):
        plot_corner(np.eye(3), np.eye(3))


def test_settings_of_matplotlib_stay_and_given_axes_are_used(frame):
    before = dict(mpl.rcParams)
    given = new_axes(None)
    assert plot_density(Normal(), ax=given) is given
    assert len(plt.get_fignums()) == 1
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["Blues", "cividis_r"])
def test_shades_keep_their_order_in_gray(name):
    gray = shades(7, 0.13, 0.92, name)[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(gray) < -0.04).all()


# Densities


def test_thresholds_are_those_of_a_normal():
    # The region with mass m of a standard normal in the plane has the threshold (1 − m) / 2π.
    axes = cell_middles(checked_window(None, None, [(-5, 5), (-5, 5)]), 200)
    densities = np.exp(Normal().log_density(grid_rows(axes)))
    masses = np.array([0.1, 0.5, 0.9, 0.99])
    found = density_thresholds(densities, (10 / 200) ** 2, list(masses))
    np.testing.assert_allclose(found, (1 - masses) / (2 * np.pi), rtol=0.01)


def test_a_mass_beyond_the_window_has_no_threshold():
    assert density_thresholds(np.full(10, 0.05), 1.0, [0.4, 0.6])[1] == 0


def test_regions_hold_the_stated_mass_of_draws():
    density = make_density("banana")
    ax = plot_density(density, density.sample(500, random_state=0), masses=[0.3, 0.6, 0.9])
    levels = ax.collections[0].levels[:-1]
    draws = np.exp(density.log_density(density.sample(20_000, random_state=1)))
    held = [(draws >= level).mean() for level in levels]
    np.testing.assert_allclose(held, [0.9, 0.6, 0.3], atol=0.015)


def test_a_density_with_its_rows_and_names(tuned, frame):
    ax = plot_density(tuned, frame, n_points=30)
    np.testing.assert_array_equal(dots(ax), frame.to_numpy())
    assert [ax.get_xlabel(), ax.get_ylabel()] == COLUMNS
    key = ax.figure.axes[1]
    assert key.get_yticklabels()[0].get_text() == "99 %"
    assert len(dots(plot_density(tuned, frame, n_points=30, max_rows=50))) == 50


def test_a_uniform_density_is_one_region():
    ax = plot_density(make_density("uniform"), limits=[(-4, 4), (-4, 4)])
    regions = ax.collections[0]
    assert len(regions.levels) == 2
    inside = regions.get_paths()[0].get_extents()
    np.testing.assert_allclose([inside.x0, inside.x1], [-3, 3], atol=0.1)


def test_one_column_is_a_curve_over_a_histogram():
    rows = np.random.default_rng(0).gamma(4.0, size=(150, 1))
    model = KernelDensity(bandwidth=0.5).fit(rows)
    ax = plot_density(model, rows)
    points, densities = line(ax, "model").T
    np.testing.assert_allclose(densities, np.exp(model.score_samples(points[:, None])))
    assert np.trapezoid(densities, points) == pytest.approx(1, abs=0.02)
    bars = sum(bar.get_width() * bar.get_height() for bar in ax.patches)
    assert bars == pytest.approx(1)
    ticks = [segment[0, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_array_equal(ticks, rows[:, 0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x_{0}$", "density")


def test_what_a_density_cannot_be_drawn_of(tuned, frame):
    with pytest.raises(ValueError, match=r"one or two columns; this one has 3.*plot_corner"):
        plot_density(KernelDensity().fit(np.eye(3)), np.eye(3))
    with pytest.raises(ValueError, match="low < high"):
        plot_density(tuned, limits=[(1, 0), (0, 1)])
    with pytest.raises(ValueError, match="less of the model's mass"):
        plot_density(Normal(), limits=[(50, 60), (0, 1)])
    with pytest.raises(ValueError, match="between 0 and 1"):
        plot_density(Normal(), masses=[95.0])
    with pytest.raises(ValueError, match="n_points must be a whole number ≥ 2"):
        plot_density(Normal(), n_points=1)
    with pytest.raises(TypeError, match="score_samples"):
        plot_density(object(), np.eye(2))
    with pytest.raises(ValueError, match="feature names"):
        plot_density(tuned, frame[COLUMNS[::-1]])


# Score fields


def test_arrows_point_along_the_gradient(tuned, frame):
    limits = [(-4, 4), (-5, 3)]
    ax = plot_score_field(tuned, frame, limits=limits, n_points=9)
    places, steps, colors = arrows_of(ax)
    scores = tuned.gradient(pd.DataFrame(places, columns=COLUMNS))
    lengths = np.linalg.norm(scores, axis=1)
    # A square window: directions and magnitudes are those of the gradient itself.
    np.testing.assert_allclose(
        steps / np.linalg.norm(steps, axis=1, keepdims=True), scores / lengths[:, None], atol=1e-9
    )
    np.testing.assert_allclose(colors, lengths)
    assert (np.argsort(np.linalg.norm(steps, axis=1)) == np.argsort(lengths)).all()
    np.testing.assert_array_equal(dots(ax), frame.to_numpy())


def test_units_of_columns_do_not_change_the_picture():
    scale = np.array([1000.0, 0.01])
    limits = np.array([(-3.0, 3.0), (-2.0, 2.0)])
    pictures = []
    for model, window in ((Normal(), limits), (Normal(scale), limits * scale[:, None])):
        ax = plot_score_field(model, limits=window, n_points=8)
        places, steps, _ = arrows_of(ax)
        widths = np.diff(window)[:, 0]
        pictures.append((places / widths, steps / widths))
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-12)


def test_no_arrow_is_longer_than_its_cell():
    ax = plot_score_field(Normal(), limits=[(-2, 2), (-2, 2)], n_points=8)
    lengths = np.linalg.norm(arrows_of(ax)[1], axis=1)
    assert 0.4 < lengths.max() <= 0.5
    np.testing.assert_allclose(compressed_lengths(np.array([0.0, 1.0, 16.0])), [0, 0.5, 1])
    np.testing.assert_array_equal(compressed_lengths(np.zeros(3)), np.zeros(3))


def test_a_field_of_zeros_is_drawn():
    ax = plot_score_field(make_density("uniform"), limits=[(-1, 1), (-1, 1)], n_points=4)
    assert not arrows_of(ax)[1].any()


def test_a_noise_level_can_be_chosen(diffusion):
    ax = plot_score_field(diffusion, noise_scale=0.5, limits=[(-5, 5), (-5, 5)], n_points=6)
    places, _, colors = arrows_of(ax)
    expected = np.linalg.norm(diffusion.smoothed_gradient(places, 0.5), axis=1)
    np.testing.assert_allclose(colors, expected)


def test_what_a_field_cannot_be_drawn_of(tuned, frame):
    with pytest.raises(ValueError, match=r"a KernelDiffusion; got noise_scale=0.5"):
        plot_score_field(tuned, frame, noise_scale=0.5)
    with pytest.raises(ValueError, match="two columns; this one has 1"):
        plot_score_field(KernelDensity().fit([[0.0], [1.0]]), [[0.0], [1.0]])


# Noise levels


def test_every_level_has_its_own_field(diffusion):
    rows = make_density("ring").sample(100, random_state=1)
    axes = plot_noise_levels(diffusion, rows, n_levels=3, n_points=6)
    levels = shown_levels(diffusion.noise_scales_, 3)
    assert levels[0] == diffusion.noise_scales_[0]
    assert [ax.get_title() for ax in axes] == [f"σ = {level:.2g}" for level in levels]
    for ax, level in zip(axes, levels, strict=True):
        places, _, colors = arrows_of(ax)
        scores = diffusion.smoothed_gradient(places, level)
        widths = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
        scores *= widths / np.sqrt(widths.prod())
        np.testing.assert_allclose(colors, np.linalg.norm(scores, axis=1))
        assert dots(ax).shape == rows.shape
    assert len({quiver(ax).norm for ax in axes}) == 1
    np.testing.assert_allclose(dots(axes[0]), rows, atol=0.6)


def test_noise_has_the_level_in_whitened_coordinates(diffusion):
    rows = make_density("ring").sample(2000, random_state=1)
    moved = noised_rows(diffusion.density_.coordinates, rows, 0.2, np.random.default_rng(0))
    forward = diffusion.density_.coordinates.forward
    np.testing.assert_allclose((forward(moved) - forward(rows)).std(axis=0), 0.2, rtol=0.06)


def test_levels_begin_at_the_lowest_and_end_where_there_is_something_to_see():
    np.testing.assert_allclose(shown_levels(np.array([0.1, 1.0]), 3), [0.1, 0.15**0.5, 1.5])
    assert shown_levels(np.array([0.1, 1.0, 9.0]), 2)[-1] == 1.5
    np.testing.assert_array_equal(shown_levels(np.array([2.0, 3.0]), 2), [2.0, 2.0])
    with pytest.raises(ValueError, match="n_levels must be a whole number ≥ 1"):
        shown_levels(np.array([0.1, 1.0]), 0)


def test_what_noise_levels_cannot_be_drawn_of(tuned, diffusion):
    with pytest.raises(TypeError, match=r"KernelDiffusion; got a KernelExponentialFamily"):
        plot_noise_levels(tuned)
    wide = copy.copy(diffusion)
    wide.n_features_in_ = 3
    with pytest.raises(ValueError, match="two columns; this one has 3"):
        plot_noise_levels(wide)
    with pytest.raises(ValueError, match=r"1 × 5 axes.*got 2"):
        plot_noise_levels(diffusion, [[0.0, 0.0], [1.0, 1.0]], axes=plt.subplots(2)[1])


# Corner plots


def test_a_corner_shows_the_pairs(generator):
    data = pd.DataFrame(generator.standard_normal((200, 3)), columns=["a", "b", "c"])
    draws = generator.standard_normal((300, 3))
    axes = plot_corner(data, draws)
    assert axes.shape == (3, 3)
    assert [ax.get_visible() for ax in axes[0]] == [True, False, False]
    assert [ax.get_xlabel() for ax in axes[2]] == ["a", "b", "c"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["", "b", "c"]
    np.testing.assert_array_equal(dots(axes[2, 1]), data[["b", "c"]].to_numpy())
    bars = [patch for patch in axes[1, 1].patches if type(patch).__name__ == "Rectangle"]
    assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(1)
    texts = [text.get_text() for text in axes[0, 0].get_legend().get_texts()]
    assert texts == ["data", "model"]


def test_columns_of_a_corner_can_be_chosen(generator):
    data, draws = generator.standard_normal((2, 50, 20))
    names = [f"n{number}" for number in range(20)]
    axes = plot_corner(data, draws, names=names, columns=["n7", 2])
    np.testing.assert_array_equal(dots(axes[1, 0]), data[:, [7, 2]])
    assert plot_corner(data, draws, columns=[3]).shape == (1, 1)
    with pytest.raises(ValueError, match=r"1 to 12 columns; got 20.*columns="):
        plot_corner(data, draws)
    with pytest.raises(ValueError, match="got 'n99'"):
        plot_corner(data, draws, names=names, columns=["n99"])
    with pytest.raises(ValueError, match="name all 20 columns"):
        plot_corner(data, draws, names=["one"])
    with pytest.raises(ValueError, match="20 in data and 3 in draws"):
        plot_corner(data, draws[:, :3])


def test_lines_of_a_corner_hold_their_mass(generator):
    # Not symmetric in any way: columns that are mixed up would show.
    data = np.stack([generator.gamma(2.0, size=4000), generator.normal(0, 5, 4000)], axis=1)
    axes = plot_corner(data, data)
    contours = [c for c in axes[1, 0].collections if type(c).__name__ == "QuadContourSet"]
    assert len(contours) == 2
    for path, mass in zip(contours[0].get_paths(), (0.9, 0.5), strict=True):
        assert path.contains_points(data).mean() == pytest.approx(mass, abs=0.03)


def test_a_smoothed_histogram_is_a_density(generator):
    rows = generator.standard_normal((5000, 2)) * [1.0, 2.0]
    axes, densities = smoothed_histogram(rows, np.array([[-5.0, 5.0], [-9.0, 9.0]]))
    cell = np.prod([points[1] - points[0] for points in axes])
    assert densities.sum() * cell == pytest.approx(1, abs=0.01)
    expected = np.exp(Normal([1.0, 2.0]).log_density(grid_rows(axes))).reshape(densities.shape)
    np.testing.assert_allclose(densities, expected, atol=0.015)


# Tuning


def test_the_loss_surface_marks_the_choice(tuned):
    ax = plot_loss_surface(tuned)
    surface = tuned.loss_surface_
    (mesh,) = (c for c in ax.collections if type(c).__name__ == "QuadMesh")
    np.testing.assert_array_equal(mesh.get_array(), surface.losses.T)
    row, column = np.unravel_index(surface.losses.argmin(), surface.losses.shape)
    lowest = [[surface.noise_scales[row], surface.penalties[column]]]
    np.testing.assert_array_equal(line(ax, "lowest"), lowest)
    assert np.isfinite(tuned.penalty_)
    np.testing.assert_array_equal(line(ax, "chosen"), [[tuned.noise_scale_, tuned.penalty_]])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    # Zero is the base density: what is above is gray.
    assert mesh.norm.vmax == 0
    assert to_rgb(mesh.cmap.get_over()) == to_rgb("0.85")


def test_the_surface_of_likelihoods(tuned):
    ax = plot_loss_surface(tuned, criterion="likelihood", colorbar=False)
    (mesh,) = (c for c in ax.collections if type(c).__name__ == "QuadMesh")
    np.testing.assert_array_equal(mesh.get_array(), -tuned.loss_surface_.gains.T)
    assert len(ax.figure.axes) == 1


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_base_density_is_marked_at_the_upper_edge(tuned, shift):
    surface, ax = tuned.loss_surface_, new_axes(None)
    losses = surface.losses + shift
    sizes = surface.noise_scales, surface.penalties
    mesh = draw_loss_surface(ax, *sizes, losses, surface.gains, (0.3, np.inf))
    (mark,) = (each for each in ax.lines if "base density" in each.get_label())
    assert "λ = ∞" in mark.get_label()
    pixels = mark.get_transform().transform(np.transpose(mark.get_data()))
    across, height = ax.transData.inverted().transform(pixels)[0]
    assert across == pytest.approx(0.3)
    assert height == pytest.approx(ax.get_ylim()[1])
    assert mesh.norm.vmin == losses.min()


def test_one_tuned_number_is_a_curve(frame):
    model = KernelExponentialFamily(
        n_components=32, noise=None, length_scale=0.5, tuning="folds", random_state=0
    ).fit(frame)
    ax = plot_loss_surface(model)
    expected = np.stack([model.loss_surface_.penalties, model.loss_surface_.losses[0]], axis=1)
    np.testing.assert_array_equal(line(ax, "folds' mean"), expected)
    (mark,) = (each for each in ax.lines if each.get_label().startswith("chosen"))
    if np.isfinite(model.penalty_):
        assert mark.get_xdata()[0] == model.penalty_
    assert ax.get_xlabel() == "penalty λ"


def test_an_untuned_model_has_no_surface_and_no_history(frame, tuned):
    model = KernelExponentialFamily(
        n_components=32,
        length_scale=1.0,
        noise_scale=0.1,
        penalty=0.1,
        gate=False,
        random_state=0,
    ).fit(frame)
    with pytest.raises(ValueError, match="penalty='auto' or noise_scale='auto'"):
        plot_loss_surface(model)
    with pytest.raises(ValueError, match="tuning='adam'"):
        plot_tuning_history(model)
    with pytest.raises(ValueError, match="'score_matching' or 'likelihood'; got 'apple'"):
        plot_loss_surface(tuned, criterion="apple")
    rough, surface = copy.copy(tuned), tuned.loss_surface_
    unsound = surface._replace(losses=np.full_like(surface.losses, np.nan))
    rough.fitted_ = tuned.fitted_._replace(surface=unsound)
    with pytest.raises(ValueError, match="criterion='likelihood'"):
        plot_loss_surface(rough)


def test_the_history_is_drawn_step_by_step(tuned):
    axes = plot_tuning_history(tuned)
    history = tuned.tuning_history_
    for ax, name in zip(axes[:3], ("loss", "penalty", "noise_scale"), strict=True):
        steps, values = ax.lines[0].get_data()
        np.testing.assert_array_equal(steps, np.arange(1, 7))
        np.testing.assert_array_equal(values, [record[name] for record in history])
    for number, name in enumerate(COLUMNS):
        values = line(axes[3], name)[:, 1]
        np.testing.assert_array_equal(values, [r["length_scale"][number] for r in history])
    ends = [axes[3].lines[number].get_ydata()[0] for number in (1, 3)]
    np.testing.assert_array_equal(ends, tuned.length_scale_)
    assert axes[1].lines[1].get_ydata()[0] == tuned.penalty_
    assert axes[2].lines[1].get_ydata()[0] == tuned.noise_scale_


def test_the_history_of_a_model_that_is_its_base(tuned):
    base = copy.copy(tuned)
    base.fitted_ = tuned.fitted_._replace(density=tuned.density_.untilted())
    panel = plot_tuning_history(base)[1]
    assert "λ = ∞" in panel.get_legend().get_texts()[0].get_text()
    assert np.isfinite(panel.get_ylim()).all()


# Ranks and calibration


def test_ranks_count_what_is_above(generator):
    ranks = ranks_among(np.array([5.0, 0.5, 2.5]), np.array([1.0, 2.0, 3.0]), generator)
    np.testing.assert_array_equal(ranks, [0, 3, 1])


@pytest.mark.parametrize("ties", [False, True])
def test_ranks_of_one_law_are_uniform(generator, ties):
    # One row for each set of draws, so that ranks are independent.
    sets = generator.standard_normal((3000, 10))
    if ties:
        sets = np.sign(sets)
    ranks = [ranks_among(each[:1], each[1:], generator)[0] for each in sets]
    assert stats.chisquare(np.bincount(ranks, minlength=10)).pvalue > 0.01


def test_counts_are_beta_binomial():
    places = np.array([1, 7, 20])
    found = _cumulative(15, 20, places)
    for line_, place in zip(found, places, strict=True):
        expected = stats.betabinom.cdf(np.arange(-1, 16), 15, place, 21 - place)
        np.testing.assert_allclose(line_, expected, atol=1e-12)


def test_the_band_holds_whole_paths_as_often_as_it_says(generator):
    n_rows, n_draws = 40, 60
    places = spread_places(n_draws, 20)
    least, largest = count_band(n_rows, n_draws, places, 0.8, generator)
    inside = 0
    for _ in range(1500):
        ranks = ranks_among(generator.random(n_rows), generator.random(n_draws), generator)
        counts = (ranks[:, None] < places).sum(axis=0)
        inside += bool(((least <= counts) & (counts <= largest)).all())
    # At least 0.8, and a little more since counts are whole numbers.
    assert 0.77 < inside / 1500 < 0.86


def in_band(ax):
    """Whether the line of a calibration picture lies within its band."""
    masses, values = line(ax, "rows").T
    corners = ax.collections[0].get_paths()[0].vertices
    low, high = (
        np.array([end(corners[corners[:, 0] == mass, 1]) for mass in masses])
        for end in (np.min, np.max)
    )
    return bool(((values >= low - 1e-12) & (values <= high + 1e-12)).all())


def test_calibration_is_the_share_of_rows_in_each_region():
    # A normal's region with mass u is a disc: u(x) = 1 − exp(−|x|² / 2), exactly.
    model, rows = Normal(), Normal().sample(300, random_state=1)
    ax = plot_calibration(model, rows, draws=model.sample(50_000, random_state=2))
    masses, values = line(ax, "rows").T
    exact = 1 - np.exp(-(rows**2).sum(axis=1) / 2)
    expected = [(exact < mass).mean() - mass for mass in masses]
    np.testing.assert_allclose(values, expected, atol=0.02)
    assert in_band(ax)
    assert in_band(plot_calibration(model, rows))


def test_calibration_by_hand():
    # Distances of three draws from the middle, and of rows with 0, 1, 1 and 3 draws nearer.
    model, draws = Normal(), [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    rows = [[0.5, 0.0], [1.5, 0.0], [1.6, 0.0], [3.5, 0.0]]
    masses, values = line(plot_calibration(model, rows, draws=draws), "rows").T
    np.testing.assert_allclose(masses, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(values + masses, [0, 0.25, 0.75, 0.75, 1])


def test_too_wide_and_too_narrow_are_told_apart():
    model = Normal()
    close, far = Normal([0.7, 0.7]), Normal([1.4, 1.4])
    above = plot_calibration(model, close.sample(300, random_state=1))
    below = plot_calibration(model, far.sample(300, random_state=1))
    assert not in_band(above)
    assert not in_band(below)
    assert line(above, "rows")[:, 1].max() > 0.1 > line(below, "rows")[:, 1].max()
    assert line(below, "rows")[:, 1].min() < -0.1 < line(above, "rows")[:, 1].min()


def test_constant_log_densities_are_calibrated():
    # All log densities are one number: ranks are broken at random.
    uniform = make_density("uniform")
    assert in_band(plot_calibration(uniform, uniform.sample(200, random_state=1)))


def test_a_fitted_model_on_rows_with_names(tuned):
    fresh = make_density("cosine").sample(100, random_state=5)
    draws = make_density("cosine").sample(400, random_state=6)
    ax = plot_calibration(tuned, pd.DataFrame(fresh, columns=COLUMNS), draws=draws)
    assert line(ax, "rows")[0].tolist() == [0, 0]
    assert line(ax, "rows")[-1].tolist() == [1, 0]


def test_quantiles_of_equal_samples_lie_on_the_diagonal():
    model, rows = Normal(), Normal().sample(150, random_state=1)
    across, up = line(plot_log_density_quantiles(model, rows, draws=rows), "rows").T
    np.testing.assert_array_equal(across, up)
    np.testing.assert_array_equal(up, np.sort(model.log_density(rows)))


def test_quantiles_leave_the_band_where_the_model_is_wrong():
    model = Normal()

    def outside(rows):
        ax = plot_log_density_quantiles(model, rows)
        band = ax.collections[0].get_paths()[0]
        inner = line(ax, "rows")[1:-1]
        return (~band.contains_points(inner, radius=1e-6)).mean()

    assert outside(model.sample(300, random_state=1)) < 0.02
    assert outside(Normal([1.5, 1.5]).sample(300, random_state=1)) > 0.5


def test_rows_of_density_zero_are_counted():
    uniform = make_density("uniform")
    rows = np.concatenate([uniform.sample(50, random_state=0), [[9.0, 9.0]]])
    ax = plot_log_density_quantiles(uniform, rows)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "1 of 51 rows: density zero" in texts
    with pytest.raises(ValueError, match="zero at all rows"):
        plot_log_density_quantiles(uniform, [[9.0, 9.0]])


def test_a_coverage_is_a_probability():
    with pytest.raises(ValueError, match=r"got 95\.0"):
        plot_calibration(Normal(), np.eye(2), coverage=95.0)


# -- of a target --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.uniform(-1, 1, (150, 2)), columns=COLUMNS)
    noise = 0.3 * generator.standard_normal(150)
    return X, pd.Series(2 * X["width"].to_numpy() + noise, name="price")


@pytest.fixture(scope="module")
def conditional(pairs):
    settings = {"n_components": 5, "kernel": "rbf", "random_state": 0}
    return ConditionalKernelExponentialFamily(**settings).fit(*pairs)


def test_regions_of_a_target_hold_their_mass(conditional, pairs):
    ax = plot_conditional(conditional, *pairs, feature="width", at=[0.5, 0.0], masses=[0.9])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "price")
    (region,) = (one for one in ax.collections if hasattr(one, "levels"))
    outline = np.concatenate([path.vertices for path in region.get_paths()])
    column = outline[np.abs(outline[:, 0]) < 0.02, 1]
    row = pd.DataFrame([[0.5, 0.0]], columns=COLUMNS)
    expected = conditional.predict_interval(row, 0.9, kind="highest_density")[0, 0]
    # A grid of 300 heights over a window of about six.
    np.testing.assert_allclose([column.min(), column.max()], expected, atol=0.06)


def test_curves_are_densities_at_their_rows(conditional, pairs):
    X, y = (one[:3] for one in pairs)
    ax = plot_conditional_curves(conditional, X, y, labels=list("abc"))
    assert [label.get_text() for label in ax.get_yticklabels()] == list("abc")
    curves = [line for line in ax.lines if len(line.get_xdata()) > 2]
    for number, curve in enumerate(curves):
        heights, values = curve.get_data()
        row = X.iloc[np.full(len(heights), number)]
        density = np.exp(conditional.score_samples(row, heights))
        np.testing.assert_allclose(values - ax.get_yticks()[number], density, atol=1e-9)


def test_a_lattice_is_drawn_in_cells(pairs):
    X, y = pairs
    settings = {"n_components": 5, "kernel": "rbf", "random_state": 0, "lattice": 1}
    model = ConditionalKernelExponentialFamily(**settings).fit(X, np.rint(2 * y))
    ax = plot_conditional(model, X, feature=1)
    (cells,) = (one for one in ax.collections if hasattr(one, "get_coordinates"))
    assert 0.9 < cells.get_array().reshape(-1, 120).sum(axis=0).min() <= 1 + 1e-9
    assert plot_conditional_curves(model, X[:2]).has_data()


class Uniform:
    """A model whose cdf is given."""

    def cdf(self, X, y):
        return y


def test_levels_of_a_right_model_are_flat_and_of_a_narrow_one_are_not():
    levels = np.random.default_rng(0).uniform(size=1000)
    narrow = np.where(levels < 0.5, levels / 2, 1 - (1 - levels) / 2)
    for drawn, inside in ((levels, True), (narrow, False)):
        ax = plot_pit(Uniform(), None, drawn)
        heights = np.unique(ax.patches[1].get_xy()[:, 1])
        heights = heights[heights > 0]
        band = ax.patches[0].get_bbox().intervaly
        assert ((heights >= band.min()) & (heights <= band.max())).all() == inside
        ax = plot_coverage(Uniform(), None, drawn)
        nominal, shares = ax.lines[1].get_data()
        least, largest = _band(ax, nominal)
        assert ((shares >= least) & (shares <= largest)).all() == inside
        assert shares[49] == pytest.approx(np.mean(np.abs(2 * drawn - 1) <= nominal[49]))


def _band(ax, nominal):
    vertices = ax.collections[0].get_paths()[0].vertices
    values = [vertices[np.isclose(vertices[:, 0], x), 1] for x in nominal]
    return np.array([one.min() for one in values]), np.array([one.max() for one in values])


def test_what_a_target_cannot_be_drawn_of(conditional, pairs):
    with pytest.raises(ValueError, match="feature must be one of length, width"):
        plot_conditional(conditional, pairs[0], feature="height")
    with pytest.raises(ValueError, match="below 2"):
        plot_conditional(conditional, pairs[0], feature=2)
    with pytest.raises(ValueError, match="masses"):
        plot_conditional(conditional, pairs[0], masses=[90.0])
