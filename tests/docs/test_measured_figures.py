"""Figures of the README come from committed result files and from generated tables."""

import re
from pathlib import Path

import pytest

from triten.perf.report.data import report_data

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FIGURE = re.compile(r"\| [^|]*\(suite `([^`]+)`\) \| [^|]+ \| ([\d.]+) \| `(perf/results/[^`]+)` \|")


def test_the_readme_has_figures() -> None:
    assert len(FIGURE.findall(README)) >= 3


@pytest.mark.parametrize(("suite", "figure", "file"), FIGURE.findall(README))
def test_a_figure_is_that_of_its_result_file(suite: str, figure: str, file: str) -> None:
    (found,) = (each for each in report_data([ROOT / file])["suites"] if each["suite"] == suite)
    assert f"{found['means']['torch']['mean']:.2f}" == figure


def test_the_number_of_operators_is_that_of_the_coverage_table() -> None:
    (operators,) = re.findall(r"^\| Operators \| ([\d,]+) ", README, re.MULTILINE)
    counted = re.search(r"^(\d+) operators:", (ROOT / "dispatch" / "coverage.md").read_text(), re.MULTILINE)
    assert counted is not None
    assert operators == f"{int(counted[1]):,}"
