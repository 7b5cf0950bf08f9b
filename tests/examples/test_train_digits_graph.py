"""A training step of the digits example, captured once and replayed: the same bits as eager steps."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
import triten.nn.functional as F

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"
BATCH, STEPS = 4, 2


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Training:
    """The example's network from one seed, with dropout between its layers if `p` is not 0, and its step."""

    def __init__(self, example: ModuleType, p: float) -> None:
        tt.manual_seed(0)
        self.example, self.p = example, p
        self.model = example.ConvNet().to("cuda")
        self.optimizer = tt.optim.SGD(self.model.parameters(), 0.05, 0.9)

    def step(self, images: tt.Tensor, labels: tt.Tensor) -> tt.Tensor:
        x = F.dropout(images, self.p) if self.p else images
        loss = F.cross_entropy(self.model(x), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list[bytes]:
        momenta = [state["momentum_buffer"] for state in self.optimizer.state.values()]
        tensors = [*self.model.parameters(), *momenta]
        return [tensor.detach().cpu().numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize("p", [0.0, 0.5], ids=["plain", "dropout"])
def test_replays_of_a_captured_step_are_eager_steps(example: ModuleType, p: float) -> None:
    images, labels, _, _ = example.load_digits("cpu")
    batches = [slice(i * BATCH, (i + 1) * BATCH) for i in range(STEPS)]

    def begun() -> Training:
        """After a first step, which makes the momenta and so is another one than those after it."""
        training = Training(example, p)
        training.step(images[:BATCH].to("cuda"), labels[:BATCH].to("cuda"))
        return training

    eager = begun()
    losses = [eager.step(images[b].to("cuda"), labels[b].to("cuda")).item() for b in batches]

    replayed = begun()
    static_images, static_labels = images[batches[0]].to("cuda"), labels[batches[0]].to("cuda")
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        loss = replayed.step(static_images, static_labels)
    found = []
    for batch in batches:
        static_images.copy_(images[batch])
        static_labels.copy_(labels[batch])
        graph.replay()
        found.append(loss.item())

    assert found == losses
    assert replayed.state() == eager.state()
    assert np.ptp(losses) > 0
