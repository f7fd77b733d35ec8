"""Sphinx set-up: MyST pages, tutorials and pages of code that are run, API from docstrings, gallery from examples/."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from nipde import __version__

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS / "tutorials")]
from shapes import shapes_of  # noqa: E402  (beside this file)

os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")  # where Jupyter keeps its files; unset, it warns about the choice

project = "nipde"
author = "The nipde authors"
copyright = author
version = release = __version__

extensions = ["sphinx.ext.autodoc", "myst_nb", "sphinx_copybutton", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery/GALLERY_HEADER.rst", "gallery/*.ipynb", "jupyter_execute"]
html_theme = "furo"
html_title = f"nipde {__version__}"
html_static_path = ["_static"]
html_css_files = ["nipde.css"]

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"  # every page of code is run by every build
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 600  # seconds for a cell, on a busy machine
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.printed):not(.cell_output) > div.highlight > pre"

autodoc_typehints = "none"  # shapes are strings that Sphinx cannot resolve; they stand below the docstrings
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
    app.connect("autodoc-process-docstring", _add_shapes)
    app.add_config_value("follow_tutorials", True, "env")  # -D follow_tutorials=0: while writing
    app.connect("source-read", _follow)
    app.connect("builder-inited", _draw_measured)


def _draw_measured(app: Any) -> None:
    """Pictures of measured data come from the records."""
    from measured import draw

    draw(DOCS.parent / "results", DOCS / "how-to" / "measured")


def _follow(app: Any, page: str, source: list[str]) -> None:
    """A tutorial is followed while it is read: below every block stands what it printed."""
    from follow import followed, keep_pictures

    if page.startswith("tutorials/") and app.config.follow_tutorials:
        with tempfile.TemporaryDirectory() as folder:
            text, place = source[0], Path(folder).resolve()
            source[0] = followed(text, place)
            keep_pictures(text, place, DOCS / "tutorials" / "followed" / page.removeprefix("tutorials/"))


def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext(), display="inline"))
    raise SkipNode


def _display_math(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def _keep_bars(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """In our docstrings |k| is a length; in RST it would be a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def _add_shapes(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Arrays by name, axis by axis."""
    if shapes := shapes_of(obj):
        lines += ["", ".. container:: shapes", "", *(f"   {shape}" for shape in shapes), ""]
