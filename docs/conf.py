"""Settings of the site: ``python -m sphinx -W -c docs . build/site`` makes it in a checkout.

Sphinx reads the Markdown as GitHub does (MyST is CommonMark), and with ``-W`` a link that leads
nowhere or a page that no list names is an error. The pages fetch nothing from elsewhere.
"""

from __future__ import annotations

from hta_widgets import __version__

project = "hta_widgets"
author = "The hta_widgets developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/*.md", "tests/fuzz/README.md", "*.md"]
exclude_patterns = ["*.egg-info", ".*", "build", "dist", "hta_widgets", "js", "notebooks"]

myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # the changelog goes from its title to its parts

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = False

html_theme = "furo"
html_title = f"hta_widgets {version}"
html_additional_pages = {"index": "home.html"}
templates_path = ["templates"]
html_copy_source = html_show_sourcelink = False
