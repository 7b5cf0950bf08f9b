"""The example that users run first: it learns, and a step of it is the same on every backend."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_digits_are_learnt() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), "--device", "cpu", "--epochs", "3"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "device: cpu" in done.stdout
    found = re.search(r"test accuracy: (\d+\.\d) %", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 96.0


def step(example: ModuleType, device: str) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
    """Loss, gradients and updated parameters of one mini-batch from the same weights."""
    tt.manual_seed(0)
    images, labels, _, _ = example.load_digits(device)
    model = example.ConvNet().to(device)
    parameters = list(model.parameters())
    loss = F.cross_entropy(model(images[:16]), labels[:16])
    loss.backward()
    gradients = [p.grad.cpu().numpy() for p in parameters]
    tt.optim.SGD(parameters, 0.05, 0.9).step()
    return loss.item(), gradients, [p.detach().cpu().numpy() for p in parameters]


def test_one_step_is_the_same_on_both_devices(example: ModuleType) -> None:
    loss, gradients, parameters = step(example, "cpu")
    cuda_loss, cuda_gradients, cuda_parameters = step(example, "cuda")
    assert abs(loss - cuda_loss) < 1e-4
    for on_cpu, on_cuda in zip(gradients + parameters, cuda_gradients + cuda_parameters, strict=True):
        np.testing.assert_allclose(on_cuda, on_cpu, rtol=1e-4, atol=1e-4)


def test_the_training_loop_takes_its_memory_from_the_cache(example: ModuleType) -> None:
    batch, warm_up, steps = (
        4,
        7,
        4,
    )  # blocks of every size that overlaps with another have been split off by then
    tt.manual_seed(0)
    tt.cuda.empty_cache()
    tt.cuda.reset_accumulated_memory_stats()
    images, labels, _, _ = example.load_digits("cuda")
    model = example.ConvNet().to("cuda")
    optimizer = tt.optim.SGD(model.parameters(), 0.05, 0.9)
    order = tt.randperm(len(labels), device="cuda")
    mallocs = 0
    for step in range(warm_up + steps):
        if step == warm_up:
            mallocs = tt.cuda.memory_stats()["num_device_alloc"]
            tt.cuda.reset_accumulated_memory_stats()
        rows = order[step * batch : (step + 1) * batch]
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    stats = tt.cuda.memory_stats()
    requests = stats["allocation.all.allocated"]
    assert requests > 30 * steps
    assert stats["hit_rate"] >= 0.95
    assert stats["num_device_alloc"] * 100 <= requests
    assert mallocs <= 2, "two segments at most hold all that the loop needs"
