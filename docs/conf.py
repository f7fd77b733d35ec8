"""Sphinx set-up: MyST pages, API from docstrings, gallery from examples/."""

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from nipde import __version__

project = "nipde"
author = "The nipde authors"
copyright = author
version = release = __version__

extensions = ["sphinx.ext.autodoc", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery/GALLERY_HEADER.rst"]
html_theme = "furo"
html_title = f"nipde {__version__}"
html_static_path = ["_static"]
html_css_files = ["nipde.css"]

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # shapes are strings that Sphinx cannot resolve; the docstrings say them in words
autodoc_member_order = "bysource"
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "capture_repr": (),
}


html_math_renderer = "mathml"  # browsers draw MathML by themselves: no script, no network


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("autodoc-process-docstring", _keep_bars)


def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext(), display="inline"))
    raise SkipNode


def _display_math(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def _keep_bars(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """In our docstrings |k| is a length; in RST it would be a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]
