"""How Sphinx builds the site: `make docs`. Warnings are errors there.

The extensions are small files of this folder's `extensions/`; each says what it adds to a page.
"""

import hashlib
import os
import sys
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER / "extensions"))
# Names of `tt.cuda` are read for the reference. No page needs a device, and a GPU that is there is left alone.
os.environ.setdefault("TRITEN_CUDA", "interpret")

project = "triten"
author = "the authors of triten"
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx_design",
    "benchmark_tables",
    "code_links",
    "mathml",
    "pytorch_comparison",
    "reference_pages",
    "search_queries",
    "symbol_pages",
]
exclude_patterns = ["_build", "changes", "clients_table.md"]
suppress_warnings = [
    "myst.header",  # a page may begin with a heading of the second level
    "ref.python",  # a type in a signature, such as `bytes`, that is also the name of some attributes
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

html_math_renderer = "mathml"
maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# References that are written must lead somewhere. Types in signatures are not written: of those that the site
# describes the name is a link, and the others (`int`, `Sequence`) are text.
nitpicky = True
nitpick_ignore_regex = [("py:(class|exc|obj)", r"(?!triten\.).*")]

html_theme = "furo"
html_title = "triten"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Sphinx) -> None:
    """Have Sphinx read all pages again when an extension of this folder changes."""
    sources = b"".join(path.read_bytes() for path in sorted((FOLDER / "extensions").glob("*.py")))
    app.add_config_value("extension_sources", hashlib.sha256(sources).hexdigest(), "env")
