"""The overview of measured machines on the performance page: one chart and one line of a table for each run."""

import importlib
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("sphinx", reason="sphinx is not installed")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))
    yield importlib.import_module("benchmark_tables")
    for name in ("benchmark_tables", "pytorch_comparison"):
        sys.modules.pop(name, None)


def test_a_bar_is_as_long_as_its_ratio_and_ends_at_the_edge(tables):
    figure = ElementTree.fromstring(
        tables.svg_chart("a <machine>", {"norms": 0.5, "matmul": 1.5, "slow": 9.0})
    )
    half, most, cut = (float(each.get("width")) for each in figure.iter("rect"))
    assert most == pytest.approx(3 * half, abs=0.1)
    assert cut == pytest.approx(4 * half, abs=0.1)
    assert len({each.get("fill") for each in figure.iter("rect")}) == 2
    assert [each.text for each in figure.iter("text")] == ["norms", "0.50", "matmul", "1.50", "slow", "9.00"]
    assert "a <machine>" in figure.find("figcaption").text


def test_the_overview_names_each_committed_run(tables):
    paths = [
        path
        for path in sorted(tables.RESULTS.glob("nvidia-*.json"))
        if tables.kind_of(json.loads(path.read_text())) == "gpu"
    ]
    chart, table = tables.overview(paths)
    assert chart.astext().count("<svg") == len(paths) >= 2
    for path in paths:
        assert path.stem in table.astext()
    assert "NVIDIA H200" in table.astext() and "PyTorch 2.11" in table.astext()
