"""The framework finds and shrinks injected faults, repeats seeds, and detects crashes and hangs."""

import json
import random
import sys

import pytest

from triten.tests.fuzz.campaigns import CAMPAIGNS, campaign_named
from triten.tests.fuzz.command import main

SMALLEST = {
    "crash": ("crash", [90]),
    "hang": ("hang", [91]),
    "error": ("inner error", [92]),
    "wrong": ("wrong value", [93]),
}


CASES = 20


@pytest.mark.parametrize("faults", [("crash", "hang"), ("error", "wrong")], ids=" ".join)
def test_planted_faults_are_found_and_made_small(faults, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("FUZZ_PLANTED_FAULTS", " ".join(faults))
    expected = dict(SMALLEST[fault] for fault in faults)
    # A seed of which one short case has each number, so that few processes hang or die.
    planted = [number for [number] in expected.values()]
    seed = next(seed for seed in range(5000) if _having(seed, planted) == [[n] for n in planted])
    path = tmp_path / "planted.jsonl"
    arguments = ["planted", "--cases", str(CASES), "--seed", str(seed)]
    assert main([*arguments, "--found", str(path)]) == 1
    found = {line["kind"]: line["case"]["numbers"] for line in map(json.loads, path.read_text().splitlines())}
    assert found == expected
    printed = capsys.readouterr().out
    for numbers in expected.values():
        assert f"sum({numbers})" in printed
    assert f"FOUND planted/{seed}/" in printed
    assert f"fuzz planted: {CASES} cases" in printed
    assert "0 refused otherwise, 2 other findings in 2 families" in printed
    if "crash" in faults:
        assert "exit status -11" in printed
        assert "planted.py" in printed


def _having(seed: int, planted: list[int]) -> list[list[int]]:
    """Return the planted numbers in each of the seed's cases that has some; empty unless one case is short."""
    campaign = campaign_named("planted")
    drawn = [campaign.draw(random.Random(f"planted/{seed}/{n}"))["numbers"] for n in range(CASES)]
    having = [numbers for numbers in drawn if set(planted) & set(numbers)]
    return [[n for n in planted if n in numbers] for numbers in having if max(map(len, having)) == 2]


def test_without_a_fault_nothing_is_found_and_totals_repeat(tmp_path):
    path = tmp_path / "totals.jsonl"
    for jobs in "12":
        arguments = ["planted", "--cases", "300", "--seed", "5", "--jobs", jobs, "--json", str(path)]
        assert main(arguments) == 0
    one, two = map(json.loads, path.read_text().splitlines())
    assert one["outcomes"] == two["outcomes"]
    assert set(one["outcomes"]) == {"agreed", "refused alike"}
    assert sum(one["outcomes"].values()) == 300


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_is_what_its_name_says(name):
    assert campaign_named(name).name == name


def test_without_an_oracle_the_command_says_so(monkeypatch, capsys):
    from triten.tests.fuzz.campaigns.planted import Planted

    monkeypatch.setattr(Planted, "needs_oracle", True)
    monkeypatch.setattr("triten.tests.fuzz.command._has_pytorch", lambda python: False)
    assert main(["planted", "--cases", "1", "--oracle", sys.executable]) == 2
    assert "needs PyTorch as its oracle" in capsys.readouterr().err
