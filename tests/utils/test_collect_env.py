"""A bug report describes the machine."""

import subprocess
import sys

import pytest

import triten as tt
from triten.utils.collect_env import get_env_info, get_pretty_env_info


def test_every_part_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITEN_DEBUG", "1")
    found = get_env_info()
    assert found["triten"].startswith(tt.__version__.partition(".dev")[0]) and found["TRITEN_DEBUG"] == "1"
    assert found["cupy-cuda12x"] != "" and found["Threads"] == str(tt.get_num_threads())
    lines = get_pretty_env_info().splitlines()
    assert len(lines) == len(found) and all(
        line.startswith(name) for line, name in zip(lines, found, strict=True)
    )


def test_the_command_prints_it() -> None:
    command = [sys.executable, "-P", "-m", "triten.utils.collect_env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("triten") and "numpy" in done.stdout


def test_config_shows_it() -> None:
    assert tt.__config__.show().startswith("triten")
    assert f"get_num_threads(): {tt.get_num_threads()}" in tt.__config__.parallel_info()
