"""A long file runs the tests that name an affected operator; a file without such tests runs whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from triten.tests.affected import plugin


def item(nodeid: str) -> Any:
    return SimpleNamespace(nodeid=nodeid)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("_softmax,exp2", [0, 2, 3, 4]),
        ("max", [0, 1, 2, 3, 4]),
        ("log", [1, 2, 3, 4]),
    ],
)
def test_only_long_files_are_shortened(monkeypatch: pytest.MonkeyPatch, names: str, kept: list[int]) -> None:
    monkeypatch.setattr(plugin, "costs", lambda: {"long.py": 100.0, "other.py": 100.0, "short.py": 1.0})
    items = [
        item("long.py::test_values[softmax-cpu]"),
        item("long.py::test_values[log_sum_exp-cpu]"),
        item("short.py::test_values[softplus]"),
        item("other.py::test_nothing"),
        item("unmeasured.py::test_nothing"),
    ]
    before = list(items)
    left: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    config: Any = SimpleNamespace(getoption=lambda name: names, hook=hook)
    plugin.pytest_collection_modifyitems(config, items)
    assert sorted(before.index(each) for each in items) == kept
    assert len(left) == len(before) - len(kept)
