"""A program for an installed triten: run by `python -I` where only the wheel and its requirements are."""

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import triten as tt
import triten.nn.functional as F

ABSENT = ("triton", "cupy", "yaml", "rich", "torch")

version = importlib.metadata.version("triten")
package = Path(tt.__file__).parent
assert package.is_relative_to(sys.prefix), f"triten was imported from {package}, not from the wheel"
files = importlib.metadata.files("triten") or []
tops = {file.parts[0] for file in files if file.parts[-2:-1] != ("bin",)}  # commands lie elsewhere
assert {top for top in tops if not top.endswith(".dist-info")} == {"triten"}, (
    f"the wheel holds {sorted(tops)}"
)
for name in ABSENT:
    assert importlib.util.find_spec(name) is None, f"{name} is installed: this environment proves nothing"

tt.manual_seed(0)
images = tt.randn(8, 1, 8, 8)
labels = tt.tensor([0, 1, 2, 3, 0, 1, 2, 3])
kernel = (tt.randn(4, 1, 3, 3) * 0.3).requires_grad_()
weight = (tt.randn(4, 4 * 4 * 4) * 0.1).requires_grad_()


def loss() -> tt.Tensor:
    features = F.max_pool2d(F.relu(F.conv2d(images, kernel, padding=1)), 2)
    return F.cross_entropy(F.linear(features.flatten(1), weight), labels)


before = loss()
before.backward()
assert kernel.grad.shape == kernel.shape and weight.grad.shape == weight.shape
with tt.no_grad():
    kernel.sub_(kernel.grad, alpha=0.05)
    weight.sub_(weight.grad, alpha=0.05)
after = loss()
assert after.item() < before.item(), f"a gradient step raised the loss: {before.item()} to {after.item()}"
print(f"wheel: triten {version} in {package}, loss {before.item():.4f} to {after.item():.4f}")
