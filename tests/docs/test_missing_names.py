"""The table of reasons for missing names (docs/pytorch/missing_names.toml) is complete, and nothing in it is stale."""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from pathlib import Path

import pytest

from triten.tests.shared.processes import run_python

DOCS = Path(__file__).resolve().parents[2] / "docs"


PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import missing_names
found = {}
for namespace, names in missing_names.pytorch_names().items():
    for place, several in enumerate(missing_names.split(namespace, names)):
        found.setdefault(place, []).extend(f"{namespace}.{name}" for name in several)
print(json.dumps([found[0], found[1]]))
"""


@pytest.fixture
def comparison(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    yield importlib.import_module("missing_names")
    for name in ("missing_names", "public_names"):
        sys.modules.pop(name, None)


@cache
def names_of():
    """Full names: those that there are, and those that are missing. Other tests register names in this process."""
    finished = run_python(PROGRAM, DOCS / "extensions")
    assert finished.returncode == 0, finished.stderr
    have, missing = map(set, json.loads(finished.stdout))
    return have, missing


def test_every_missing_name_has_one_reason(comparison):
    _, missing = names_of()
    table = comparison.reasons()
    count = {name: sum(reason.covers(name) for reason in table) for name in missing}
    assert sorted(name for name in missing if count[name] == 0) == [], "names without a reason"
    assert sorted(name for name in missing if count[name] > 1) == [], "names with several reasons"


def test_no_reason_is_stale(comparison):
    have, missing = names_of()
    table = comparison.reasons()
    there = sorted(name for name in have for reason in table if reason.covers(name))
    assert there == [], "names with a reason why they are missing, which there are"
    idle = [
        pattern
        for reason in table
        for pattern in reason.patterns
        if not any(comparison.Reason("", (pattern,)).covers(name) for name in missing)
    ]
    assert idle == [], "patterns that stand for nothing missing"


def test_few_names_are_missing_outside_of_areas(comparison):
    have, missing = names_of()
    areas = [reason for reason in comparison.reasons() if reason.is_area]
    outside = {name for name in missing if not any(area.covers(name) for area in areas)}
    assert len(outside) < 0.05 * (len(have) + len(outside)), sorted(outside)


def test_a_name_without_a_reason_is_refused(comparison):
    with pytest.raises(KeyError, match="no reason for torch: nothing"):
        list(comparison.by_reason("torch", ["nothing"], comparison.reasons()))


def test_a_namespace_lists_its_missing_names_by_reason(comparison):
    table = [comparison.Reason("a", ("torch.x*",)), comparison.Reason("b", ("torch.y",))]
    listed = [
        (reason.text, names) for reason, names in comparison.by_reason("torch", ["x1", "y", "x2"], table)
    ]
    assert listed == [("a", ["x1", "x2"]), ("b", ["y"])]
