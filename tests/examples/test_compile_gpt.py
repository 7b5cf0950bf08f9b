"""A small GPT trains to the same loss eagerly and compiled, and a step of it is the same on CUDA."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import triten as tt

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "compile_gpt.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compile_gpt", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_train_to_the_same_loss() -> None:
    options = ["--device", "cpu", "--steps", "10", "--layers", "2", "--width", "16", "--sample", "5"]
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), *options], capture_output=True, text=True, check=True
    )
    assert "losses are equal: True" in done.stdout
    assert "Love " in done.stdout


def test_a_step_is_the_same_on_every_device(example: ModuleType, device: str) -> None:
    tt.manual_seed(0)
    model = example.GPT(11, layers=1, width=8, heads=2).to(device)
    tokens = tt.randint(11, (2, 8), device=device)
    found = []
    for forward in (model, tt.compile(model, fullgraph=True)):
        logits = forward(tokens)
        logits.square().mean().backward()
        found.append([logits.detach(), *(p.grad for p in model.parameters())])
        model.zero_grad()
    assert all(tt.equal(a, b) for a, b in zip(*found, strict=True))
