"""The README's program of the CUDA runtime runs as it is written."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_program_of_the_cuda_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    section = README.read_text().partition("## The CUDA runtime")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    exec(compile(found[1], "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("True ")
