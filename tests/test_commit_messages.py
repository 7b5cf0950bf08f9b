"""The check of commit messages that CI and pre-commit run."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "commit_messages.py"
if not SCRIPT.exists():  # an installed package
    pytest.skip("no checkout", allow_module_level=True)
spec = importlib.util.spec_from_file_location("commit_messages", SCRIPT)
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
BODY = "\n\nThe loop read past the end.\n"


@pytest.mark.parametrize(
    "message",
    [
        f"cpu: fuse gather and index_select into compiled loops{BODY}",
        f"ops, cuda: pass sizes as tuples{BODY}# Please enter the commit message\n",
        "Merge branch 'main'",
    ],
)
def test_messages_that_pass(message: str) -> None:
    assert script.faults(message) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (f"Elements at numbers are loads of loops{BODY}", "area: imperative"),
        (f"cpu: Fuse gather{BODY}", "area: imperative"),
        (f"cpu: fuses gather{BODY}", "imperative"),
        (f"cpu: the gather is fused{BODY}", "imperative"),
        (f"cpu: {'fuse ' * 20}{BODY}", "characters"),
        ("cpu: fuse gather", "body"),
        ("cpu: fuse gather\nThe loop read past the end.", "blank line"),
    ],
)
def test_messages_with_faults(message: str, fault: str) -> None:
    assert any(fault in each for each in script.faults(message))
