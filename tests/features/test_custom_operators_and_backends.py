"""Custom operators, backends and modes of a package of its own: the README's guide runs as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import triten

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_guide_to_extensions(tmp_path: Path) -> None:
    files = dict(BLOCKS.findall(README.read_text().partition("## Extend triten from your own package")[2]))
    assert set(files) == {"mine/operators.py", "mine/backend.py", "mine/modes.py", "program.py"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    package = str(Path(triten.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "TRITEN_CUDA": "interpret",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), package]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    cpu, cuda, trained = done.stdout.splitlines()
    assert cpu == cuda == "[[3.0], [5.0]] triten.Size([2, 1])"
    device, learned, flops = trained.split()
    assert device == "toy:0"
    assert learned == "True"
    # Forward x @ w, and backward x.T @ grad; x itself needs no gradient.
    assert int(flops) == 50 * 2 * (2 * 32 * 4 * 1)
