"""Type checkers infer the asserted types of public names: `make type` reads the `assert_type`s, pytest runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import triten as tt
from triten import nn


def test_tensors_and_dtypes() -> None:
    x = tt.zeros(2, 3)
    assert_type(x, tt.Tensor)
    assert_type(tt.tensor([1.0, 2.0]), tt.Tensor)
    assert_type(x + 1, tt.Tensor)
    assert_type(tt.float32, tt.dtype)
    assert_type(tt.bool, tt.dtype)
    assert_type(tt.device("cpu"), tt.device)
    assert_type(x.shape, tt.Size)
    assert_type(x.size(0), int)
    assert_type(tt.is_tensor(x), bool)
    assert_type(tt.pi, float)


def test_results_by_arguments() -> None:
    x = tt.zeros(2, 3)
    assert_type(tt.unique(x), tt.Tensor)
    assert_type(tt.unique(x, return_counts=True), tuple[tt.Tensor, ...])
    assert_type(tt.atleast_1d(x), tt.Tensor)
    assert_type(tt.atleast_1d(x, x), Sequence[tt.Tensor])
    assert_type(tt.einsum("ij->i", x), tt.Tensor)
    assert_type(nn.functional.max_pool1d(x, 2), tt.Tensor)
    assert_type(nn.functional.max_pool1d(x, 2, return_indices=True), tuple[tt.Tensor, tt.Tensor])
    assert_type(tt.linalg.norm(x), tt.Tensor)


def test_decorators_keep_signatures() -> None:
    @tt.no_grad()
    def double(x: tt.Tensor, times: int = 2) -> tt.Tensor:
        return x * times

    @tt.overrides.wrap_tensor_function(lambda x: (x,))
    def count(x: tt.Tensor) -> int:
        return x.numel()

    assert_type(double(tt.ones(1), times=3), tt.Tensor)
    assert_type(count(tt.ones(1)), int)
    assert_type(tt.utils.checkpoint.checkpoint(count, tt.ones(1), use_reentrant=False), int)


def test_modules_and_optimizers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return tt.relu(self.layer(x))

    net = Net().to(tt.float64).train()
    assert_type(net, Net)
    assert_type(net.layer, nn.Linear)
    assert_type(net.layer.weight, nn.Parameter)
    assert_type(net.state_dict(), dict[str, Any])
    assert_type(nn.Sequential(net, net)[0], nn.Module)
    assert_type(nn.Sequential(net, net)[:1], nn.Sequential)
    optimizer = tt.optim.SGD(net.parameters(), lr=0.1)
    assert_type(optimizer.step(), None)

    def closure() -> tt.Tensor:
        return net.forward(tt.ones(1, 3, dtype=tt.float64)).sum()

    assert_type(optimizer.step(closure), tt.Tensor)
    scheduler = tt.optim.lr_scheduler.StepLR(optimizer, 2)
    assert_type(scheduler.get_last_lr(), list[float | tt.Tensor])
    assert_type(nn.utils.clip_grad_norm_(net.parameters(), 1.0), tt.Tensor)


def test_namespaces_that_are_loaded_late() -> None:
    assert_type(tt.cuda.is_available(), bool)
    assert_type(tt.testing.make_tensor(2, dtype=tt.float32, device="cpu"), tt.Tensor)
    assert_type(tt.amp.GradScaler("cpu", enabled=False), tt.amp.GradScaler)
    assert_type(tt.signal.windows.hann(3), tt.Tensor)


def test_graphs() -> None:
    module = tt.fx.symbolic_trace(lambda x: tt.relu(x))
    assert_type(module, tt.fx.GraphModule)
    assert_type(module.graph, tt.fx.Graph)
    assert_type(module.graph.find_nodes(op="call_function", target=tt.relu), list[tt.fx.Node])
    assert_type(next(iter(module.graph.nodes)), tt.fx.Node)
    assert_type(module.code, str)
    assert_type(tt.fx.Transformer(module).transform(), tt.fx.GraphModule)
