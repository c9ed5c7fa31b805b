"""Settings of the documentation site; `make docs` builds it.

Warnings are errors and every cross-reference must resolve. The reference pages are written from the
packages' ``__all__`` before Sphinx looks for them (see `reference.py`).
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402

import kexpfam  # noqa: E402

project = "kexpfam"
author = "The kexpfam developers"
copyright = author
version = release = kexpfam.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "recordings"]
templates_path = ["_templates"]

# Docstrings write code in single backticks.
default_role = "code"
nitpicky = True

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Docstrings say types in words; annotations would repeat them with array shapes.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# By name, since an earlier build's list of pages may lack some of them.
autosummary_generate = [str(page) for page in reference.write_pages(HERE / "api")]
autosummary_imported_members = True
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"kexpfam {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "matplotlib_animations": False,
    "backreferences_dir": None,
    "min_reported_time": 1e9,
}

linkcheck_timeout = 10
linkcheck_retries = 2
linkcheck_report_timeouts_as_broken = False


def _skip_requests(_app: Any, _what: str, name: str, *_others: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    routed = name.startswith("set_") and name.endswith("_request")
    return True if routed or name in {"get_metadata_routing", "set_output"} else None


def _check_links_only_online(app: Any) -> None:
    """Without a network nothing can be said of external links: none of them is then tried."""
    if app.builder.name != "linkcheck":
        return
    try:
        socket.create_connection(("docs.python.org", 443), timeout=5).close()
    except OSError:
        print("No network: external links are not checked.")
        app.config.linkcheck_ignore = [r"https?://"]


def setup(app: Any) -> None:
    """Connect what is above."""
    app.connect("autodoc-skip-member", _skip_requests)
    app.connect("builder-inited", _check_links_only_online)
