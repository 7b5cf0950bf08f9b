"""The harness of third-party packages counts passes correctly."""

import json

import pytest

from triten.perf.clients import command
from triten.perf.clients.catalogue import CLIENTS, Client


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """Run one program of a made-up package; returns the outcome's error."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "scripts").mkdir()
    monkeypatch.setattr(command, "HERE", tmp_path)

    def run(program, expected):
        (tmp_path / "scripts" / "run_made_up.py").write_text(program)
        client = Client("made-up", "made_up", "nothing")
        outcome, _ = command.outcome_of(client, {"made-up": "1"}, {"made_up": expected}, tmp_path, 60)
        return outcome.error

    return run


def test_a_client_passes_that_gives_pytorchs_numbers(harness):
    program = "import json, torch; print(json.dumps({'a': torch.ones(2).sum().item()}))"
    assert harness(program, {"a": 2.0}) == ""
    assert harness(program, {"a": 2.1}) == "a is 2, PyTorch's 2.1"
    assert "expected ['b']" in harness(program, {"b": 2.0})


def test_a_client_fails_that_raises_or_prints_nothing(harness):
    assert harness("import torch; torch.ones(2) @ torch.ones(3)", {}).startswith("RuntimeError")
    assert harness("pass", {"a": 1.0}) == "printed [], expected ['a']"


def test_every_client_has_a_program_a_version_and_numbers_or_none():
    versions = command.pinned_versions(command.REQUIREMENTS)
    expected = json.loads(command.EXPECTED.read_text())
    assert expected.keys() <= {command.key_of(client) for client in CLIENTS}
    for client in CLIENTS:
        assert command.script_of(client).is_file()
        assert client.package in versions
        assert ("json.dumps" in command.script_of(client).read_text()) == (command.key_of(client) in expected)


def test_the_page_names_each_client():
    outcomes = [
        command.Outcome(client, "1", "an | error" * (i == 0), 1.0) for i, client in enumerate(CLIENTS)
    ]
    text = command.page(outcomes)
    assert f"{len(CLIENTS) - 1} of {len(CLIENTS)} clients pass" in text
    assert "an \\| error" in text
