"""Settings of the site: ``python -m sphinx -W -c docs . build/site`` makes it in a checkout.

Sphinx reads the Markdown as GitHub does (MyST is CommonMark), and with ``-W`` a link that leads
nowhere or a page that no list names is an error. The pages fetch nothing from elsewhere.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from posixpath import normpath
from tempfile import TemporaryDirectory

from sphinx.application import Sphinx

from hta_widgets import Dashboard, __version__
from hta_widgets.sample import write_sample

project = "hta_widgets"
author = "The hta_widgets developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/*.md", "tests/fuzz/README.md", "*.md"]
exclude_patterns = ["*.egg-info", ".*", "build", "dist", "hta_widgets", "js", "notebooks"]

myst_heading_anchors = 4
highlight_language = "none"  # of blocks that name none, as on GitHub
suppress_warnings = ["myst.header"]  # the changelog goes from its title to its parts

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = False

html_theme = "furo"
html_title = f"hta_widgets {version}"
html_additional_pages = {"index": "home.html"}
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_copy_source = html_show_sourcelink = False

PYODIDE = os.environ.get("HTA_WIDGETS_PYODIDE")
"""Folder that ``docs/browser/collect.py`` made; the page that needs it is left out without."""
if PYODIDE:
    tags.add("browser")  # type: ignore[name-defined]  # noqa: F821  # Sphinx defines it


def write_report(app: Sphinx, error: Exception | None) -> None:
    """Write the dashboard of the sample job beside the pages, alive without a kernel."""
    if error or app.builder.format != "html":
        return
    with TemporaryDirectory() as folder:
        traces = Path(folder) / "sample"
        write_sample(traces, progress=False)
        Dashboard(traces).to_html(app.outdir / "sample.html")


def write_browser_page(app: Sphinx, error: Exception | None) -> None:
    """Write the page that opens a trace in the browser, where there is a Pyodide to host."""
    if PYODIDE and not error and app.builder.format == "html":
        page = runpy.run_path(str(Path(app.confdir) / "browser" / "page.py"))
        page["write_page"](Path(PYODIDE), app.outdir)


def write_list(app: Sphinx, error: Exception | None) -> None:
    """Write ``llms.txt``: all pages with what is on them, as the overview of the docs has it."""
    if error or app.builder.format != "html":
        return
    overview = (Path(app.srcdir) / "docs" / "README.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| \[(.+?)\]\((\S+)\.md\) \| (.+?) \|", re.MULTILINE)
    lines = [
        f"- [{title}]({normpath(f'docs/{page}.html')}): {what}"
        for title, page, what in row.findall(overview)
    ]
    lines = [re.sub(r"\[([^]]+)\]\([^)]+\.md[^)]*\)", r"\1", line) for line in lines]
    head = ["# hta_widgets", "", "> Find out in a notebook why a GPU job is slow.", ""]
    (app.outdir / "llms.txt").write_text("\n".join([*head, "## Pages", "", *lines, ""]), "utf-8")


_WRITTEN: dict[str, list[str]] = {}


def keep_text(_: Sphinx, what: str, name: str, *rest: object) -> None:
    """Put the text of fields back: Napoleon takes what stands before a colon for their type."""
    lines = rest[-1]
    if what in ("attribute", "property") and isinstance(lines, list):
        lines[:] = _WRITTEN.setdefault(name, [*lines])


def setup(app: Sphinx) -> None:
    """Have the report, the list and the browser's page written once the others are."""
    for before_and_after_napoleon in (0, 999):
        app.connect("autodoc-process-docstring", keep_text, priority=before_and_after_napoleon)
    app.connect("build-finished", write_report)
    app.connect("build-finished", write_list)
    app.connect("build-finished", write_browser_page)
