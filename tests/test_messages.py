"""What a careless user is told: what was expected, what came, what to try.

Names and numbers are checked by a few functions of `kexpfam.choices`, tables by one of
`kexpfam.data.tables`; the tables below hold them, and the places that call them, to their words.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import kexpfam
from kexpfam import (
    FourierFeatures,
    GaussianNoise,
    ImportanceNormalizer,
    InteractionFeatures,
    KernelDiffusion,
    KernelExponentialFamily,
    Matern,
    MixtureBase,
    MonteCarloNoise,
    QuadratureNormalizer,
    RationalQuadratic,
    SingularSystemError,
    Tuning,
)
from kexpfam.bridges import FourierFeatureMap, as_arviz, jax_log_density
from kexpfam.choices import checked_name, nearest, positive_number, resolve, seeded, share, whole
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.datasets import load_wine_quality, make_density, make_thin_table
from kexpfam.goodness_of_fit import fssd_test, stein_test
from kexpfam.metrics import fisher_divergence, wasserstein_distance
from kexpfam.plotting import (
    plot_calibration,
    plot_corner,
    plot_density,
    plot_loss_surface,
    plot_noise_levels,
    plot_score_field,
    plot_tuning_history,
)
from kexpfam.report import make_report

ROWS = np.random.default_rng(0).standard_normal((60, 2))
GIVEN = {
    "n_components": 32,
    "penalty": 0.1,
    "noise_scale": 0.1,
    "length_scale": 1.0,
    "base": "gaussian",
    "random_state": 0,
    "gate": False,
}


def family(**options):
    return KernelExponentialFamily(**{**GIVEN, **options})


@pytest.fixture(scope="module")
def model():
    return family().fit(ROWS)


@pytest.fixture(scope="module")
def diffusion():
    features = InteractionFeatures()
    settings = {"n_components": 32, "n_levels": 3, "marginals": None, "basis": features}
    return KernelDiffusion(**settings, random_state=0).fit(ROWS)


# -- names and numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "names", "answer"),
    [
        ("fourrier", ["fourier", "grid"], " Did you mean 'fourier'?"),
        ("RBF", ["rbf", "matern"], " Did you mean 'rbf'?"),
        ("gaussian", ["rbf", "matern"], " Here it is called 'rbf'."),
        ("rbf", ["gaussian", "inverse_multiquadric"], " Here it is called 'gaussian'."),
        ("normal", ["uniform", "gaussian"], " Here it is called 'gaussian'."),
        ("none", ["auto", None], " Here it is called None."),
        ("xyz", ["rbf", "matern"], ""),
        (3, ["rbf"], ""),
    ],
)
def test_the_nearest_name_is_offered(value, names, answer):
    assert nearest(value, names) == answer


@pytest.mark.parametrize("value", ["c", None, 3, ["a"], np.array(["a", "b"]), {}])
def test_a_name_is_one_of_the_names(value):
    with pytest.raises(ValueError, match=r"letter must be 'a' or 'b'; got "):
        checked_name("letter", value, ("a", "b"))


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None, True, np.nan, [3], np.ones(2)])
def test_a_count_is_a_whole_number(value):
    with pytest.raises(ValueError, match="n_rows must be a whole number ≥ 1; got "):
        whole("n_rows", value)


def test_a_count_may_be_of_any_whole_type():
    assert [whole("n", value) for value in (3, np.int32(3), np.array(3))] == [3, 3, 3]
    with pytest.raises(ValueError, match=r"'auto' or a whole number ≥ 2; got 10\.0\. Try 10\."):
        whole("n", 10.0, least=2, otherwise="'auto'")


@pytest.mark.parametrize("value", [0, -1.0, "1", None, True, np.nan, np.inf, [1.0], np.ones(2)])
def test_a_scale_is_a_positive_number(value):
    with pytest.raises(ValueError, match="scale must be a positive number; got "):
        positive_number("scale", value)


@pytest.mark.parametrize("value", [0, 1, -0.5, "0.5", None, True, np.nan])
def test_a_share_lies_between_zero_and_one(value):
    with pytest.raises(ValueError, match="must be a number between 0 and 1; got "):
        share("coverage", value)
    with pytest.raises(ValueError, match=r"got 95\. Did you mean 0\.95\?"):
        share("coverage", 95)


@pytest.mark.parametrize("value", ["a", -1, 1.5])
def test_a_seed_is_a_whole_number(value):
    with pytest.raises(ValueError, match="random_state must be None, a whole number from 0"):
        seeded(value)


def test_objects_are_told_from_names_classes_and_numbers():
    class Custom:
        pass

    with pytest.raises(ValueError, match=r"'rbf' or an object like Matern\(\); got 3\.$"):
        resolve("kernel", 3, {"rbf": 1}, "an object like Matern()", "multipliers")
    with pytest.raises(ValueError, match=r"got the class Matern\. .* Matern\(\)\.$"):
        resolve("kernel", Matern, {"rbf": 1})
    with pytest.raises(ValueError, match="which has no multipliers"):
        resolve("kernel", Custom(), {"rbf": 1}, needs="multipliers")


def test_a_long_value_is_cut_short():
    with pytest.raises(ValueError, match="…") as caught:
        whole("n", np.ones(1000))
    assert len(str(caught.value)) < 200


# -- tables -------------------------------------------------------------------------------------

DATES = pd.date_range("2020", periods=3)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (None, TypeError, "got None"),
        (3, TypeError, "got an object of type int"),
        ({"a": [1.0]}, TypeError, r"dict\. Try pandas\.DataFrame\(X\)"),
        ("rows.csv", TypeError, r"the text 'rows\.csv'\. Read a file first"),
        (Path("rows.csv"), TypeError, "Read a file first"),
        (iter([[1.0]]), TypeError, r"numpy\.concatenate\(list\(X\)\)"),
        (KernelDiffusion(), TypeError, "in the right order"),
        (KernelDiffusion, TypeError, "the class KernelDiffusion"),
        (pl.DataFrame({"a": [1.0]}).lazy(), TypeError, r"X\.collect\(\)"),
        ([np.eye(2), np.eye(2)], ValueError, r"a list of 2.*iter\(X\)"),
        (np.ma.masked_greater(np.eye(2), 0.5), ValueError, r"no masked values; got 2.*compress"),
        (DATES.to_numpy()[:, None], ValueError, "dates or times"),
        (pd.DataFrame({"when": DATES}), ValueError, r"'when' \(datetime64"),
        (
            pd.DataFrame({"x": [1.0], "y": ["u"]}),
            ValueError,
            r"2 columns; got 'y' \(it holds 'u'\)",
        ),
        (pd.DataFrame({"c": pd.Categorical(["u"])}), ValueError, "'c'"),
        (pl.DataFrame({"t": ["a", "b"]}), ValueError, r"'t' \(it holds 'a'\)"),
        (pl.DataFrame({"d": list(DATES.date)}), ValueError, r"'d' \(Date\)"),
    ],
)
def test_what_is_no_table_of_numbers(X, kind, message):
    with pytest.raises(kind, match=message):
        refuse_what_is_no_table(X)


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        np.eye(2, dtype=object),
        np.eye(2, dtype=bool),
        np.array([["1", "2"]]),
        np.ma.array(np.eye(2)),
        pd.DataFrame({"a": ["1", "2"], "b": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"a": [1.0, None], "b": pd.Categorical([1, 2])}),
        pl.DataFrame({"a": [1.0, None], "b": [True, False], "c": [1, 2]}),
    ],
)
def test_what_may_well_be_a_table_is_left_to_scikit_learn(X):
    refuse_what_is_no_table(X)


def test_every_way_in_refuses_what_is_no_table(model, diffusion):
    ways = (
        family().fit, model.score_samples, model.gradient, model.laplacian, model.score,
        diffusion.score_samples, diffusion.impute, FourierFeatureMap().fit,
        make_density("ring").log_density, make_density("banana").gradient,
        lambda X: stein_test(model, X), lambda X: wasserstein_distance(ROWS, X),
        lambda X: plot_density(model, X), lambda X: plot_corner(X, ROWS),
    )  # fmt: skip
    for way in ways:
        with pytest.raises(TypeError, match=r"got an object of type dict"):
            way({"a": [1.0]})


# -- the places that ask ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"basis": "fourrier"}, r"Did you mean 'fourier'\?"),
        ({"basis": FourierFeatures}, r"got the class FourierFeatures\. .* FourierFeatures\(\)"),
        ({"kernel": "gaussian"}, "Here it is called 'rbf'"),
        ({"kernel": 3}, r"an object like Matern\(nu=3\.5\); got 3"),
        ({"base": "normal"}, "Here it is called 'gaussian'"),
        ({"noise": "none"}, "Here it is called None"),
        ({"noise": 0.1}, r"an object like GaussianNoise\(\); got 0\.1"),
        ({"noise": GaussianNoise("wide")}, "covariance must be None or an array"),
        ({"noise": GaussianNoise(np.array([1.0, -1.0]))}, "positive numbers, one per column"),
        ({"noise": MonteCarloNoise(n_draws="8")}, "n_draws must be a whole number"),
        ({"criterion": "likelyhood"}, r"Did you mean 'likelihood'\?"),
        ({"criterion": ["likelihood"]}, "got \\['likelihood'\\]"),
        ({"tuning": 5}, r"an object like Tuning\(n_steps=30\); got 5"),
        ({"normalizer": "quadrture"}, r"Did you mean 'quadrature'\?"),
        ({"normalizer": 3}, "got 3"),
        ({"standardize": "no"}, "standardize must be True or False; got 'no'"),
        ({"noise_scale": True}, "'auto' or a number ≥ 0; got True"),
        ({"n_components": True}, "n_components must be a whole number ≥ 1; got True"),
    ],
)
def test_settings_of_the_family(options, message):
    with pytest.raises(ValueError, match=message):
        family(**options).fit(ROWS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": "Auto"}, "'auto' or a whole number ≥ 1; got 'Auto'"),
        ({"n_components": np.ones(2)}, "'auto' or a whole number ≥ 1"),
        ({"marginals": "gausianize"}, r"Did you mean 'gaussianize'\?"),
        ({"basis": np.ones(2)}, "basis must be 'auto' or an object like"),
        ({"noise_range": (0.1, np.inf)}, r"0 < low < high; got \(0\.1, inf\)"),
    ],
)
def test_settings_of_the_diffusion(options, message):
    with pytest.raises(ValueError, match=message):
        KernelDiffusion(**options).fit(ROWS)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Matern(nu=0.5), r"nu must be a number above 2.*got 0\.5\. Try nu=2\.5"),
        (lambda: RationalQuadratic(alpha=np.inf), "alpha must be a positive number; got inf"),
        (lambda: ImportanceNormalizer(n_draws=0), "n_draws must be a whole number ≥ 1"),
        (lambda: QuadratureNormalizer(tolerance=-1.0), "tolerance must be a number ≥ 0; got -1"),
        (lambda: QuadratureNormalizer(most_panels=0), "most_panels must be a whole number ≥ 1"),
        (lambda: MixtureBase(n_components=0), "None or a whole number ≥ 1; got 0"),
        (lambda: MixtureBase(regularization=-1.0), "regularization must be a number ≥ 0"),
        (lambda: InteractionFeatures(orders=()), r"orders must be a tuple.*got \(\)"),
        (lambda: InteractionFeatures(orders=(0,)), "orders must be a whole number ≥ 1; got 0"),
        (lambda: InteractionFeatures(shortest=5.0), "no less than shortest; got 4.0 and 5.0"),
        (lambda: InteractionFeatures(along_axes=2.0), "a share from 0 to 1; got 2.0"),
        (lambda: Tuning(n_folds=1), "n_folds must be 0 or a whole number ≥ 2; got 1"),
        (lambda: Tuning(batch_size=1), "batch_size must be a whole number ≥ 2; got 1"),
        (lambda: FourierFeatures(draw="orthognal"), r"Did you mean 'orthogonal'\?"),
        (lambda: make_density("bananna"), r"Did you mean 'banana'\?"),
        (lambda: load_wine_quality("Red"), r"'red' or 'white'; got 'Red'\. Did you mean 'red'\?"),
        (lambda: load_wine_quality(protocol="deep_kexpfm"), r"Did you mean 'deep_kexpfam'\?"),
    ],
)
def test_settings_of_objects(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda m, d: m.sample(0), ValueError, "n_samples must be a whole number ≥ 1; got 0"),
        (lambda m, d: d.sample(2.5), ValueError, r"n_samples must be .* ≥ 1; got 2\.5"),
        (lambda m, d: make_density("ring").sample(-1), ValueError, "whole number ≥ 0; got -1"),
        (lambda m, d: m.sample(3, method="nut"), ValueError, r"Did you mean 'nuts'\?"),
        (lambda m, d: d.sample(3, method="flo"), ValueError, r"Did you mean 'flow'\?"),
        (lambda m, d: m.sample(3, starts="here"), ValueError, "starts must be an array of"),
        (lambda m, d: d.smoothed_gradient(ROWS, "low"), ValueError, "no less than .* got 'low'"),
        (lambda m, d: d.smoothed_laplacian(ROWS, [0.1]), ValueError, r"level; got \[0\.1\]"),
        (lambda m, d: m.fit(ROWS, sample_weight="w"), ValueError, "the weights themselves"),
        (lambda m, d: m.merge(d), TypeError, "other must be a fitted KernelExponentialFamily"),
        (lambda m, d: m.merge(family()), NotFittedError, "not fitted"),
        (lambda m, d: stein_test(m, ROWS, kernel="gaussian"), ValueError, "called 'rbf'"),
        (lambda m, d: stein_test(m, ROWS, kernel=abs), ValueError, "must return a Profile"),
        (lambda m, d: stein_test(Matern, ROWS), ValueError, "got the class Matern"),
        (lambda m, d: stein_test(lambda X: "a", ROWS), ValueError, "as an array of numbers"),
        (lambda m, d: fssd_test(m, ROWS, locations="optimzed"), ValueError, "mean 'optimized'"),
        (lambda m, d: fssd_test(m, ROWS, locations=[["a"]]), ValueError, "array of numbers"),
        (lambda m, d: fisher_divergence(ROWS, m, ROWS), TypeError, "in the order model, X, true"),
        (lambda m, d: fisher_divergence(m, ROWS, ROWS[:5]), ValueError, r"got the shape \(5, 2\)"),
        (lambda m, d: fisher_divergence(m, ROWS, None), ValueError, "of type NoneType"),
        (lambda m, d: wasserstein_distance(ROWS, ROWS, method="slice"), ValueError, "'sliced'"),
        (lambda m, d: wasserstein_distance(ROWS, ROWS, X_weight="a"), ValueError, "60 numbers"),
        (lambda m, d: make_density("ring").gradient(np.ones((3, 5))), ValueError, "two columns"),
        (lambda m, d: as_arviz(d), TypeError, "draws by Markov chains"),
        (lambda m, d: jax_log_density(family()), NotFittedError, "not fitted"),
        (lambda m, d: make_report(data=ROWS, model="m.kexpfam"), ValueError, r"kexpfam\.load"),
        (
            lambda m, d: make_report(data=np.full((30, 2), np.nan), model=KernelDiffusion()),
            ValueError,
            "KernelDiffusion does",
        ),
    ],
)
def test_questions_that_make_no_sense(ask, kind, message, model, diffusion):
    with pytest.raises(kind, match=message):
        ask(model, diffusion)


def test_rows_never_seen_cannot_be_forgotten():
    model = family(n_components=32, penalty=0.01).fit(ROWS)
    with pytest.raises(SingularSystemError, match=r"were these among them\?"):
        model.forget(ROWS[:10] + 50)


@pytest.mark.parametrize(
    ("draw", "kind", "message"),
    [
        (lambda m, d: plot_density(ROWS, m), TypeError, "The order of arguments is model, X"),
        (lambda m, d: plot_density(None), TypeError, "model must be a fitted estimator"),
        (
            lambda m, d: plot_density(m, ROWS, n_points=0),
            ValueError,
            "n_points must be .* ≥ 2; got 0",
        ),
        (lambda m, d: plot_density(m, limits=[(0, 1)]), ValueError, r"2 in all; got \[\(0, 1\)\]"),
        (lambda m, d: plot_density(m, limits="wide"), ValueError, "got 'wide'. Try limits="),
        (lambda m, d: plot_density(m, limits=[(0, np.inf)] * 2), ValueError, "finite numbers"),
        (
            lambda m, d: plot_density(m, ROWS, masses=[]),
            ValueError,
            r"at least one.*Try \(0\.5, 0\.9\)",
        ),
        (lambda m, d: plot_density(m, ROWS, masses=[50.0]), ValueError, r"Did you mean 0\.5\?"),
        (lambda m, d: plot_density(m, ROWS, ax="left"), TypeError, "ax must be matplotlib axes"),
        (lambda m, d: plot_density(m, ROWS, max_rows=-1), ValueError, "max_rows must be .* ≥ 0"),
        (lambda m, d: plot_calibration(m, ROWS, coverage=95.0), ValueError, r"mean 0\.95\?"),
        (
            lambda m, d: plot_noise_levels(d, n_levels=0),
            ValueError,
            "n_levels must be .* ≥ 1; got 0",
        ),
        (lambda m, d: plot_noise_levels(KernelDiffusion()), NotFittedError, "not fitted"),
        (lambda m, d: plot_loss_surface(family()), NotFittedError, "not fitted"),
        (lambda m, d: plot_tuning_history(family()), NotFittedError, "not fitted"),
        (lambda m, d: plot_score_field(OnlyDensity()), TypeError, "must have a method gradient"),
    ],
)
def test_pictures_that_cannot_be(draw, kind, message, model, diffusion):
    with pytest.raises(kind, match=message):
        draw(model, diffusion)


class OnlyDensity:
    """A density that knows no gradient."""

    def log_density(self, X):
        return -(X**2).sum(axis=1)

    def sample(self, n_samples, random_state=None):
        return np.random.default_rng(random_state).standard_normal((n_samples, 2))


# -- files --------------------------------------------------------------------------------------


def test_files_that_cannot_be_used(model, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,5\n4,4\n")
    (tmp_path / "rows.xyz").write_text("")
    (tmp_path / "names.csv").write_text("a,b\n")
    for given, kind, message in (
        (tmp_path / "row.csv", FileNotFoundError, r"does not exist\. Did you mean 'rows\.csv'\?"),
        (tmp_path / "*.csv", FileNotFoundError, r"sorted\(glob\.glob\("),
        ("nowhere", FileNotFoundError, f"nowhere does not exist in {re.escape(str(Path.cwd()))}"),
        (tmp_path / "names.csv", ValueError, "has a line of names but no rows"),
        (tmp_path, ValueError, r"is a folder\. Give its files"),
        (tmp_path / "rows.xyz", ValueError, r"\.npy\. Convert it first"),
        (iter([(ROWS, np.ones(60), 3)]), ValueError, r"a tuple of 3\. Expected rows, or a pair"),
        (iter(["a"]), TypeError, "Block 0 must be an array"),
    ):
        with pytest.raises(kind, match=message):
            family().fit(given)
    with pytest.raises(ValueError, match=r"no column 'bb'.*Did you mean 'b'\?"):
        family().fit(tmp_path / "rows.csv", sample_weight="bb")
    with pytest.raises(FileNotFoundError, match=r"no such folder to write to.*nowhere"):
        model.save(tmp_path / "nowhere" / "model.kexpfam")
    with pytest.raises(FileNotFoundError):
        kexpfam.load(tmp_path / "model.kexpfam")
    with pytest.raises(kexpfam.ModelFileError, match=r"one that model\.save\(path\) wrote"):
        kexpfam.load(tmp_path / "rows.csv")


def test_a_checkpoint_is_a_file_of_its_own(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for path, message in (
        (tmp_path, "got .*, a folder"),
        (tmp_path / "nowhere" / "fit.checkpoint", "there is no folder .*nowhere"),
        (tmp_path / "rows.csv", "is not a checkpoint, or is damaged.*another name"),
    ):
        with pytest.raises(ValueError, match=message):
            family().fit(ROWS, checkpoint=path)
    assert (tmp_path / "rows.csv").exists()


# -- what is not installed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "extra", "ask"),
    [
        ("matplotlib", "plot", lambda m: plot_density(m, ROWS)),
        ("matplotlib", "plot", lambda m: plot_corner(ROWS, ROWS)),
        ("ot", "metrics", lambda m: wasserstein_distance(ROWS, ROWS)),
        ("finufft", "grid", lambda m: family(basis="grid").fit(ROWS)),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package, extra, ask, model, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'kexpfam\[{extra}\]'"):
        ask(model)


# -- docstrings ---------------------------------------------------------------------------------

MODULES = ("bounds", "bridges", "datasets", "goodness_of_fit", "metrics", "plotting", "report")
FUNCTIONS = [
    *(getattr(kexpfam, name) for name in kexpfam.__all__ if name != "__version__"),
    *(
        getattr(module, name)
        for module in (getattr(kexpfam, name) for name in MODULES)
        for name in module.__all__
    ),
]
METHODS = [
    method
    for kind in (
        kexpfam.ConditionalKernelExponentialFamily,
        KernelExponentialFamily,
        KernelDiffusion,
        FourierFeatureMap,
    )
    for name, method in inspect.getmembers(kind, inspect.isroutine)
    if not name.startswith("_") and method.__module__.startswith("kexpfam")
]


def described_parameters(docstring):
    """Names under Parameters, each with what stands behind its colon."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^[A-Z][\w ]*\n-+\n|\Z)", docstring, re.M | re.S)
    found = {}
    for line in (section.group(1) if section else "").replace("\\\n", "").splitlines():
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found.update({name.strip(" *"): kind for name in names.split(",")})
    return found


@pytest.mark.parametrize(
    "function",
    [one for one in (*FUNCTIONS, *METHODS) if inspect.isroutine(one) or hasattr(one, "fit")],
    ids=lambda one: one.__qualname__,
)
def test_every_parameter_is_described_with_its_default(function):
    docstring = inspect.getdoc(function)
    described = described_parameters(docstring)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "sketch", "generator"):
            continue
        assert name in described, f"{name} is not described"
        if parameter.default not in (inspect.Parameter.empty, None):
            words = described[name]
            assert "default=" in words or "optional" in words, f"the default of {name} is not told"
    if inspect.isroutine(function) and function.__name__ != "save":
        returned = inspect.signature(function).return_annotation
        assert returned in (None, "None") or "Returns\n-------" in docstring


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: KernelDiffusion(features="auto"), "'features' is called 'basis' now"),
        (lambda: stein_test(None, ROWS, n_bootstrap=9), "'n_bootstrap' is called 'n_null_draws'"),
    ],
)
def test_old_names_are_answered_with_the_new_ones(ask, message):
    with pytest.raises(TypeError, match=message):
        ask()


@pytest.mark.parametrize("seed", [0, None, np.random.RandomState(0), np.random.default_rng(0)])
def test_one_contract_for_random_state(seed, model, diffusion):
    assert model.sample(3, random_state=seed).shape == (3, 2)
    assert diffusion.sample(3, random_state=seed).shape == (3, 2)
    assert make_density("ring").sample(3, random_state=seed).shape == (3, 2)
    assert make_thin_table("sheet", 3, random_state=seed).shape == (3, 3)
    assert family(random_state=seed).fit(ROWS).score_samples(ROWS).shape == (len(ROWS),)
    with pytest.raises(ValueError, match="RandomState or Generator; got 'lucky'"):
        model.sample(3, random_state="lucky")
