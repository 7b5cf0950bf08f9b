"""The conformance run's own rules, which need no PyTorch: the list of known differences, and the exit status."""

import subprocess
import sys

import pytest

from triten.tests.conformance import known_differences
from triten.tests.conformance.command import MODES

BLOCKED = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
from triten.tests.conformance.command import main
sys.exit(main([]))
"""


def test_every_known_difference_names_a_mode_and_a_reason():
    known = known_differences.read()
    assert known
    for (mode, operator), difference in known.items():
        assert mode.partition("/")[0] in MODES, f"{operator}: {mode} is no mode"
        assert difference.reason.endswith("."), f"{mode} {operator}: a reason is a sentence"


def test_a_difference_without_a_reason_is_refused(tmp_path):
    path = tmp_path / "known.txt"
    path.write_text("# a comment\n\nout add\n")
    with pytest.raises(
        ValueError, match=r"known.txt, line 3: mode, operator and reason expected, 'out add' given"
    ):
        known_differences.read(path)
    path.write_text("out add Because.\n")
    assert known_differences.read(path)["out", "add"].reason == "Because."


def test_without_pytorch_the_command_says_so():
    done = subprocess.run([sys.executable, "-P", "-c", BLOCKED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "needs PyTorch as its oracle" in done.stderr


def test_help_needs_no_pytorch():
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.tests.conformance", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert all(mode in done.stdout for mode in MODES)
