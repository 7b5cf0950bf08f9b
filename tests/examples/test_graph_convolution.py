"""The network over a graph learns on the CPU, and a step of it is the same on CUDA."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import triten as tt
import triten.nn.functional as F

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "graph_convolution.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("graph_convolution", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_communities_are_learnt() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), "--device", "cpu", "--nodes", "3000", "--epochs", "20"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"accuracy on unseen nodes: (\d+\.\d) %", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 80.0


def test_the_graph_is_normalised(example: ModuleType) -> None:
    adjacency, *_ = example.generate(100, 0)
    whole = adjacency.to_dense() + tt.eye(100)
    scale = whole.sum(1).rsqrt()
    tt.testing.assert_close(example.normalised(adjacency).to_dense(), scale[:, None] * whole * scale)


def test_one_step_is_the_same_on_both_devices(example: ModuleType) -> None:
    found = []
    for device in ("cpu", "cuda"):
        tt.manual_seed(0)
        adjacency, features, labels, known = (part.to(device) for part in example.generate(100, 0))
        model = example.Network(8).to(device)
        graph = example.normalised(adjacency)
        loss = F.cross_entropy(model(graph, features)[known], labels[known])
        loss.backward()
        found.append([loss.item(), *(parameter.grad.cpu() for parameter in model.parameters())])
    tt.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)
