"""`fully_shard` in one process: its arguments, its refusals, and its effect on a module."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.backends.fake import FakeStore
from triten.distributed.fsdp import (
    AllGather,
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from triten.distributed.fsdp.freed import Buffer, is_freed
from triten.runtime.storage import root_of
from triten.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def pair(**kwargs: Any) -> tuple[Any, Any]:
    """Return a model whose layers are sharded, and an unsharded copy."""
    tt.manual_seed(0)
    reference = nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 2)
    )
    model: Any = copy.deepcopy(reference)
    mesh = dist.init_device_mesh("cpu", (1,))
    for layer in (model[0], model[2], model[3]):
        fully_shard(layer, mesh=mesh, **kwargs)
    return fully_shard(model, mesh=mesh, **kwargs), reference


def assert_same_grads(model: Any, reference: Any) -> None:
    for (name, own), expected in zip(model.named_parameters(), reference.parameters(), strict=True):
        tt.testing.assert_close(own.grad.to_local(), expected.grad, msg=lambda m, n=name: f"{n}: {m}")


def test_the_class_and_its_methods() -> None:
    model, _ = pair()
    assert type(model).__name__ == "FSDPSequential" and isinstance(model, (FSDPModule, nn.Sequential))
    assert type(model[:2]) is nn.Sequential  # a slice of the model is not sharded
    assert type(model[1]) is nn.Tanh
    assert fully_shard.state(model) is model._get_fsdp_state()
    with pytest.raises(AssertionError, match="does not support deepcopy"):
        copy.deepcopy(model)


def test_what_is_refused() -> None:
    mesh = dist.init_device_mesh("cpu", (1,))
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        fully_shard(nn.ModuleList(), mesh=mesh)
    model, _ = pair()
    with pytest.raises(ValueError, match="already been applied to FSDPSequential"):
        fully_shard(model, mesh=mesh)
    scalar = nn.Linear(2, 2)
    scalar.scale = nn.Parameter(tt.tensor(1.0))
    with pytest.raises(ValueError, match=r"scalar parameters\. Change scale to a 1D tensor"):
        fully_shard(scalar, mesh=mesh)
    with pytest.raises(ValueError, match="factor of 1, not 3"):
        fully_shard(nn.Linear(2, 2), mesh=mesh, reshard_after_forward=3)
    turned = nn.Linear(2, 3)
    turned.weight = nn.Parameter(tt.ones(2, 3).t())
    with pytest.raises(NotImplementedError, match="non-contiguous parameters yet: weight"):
        fully_shard(turned, mesh=mesh)
    with pytest.raises(ValueError, match="does not have a method nothing"):
        register_fsdp_forward_method(model, "nothing")
    inner = nn.Linear(2, 2)
    outer = nn.Sequential(fully_shard(inner, mesh=mesh))
    inner(tt.ones(2))
    fully_shard(outer, mesh=mesh)
    with pytest.raises(RuntimeError, match="running forward through the root module first"):
        outer(tt.ones(2))


def test_freed_parameters_raise_and_come_back() -> None:
    model, reference = pair(reshard_after_forward=True)
    x = tt.randn(3, 4, requires_grad=True)
    layer = model[0]
    seen: list[Any] = []
    layer.register_forward_pre_hook(lambda module, args: seen.append(module.weight))
    loss = model(x).sum()
    (weight,) = seen
    assert is_freed(weight) and layer.weight is not weight
    with pytest.raises(RuntimeError, match="freed by fully_shard after forward"):
        weight + 1
    layer.unshard()
    assert layer.weight is weight
    tt.testing.assert_close(weight, reference[0].weight)
    layer.reshard()
    loss.backward(retain_graph=True)
    reference(x.detach()).sum().backward()
    assert_same_grads(model, reference)
    # The graph that was retained finds its parameters again.
    loss.backward()
    reference(x.detach()).sum().backward()
    assert_same_grads(model, reference)


class Attention(nn.Module):
    """Much of what saves views of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(4), nn.Linear(4, 12), nn.Linear(4, 4)
        self.table = nn.Parameter(tt.randn(4, 4))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(1, -1, 2, 6).transpose(1, 2).chunk(3, -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 4)
        return self.out(y) + x @ self.table.t() + tt.einsum("bi,ij->bj", x, self.table)


@pytest.mark.parametrize("compiled", [False, True])
def test_no_graph_keeps_the_memory(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    roots: list[weakref.ref[Any]] = []
    fill = Buffer.fill

    def noted(self: Buffer, content: tt.Tensor) -> None:
        roots.append(weakref.ref(root_of(content._data)))
        fill(self, content)

    monkeypatch.setattr(Buffer, "fill", noted)
    tt.manual_seed(0)
    reference: Any = nn.Sequential(Attention(), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.GELU()))
    model = copy.deepcopy(reference)
    mesh = dist.init_device_mesh("cpu", (1,))
    for layer in model:
        if compiled:
            layer.forward = tt.compile(layer.forward)
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    x = tt.randn(3, 4)
    for first in (True, False):
        roots.clear()
        loss = model(x).square().mean()
        if first:
            gc.collect()  # compiling leaves cycles
        assert [root() is None for root in roots] == [True] * 2
        loss.backward()
        assert [root() is None for root in roots] == [True] * 4
        reference(x).square().mean().backward()
        assert_same_grads(model, reference)


def test_communication_of_ones_own() -> None:
    class Gather(AllGather):
        calls = 0

        def allocate(self, size: Any, *, dtype: Any, device: Any) -> tt.Tensor:
            return tt.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> None:
            Gather.calls += 1
            output_tensor.view(group.size(), -1).copy_(input_tensor.expand(group.size(), -1))

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=8)
    layer = nn.Linear(4, 5)
    fully_shard(layer, mesh=dist.init_device_mesh("cpu", (8,)), reshard_after_forward=True)
    assert layer.weight.to_local().shape == (1, 4) and layer.weight.shape == (5, 4)
    layer.set_custom_all_gather(Gather())
    layer.set_unshard_in_backward(False)
    layer._get_fsdp_state().chooses_reshard = False
    with pytest.raises(RuntimeError, match="freed by fully_shard after forward"):
        layer(tt.ones(2, 4, requires_grad=True)).sum().backward()
    assert Gather.calls == 1
    layer.reset_iter_state()
    layer.set_unshard_in_backward(True)
    layer(tt.ones(2, 4)).sum().backward()
    assert Gather.calls == 3 and layer.weight.grad.to_local().shape == (1, 4)


@pytest.mark.parametrize("reentrant", [False, True])
def test_with_checkpoints_around_and_inside(reentrant: bool) -> None:
    model, reference = pair()
    x = tt.randn(3, 4, requires_grad=True)

    def run(layers: Any, x: tt.Tensor) -> tt.Tensor:
        y = layers[1](layers[0](x))
        return layers[3](checkpoint(layers[2], y, use_reentrant=reentrant))

    model.forward = lambda x: run(model, x)
    for _ in range(2):
        model(x).sum().backward()
        run(reference, x).sum().backward()
    assert_same_grads(model, reference)


def test_a_module_that_is_called_twice_and_one_that_is_not() -> None:
    model, reference = pair()
    x = tt.randn(3, 4)

    def run(layers: Any) -> tt.Tensor:
        y = layers[2](layers[0](x))
        return layers[2](y) + y

    model.forward = lambda: run(model)
    for _ in range(2):
        run(reference).sum().backward()
        model().sum().backward()
    assert model[3].weight.grad is None
    for place in (0, 2):
        own, expected = model[place], reference[place]
        for a, b in zip(own.parameters(), expected.parameters(), strict=True):
            tt.testing.assert_close(a.grad.to_local(), b.grad)
    model.set_reduce_scatter_unused_params(True)
    model().sum().backward()


def test_writing_in_place_to_a_result() -> None:
    """Check in-place writes: a linear layer's three-dimensional result is a view, whose base changes."""
    model, reference = pair()
    x = tt.randn(2, 3, 4)
    for layers in (model, reference):
        y = layers[0](x)
        y += 1
        (layers[3](layers[2](y)) ** 2).sum().backward()
    for place in (0, 2, 3):
        for a, b in zip(model[place].parameters(), reference[place].parameters(), strict=True):
            tt.testing.assert_close(a.grad.to_local(), b.grad)


def test_hooks_of_parameters_get_reduced_gradients() -> None:
    model, _ = pair()
    steps: list[Any] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: steps.append(p.grad.placements))
    model(tt.ones(1, 4)).sum().backward()
    assert len(steps) == 6


def test_recovery_after_an_error() -> None:
    model, reference = pair()
    model[3].register_forward_pre_hook(fails := lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(tt.ones(1, 4))
    model[3]._forward_pre_hooks.popitem()
    del fails
    model.reset_iter_state()
    model(tt.ones(1, 4)).sum().backward()
    reference(tt.ones(1, 4)).sum().backward()
    assert_same_grads(model, reference)
    with pytest.raises(RuntimeError, match="must be called on the root FSDP module"):
        model[0].reset_iter_state()


def test_the_backward_after_one_that_raised() -> None:
    model, reference = pair()
    x = tt.ones(1, 4)
    handle = model[2].register_full_backward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(x).sum().backward()
    handle.remove()
    with pytest.raises(RuntimeError, match=r"did not finish; call reset_iter_state\(\)"):
        model(x)
    model.reset_iter_state()
    model.zero_grad()
    model(x).sum().backward()
    reference(x).sum().backward()
    assert_same_grads(model, reference)


def test_roots_that_share_their_order() -> None:
    first, reference = pair()
    second, _ = pair()
    share_comm_ctx([first, second])
    assert first._get_fsdp_state().communications is second._get_fsdp_state().communications
    x = tt.ones(1, 4)
    losses = [model(x).sum() for model in (first, second)]
    reference(x).sum().backward()
    for model, loss in zip((first, second), losses, strict=True):
        loss.backward()
        assert_same_grads(model, reference)
    with pytest.raises(ValueError, match="Expected FSDPModule"):
        share_comm_ctx([reference])


def test_casts_and_offloading() -> None:
    model, _ = pair(
        mp_policy=MixedPrecisionPolicy(tt.float64, output_dtype=tt.float16, cast_forward_inputs=False),
        offload_policy=CPUOffloadPolicy(),
    )
    with pytest.raises(RuntimeError):
        model(tt.ones(1, 4))
    model.reset_iter_state()
    model[0].register_forward_pre_hook(lambda module, args: (args[0].double(),))
    for layer in (model[0], model[2]):
        layer._get_fsdp_state().mp_policy = MixedPrecisionPolicy(tt.float64)
    assert model(tt.ones(1, 4)).dtype == tt.float16


def test_groups_of_several_modules() -> None:
    tt.manual_seed(0)
    reference = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    model: Any = copy.deepcopy(reference)
    mesh = dist.init_device_mesh("cpu", (1,))
    both = fully_shard([model[0], model[1]], mesh=mesh)
    assert [type(each).__name__ for each in both] == ["FSDPLinear"] * 2
    assert model[0]._get_fsdp_state() is model[1]._get_fsdp_state()
    fully_shard(model, mesh=mesh)
    x = tt.ones(1, 4)
    model(x).sum().backward()
    reference(x).sum().backward()
    assert_same_grads(model, reference)
    model.forward = model[0].forward
    group = model[0]._get_fsdp_state().group
    model[0]._get_fsdp_state()
    model.forward = lambda x: model[0](x)
    model(x).sum().backward()
    assert not group.is_unsharded


def test_conversion_moves_the_shards() -> None:
    model, reference = pair()
    model.double()
    assert {p.dtype for p in model.parameters()} == {tt.float64}
    x = tt.ones(1, 4, dtype=tt.float64)
    tt.testing.assert_close(model(x), reference.double()(x))


def test_parameters_that_a_program_exchanges() -> None:
    model, reference = pair()
    x = tt.ones(1, 4)
    model(x)
    model.reshard()
    for each in (model[2][0], reference[2][0]):
        each._apply(lambda t: t.detach().clone() * 2)  # below what is sharded
    tt.testing.assert_close(model(x), reference(x))
    with tt.no_grad():
        model[2][0].weight = nn.Parameter(model[2][0].weight.detach() * 2)
        reference[2][0].weight.mul_(2)
    tt.testing.assert_close(model(x), reference(x))
    model[2][0].weight = nn.Parameter(tt.ones(6, 6))
    with pytest.raises(TypeError, match=r"expected a DTensor as parameter '2\.0\.weight', but got Parameter"):
        model(x)


def test_steps_between_forwards_that_keep_the_whole() -> None:
    model, reference = pair(reshard_after_forward=False)
    optimizers = [tt.optim.SGD(each.parameters(), lr=0.1) for each in (model, reference)]
    x = tt.ones(1, 4)
    for each, optimizer in zip((model, reference), optimizers, strict=True):
        each(x).sum().backward()
        with tt.no_grad():
            each(x)  # the whole parameters stay
        optimizer.step()
    tt.testing.assert_close(model(x), reference(x))
    loss = model(x).sum()
    with tt.no_grad():
        model.reshard()
        for layer in (model[0], model[2], model[3]):
            layer.reshard()
            for parameter in layer.parameters():
                parameter.add_(1)
    model(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
