"""What holds for all tests.

Annotated array shapes are checked while the tests run (`tests/shape_checks.py`); users pay nothing
for them. KernelDiffusion takes fewer functions and smaller mixtures than it does for users, unless
told.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest

from tests.shape_checks import check_shapes

# JAX takes ten seconds to forget its programs one by one. A worker that has said all ends at once,
# after whatever was registered later than this.
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(os._exit, 0)

# Every stage; not the estimators, whose constructors take anything (scikit-learn demands it).
STAGES = [
    "base",
    "bounds",
    "bridges",
    "data",
    "datasets",
    "features",
    "goodness_of_fit",
    "metrics",
    "model",
    "moments",
    "noise",
    "normalizer",
    "pipeline",
    "plotting",
    "report",
    "sampling",
    "solve",
    "tuning",
]
check_shapes([f"kexpfam.{stage}" for stage in STAGES])

from kexpfam.base import GaussianBase, MixtureBase, UniformBase  # noqa: E402
from kexpfam.data.rows import ArrayRows  # noqa: E402
from kexpfam.data.sketch import Sketch, row_keys, sketch_rows  # noqa: E402
from kexpfam.moments import MomentSource  # noqa: E402

# Places of KernelDiffusion's own numbers of functions, of the components of all mixtures in an
# average, and of rows that are moved together, for users and in tests: what is chosen, and how, is
# the same.
MIXTURES = "kexpfam.base.averaged._MOST_COMPONENTS"
SIZES = {
    MIXTURES: (512, 64),
    "kexpfam.tuning.frequencies._SEARCH_COMPONENTS": (512, 128),
    "kexpfam.tuning.frequencies.N_COMPONENTS": (1024, 128),
    "kexpfam.estimators.kernel_diffusion.N_COMPONENTS": (1024, 128),
    "kexpfam.model.flow._STEP_ROWS": (256, 64),
    # One program for any number of rows, where users have one for few and one for many.
    "kexpfam.model.flow._BLOCK": (128, 64),
    "kexpfam.model.flow._FEW": (32, 0),
    "kexpfam.moments.levels._BLOCK": (512, 128),
    "kexpfam.data.blocks._PIECE": (128, 512),
    "kexpfam.data.blocks._MOST_PIECES": (8, 64),
}


# Small mixtures are padded with empty components to one of fewer sizes than users'.
PADDED_SIZES = ("kexpfam.base.mixture.padded_size", "kexpfam.base.smoothed.padded_size")


def few_padded_sizes(users: Callable[[int], int]) -> Callable[[int], int]:
    return lambda count: 8 if count <= 8 else max(80, users(count))


def module_and_name(place: str) -> tuple[ModuleType, str]:
    """A module by its full name: a package may export a function of the same name."""
    module, name = place.rsplit(".", 1)
    return importlib.import_module(module), name


@pytest.fixture(scope="session", autouse=True)
def _small_sizes():
    """Fewer functions, wherever a test gives KernelDiffusion no number of them, and components."""
    # One module takes its number from another when it is imported: all are, before any changes.
    for place, (users, _) in SIZES.items():
        module, name = module_and_name(place)
        assert getattr(module, name) == users
    with pytest.MonkeyPatch.context() as patch:
        for place, (_, few) in SIZES.items():
            patch.setattr(*module_and_name(place), few)
        for place in PADDED_SIZES:
            module, name = module_and_name(place)
            patch.setattr(module, name, few_padded_sizes(getattr(module, name)))
        yield


@pytest.fixture
def as_for_users(monkeypatch):
    """As many functions and components as users get, which pay for compiling them well."""
    for place, (users, _) in SIZES.items():
        monkeypatch.setattr(*module_and_name(place), users)
    few = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", few)


@pytest.fixture
def users_mixtures(monkeypatch):
    """As many components as users get."""
    monkeypatch.setattr(MIXTURES, SIZES[MIXTURES][0])


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(7)


def make_sketch(rows: np.ndarray, weights: np.ndarray | None = None) -> Sketch:
    weights = np.ones(len(rows)) if weights is None else weights
    return sketch_rows(rows, weights, row_keys(rows, seed=0), size=100_000)


def columns(count: int) -> Sketch:
    """A sketch of which only the number of columns matters."""
    return make_sketch(np.vstack([np.zeros(count), np.ones(count)]))


def moment_source(basis, noise, rows, weights, base, folds=None, **options) -> MomentSource:
    """Moments of rows in memory, by fold."""
    folds = np.zeros(len(rows), int) if folds is None else folds
    source = ArrayRows(rows, weights, chunk_rows=len(rows)).mapped(
        lambda chunk: chunk._replace(labels=folds)
    )
    return MomentSource(basis, noise, base, source, **options)


def clusters(generator: np.random.Generator) -> np.ndarray:
    """300 rows in two correlated clusters: enough structure for a mixture of several parts."""
    first = generator.standard_normal((180, 2)) @ np.array([[0.6, 0.2], [0.0, 0.4]]) + [1, 0.5]
    second = generator.standard_normal((120, 2)) * [0.3, 0.7] - [1, 0.8]
    return np.concatenate([first, second])


@pytest.fixture
def two_clusters(generator) -> np.ndarray:
    return clusters(generator)


BASES = {
    "uniform": UniformBase(),
    "gaussian": GaussianBase(),
    "mixture": MixtureBase(n_components=3),
}


@pytest.fixture(params=BASES)
def base(request, two_clusters, generator):
    return BASES[request.param].fit(make_sketch(two_clusters), generator)


@pytest.fixture
def base_with_affine_score(two_clusters, generator):
    """A Gaussian: its score is averaged over any noise exactly."""
    return GaussianBase().fit(make_sketch(two_clusters), generator)


def pytest_collection_finish():
    """What is imported stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    """What was looked through for unraisable exceptions need not be looked through again."""
    gc.freeze()


# Every compiled program holds some memory maps, of which a process may have 65 530 on Linux; JAX
# crashes where there are no more.
MOST_MAPS = 45_000


@pytest.fixture(scope="module", autouse=True)
def _few_programs():
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """For commands: caches of their own."""
    return {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), **os.environ}


@pytest.fixture(scope="session")
def commands(environment):
    """One process for the commands of all modules."""
    # Imported here: it takes the sizes from this file.
    from tests.command_server import command_server

    with command_server(environment) as run:
        yield run


@pytest.fixture(scope="module")
def run(commands, folder):
    """Run one command in a module's folder: its exit code and what it said."""
    return functools.partial(commands, folder)
