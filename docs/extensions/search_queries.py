"""Check of the search: each query of `QUERIES` finds its page, by the words and the stemming of the site's search."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

QUERIES = {
    "learning rate scheduler": ("reference/optim", "how_to/schedules_and_checkpoints"),
    "save a model": ("how_to/save_and_load",),
    "serialization": ("how_to/save_and_load",),
    "linear algebra": ("reference/linalg",),
    "mixed precision": ("how_to/mixed_precision",),
    "custom operator": ("tutorials/custom_operator",),
    "convolution": ("reference/symbols/triten.nn.Conv2d",),
}
"""Words that a reader types, and the pages that must be among the results."""


def found_pages(index: Any, query: str) -> set[str]:
    """Return the pages that have all words of a query in their text or title, as the site's search demands."""
    found: set[str] | None = None
    for word in query.lower().split():
        if word in index.lang.stopwords or len(word) < 2:
            continue
        stem = index.lang.stem(word)
        pages = index._mapping.get(stem, set()) | index._title_mapping.get(stem, set())
        found = pages if found is None else found & pages
    return found or set()


def check_queries(app: Sphinx, error: Exception | None) -> None:
    """Warn of each query that does not find its pages."""
    index = getattr(app.builder, "indexer", None)
    if error is not None or index is None:
        return
    for query, pages in QUERIES.items():
        missing = set(pages) - found_pages(index, query)
        if missing:
            logger.warning("the search for %r does not find %s", query, ", ".join(sorted(missing)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", check_queries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
