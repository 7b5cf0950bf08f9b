"""`docs/promises.md`: the tests, `make` targets and fuzz targets that it names exist."""

import re
from pathlib import Path

import pytest

from triten.tests.fuzz.campaigns import campaign_named

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:tests|make)[ /][^`]+)`", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_a_promise_exists(name: str) -> None:
    command, _, target = name.partition(" ")
    if command != "make":
        assert (ROOT / name).exists()
        return
    assert re.search(rf"^{target.split()[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for campaign in target.partition("CAMPAIGNS=")[2].split():
        assert campaign_named(campaign)


def test_each_row_of_a_table_names_a_test() -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if row[1].strip() != "Promise"]
    assert len(promises) > 30
    assert [row[1] for row in promises if not re.search(r"`(tests/|make )", row[2])] == []
