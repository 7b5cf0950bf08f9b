"""Tensor parallelism: modules in two processes compute, and learn, what they do in one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from triten.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from triten.nn import functional as F
from triten.tests.distributed.ranks import on_ranks

_meshes: dict[tuple[int, ...], dist.DeviceMesh] = {}


def mesh_of(*shape: int) -> dist.DeviceMesh:
    """Return a mesh of the world, made once."""
    if shape not in _meshes:
        _meshes[shape] = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[-len(shape) :])
    return _meshes[shape]


class MLP(tt.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = tt.nn.Linear(8, 12)
        self.down = tt.nn.Linear(12, 8)

    def forward(self, x: tt.Tensor) -> Any:
        return self.down(F.gelu(self.up(x)))


class Attention(tt.nn.Module):
    """Heads of 4 numbers; a process with some of them computes these."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (tt.nn.Linear(8, 8, bias=each < 3) for each in range(4))

    def forward(self, x: tt.Tensor) -> Any:
        def heads(y: tt.Tensor) -> tt.Tensor:
            return y.unflatten(-1, (-1, 4)).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(
            heads(self.q(x)), heads(self.k(x)), heads(self.v(x)), is_causal=True
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(tt.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = tt.nn.Embedding(10, 8)
        self.norm1, self.norm2 = tt.nn.LayerNorm(8), tt.nn.LayerNorm(8)
        self.attention, self.mlp = Attention(), MLP()
        self.head = tt.nn.Linear(8, 10)

    def forward(self, tokens: tt.Tensor) -> Any:
        x = self.embed(tokens)
        x = x + self.attention(self.norm1(x))
        return self.head(x + self.mlp(self.norm2(x)))


def seeded(module: type[tt.nn.Module]) -> Any:
    tt.manual_seed(3)
    return module().double()


def check_parameters(divided: tt.nn.Module, whole: tt.nn.Module, gradients: bool = True) -> None:
    for (name, one), (_, other) in zip(divided.named_parameters(), whole.named_parameters(), strict=True):
        given = (one.grad, other.grad) if gradients else (one, other)
        assert isinstance(given[0], DTensor) and given[1] is not None, name
        tt.testing.assert_close(given[0].full_tensor().detach(), given[1].detach(), msg=name)


MLP_PLAN: dict[str, ParallelStyle] = {"up": ColwiseParallel(), "down": RowwiseParallel()}


@on_ranks(2)
def test_mlp(rank: int, size: int) -> None:
    whole, mesh = seeded(MLP), mesh_of(size)
    x = tt.randn(2, 3, 8, dtype=tt.float64).requires_grad_()
    y = x.detach().clone().requires_grad_()
    divided = parallelize_module(copy.deepcopy(whole), mesh, MLP_PLAN)
    assert divided.up.weight.placements == (Shard(0),) and divided.up.bias.to_local().shape == (6,)
    assert divided.down.weight.to_local().shape == (8, 6) and divided.down.bias.placements == (Replicate(),)
    out, expected = divided(x), whole(y)
    assert type(out) is tt.Tensor
    tt.testing.assert_close(out.detach(), expected.detach())
    out.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    check_parameters(divided, whole)
    assert x.grad is not None and y.grad is not None
    tt.testing.assert_close(x.grad, y.grad)
    optimizers = [tt.optim.AdamW(each.parameters(), lr=0.1) for each in (divided, whole)]
    for each in optimizers:
        each.step()
    check_parameters(divided, whole, gradients=False)


@on_ranks(2)
def test_a_transformer_of_divided_sequences(rank: int, size: int) -> None:
    whole, mesh = seeded(Block), mesh_of(size)
    tokens = tt.arange(8).reshape(2, 4)
    plan: dict[str, ParallelStyle] = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
        "norm?": SequenceParallel(),
        "attention": PrepareModuleInput(
            input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_output=False
        ),
        "attention.[qkv]": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }
    divided = parallelize_module(copy.deepcopy(whole), mesh, plan)
    logits, expected = divided(tokens), whole(tokens)
    assert isinstance(logits, DTensor) and logits.placements == (Shard(2),)
    tt.testing.assert_close(logits.full_tensor().detach(), expected.detach())
    target = (tokens + 1) % 10
    with loss_parallel():
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
    reference = F.cross_entropy(expected.flatten(0, 1), target.flatten())
    reference.backward()
    tt.testing.assert_close(loss.full_tensor().detach(), reference.detach())
    check_parameters(divided, whole)


@on_ranks(2)
def test_inputs_and_outputs_that_come_to_lie_otherwise(rank: int, size: int) -> None:
    mesh = mesh_of(size)

    class Seen(tt.nn.Module):
        def forward(self, *inputs: Any, **named: Any) -> Any:
            self.inputs, self.named = inputs, named
            return inputs[0] * 1, inputs[1]

    x, other = tt.arange(8.0).reshape(4, 2) + rank, tt.ones(3)
    style = PrepareModuleInputOutput(
        input_layouts=(Shard(0), None),
        desired_input_layouts=(Replicate(), None),
        input_kwarg_layouts={"mask": Replicate()},
        desired_input_kwarg_layouts={"mask": Shard(1)},
        output_layouts=(Replicate(), None),
        desired_output_layouts=(Shard(1), None),
    )
    module = parallelize_module(Seen(), mesh, style)
    first, second = module(x, other, mask=x, factor=3)
    assert module.inputs[0].shape == (8, 2) and module.inputs[1] is other is second
    assert module.named["mask"].placements == (Shard(1),) and module.named["factor"] == 3
    assert type(first) is tt.Tensor and first.shape == (8, 1)
    local = parallelize_module(
        Seen(),
        mesh,
        PrepareModuleInput(
            input_layouts=(Shard(0), None), desired_input_layouts=(Replicate(), None), use_local_output=True
        ),
    )
    assert type(local(x, other)[0]) is tt.Tensor
    kept = parallelize_module(
        Seen(),
        mesh,
        PrepareModuleOutput(
            output_layouts=(Shard(0), None), desired_output_layouts=(Shard(0), None), use_local_output=False
        ),
    )
    assert kept(x, other)[0].shape == (8, 2)
    with pytest.raises(ValueError, match="Got 1 inputs of Seen and 2 layouts"):
        module(x)
    with pytest.raises(NotImplementedError, match=r"only support nn.Linear and nn.Embedding! Got Seen"):
        parallelize_module(Seen(), mesh, ColwiseParallel())
    with pytest.warns(
        UserWarning, match="'other.up' could not be resolved: no submodule matching token 'other'"
    ):
        parallelize_module(MLP(), mesh, {"other.up": ColwiseParallel()})
    with pytest.raises(TypeError, match="Expect Union"):
        parallelize_module(MLP(), mesh, [ColwiseParallel()])  # type: ignore[arg-type]
    assert repr(style).startswith(
        "PrepareModuleInputOutput(prepare_module_input=PrepareModuleInput(input_layouts="
    )
    assert repr(SequenceParallel()) == "SequenceParallel(sequence_dim=1, use_local_output=False)"


@on_ranks(2)
def test_an_embedding_by_columns_and_own_parameters(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    table = seeded(lambda: tt.nn.Embedding(6, 4))
    divided = parallelize_module(copy.deepcopy(table), mesh, ColwiseParallel(output_layouts=Replicate()))
    tokens = tt.tensor([[0, 5], [2, 2]])
    assert tt.equal(divided(tokens), table(tokens)) and divided.weight.placements == (Shard(1),)
    layer = tt.nn.Linear(2, 2)
    with tt.no_grad():
        layer.weight.fill_(rank)
    sent = parallelize_module(copy.deepcopy(layer), mesh, ColwiseParallel())
    own = parallelize_module(copy.deepcopy(layer), mesh, ColwiseParallel(), src_data_rank=None)
    assert sent.weight.to_local().eq(0).all() and own.weight.to_local().eq(rank).all()


@on_ranks(2)
def test_loss_parallel(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    tt.manual_seed(5)
    weight = tt.rand(5, dtype=tt.float64)
    for shape in ((6, 5), (5,), (2, 5, 3), (2, 5, 3, 2), (4, 1)):
        classes = shape[0 if len(shape) == 1 else 1]
        numbers = shape[:1] + shape[2:] if len(shape) > 1 else ()
        target = tt.randint(0, classes, numbers)
        if len(numbers) == 1 and classes > 1:
            target[0] = -100
        x = tt.randn(shape, dtype=tt.float64)
        for reduction in ("mean", "sum", "none"):
            for each in (None, weight) if classes == 5 else (None,):
                plain = x.clone().requires_grad_()
                logits = distribute_tensor(x, mesh, [Shard(0 if len(shape) == 1 else 1)]).requires_grad_()
                expected = F.cross_entropy(plain, target, each, reduction=reduction)
                with loss_parallel():
                    loss = F.cross_entropy(logits, target, each, reduction=reduction)
                    assert loss.placements == (Replicate(),)
                    (loss * 2).sum().backward()
                (expected * 2).sum().backward()
                tt.testing.assert_close(loss.full_tensor().detach(), expected.detach())
                assert logits.grad is not None and logits.grad.placements == logits.placements
                tt.testing.assert_close(logits.grad.full_tensor(), plain.grad)
    narrow = distribute_tensor(tt.randn(4, 6).bfloat16(), mesh, [Shard(1)])
    with loss_parallel():
        assert narrow.log_softmax(1).dtype is tt.bfloat16
        with pytest.raises(IndexError, match="expected targets from 0 to 5"):
            F.cross_entropy(narrow, tt.tensor([0, 6, 1, 1]))
        # Unsharded rows keep the usual rule.
        rows = distribute_tensor(tt.randn(4, 6), mesh, [Shard(0)])
        assert rows.log_softmax(1).placements == (Shard(0),)


@on_ranks(4)
def test_loss_parallel_of_divided_batches(rank: int, size: int) -> None:
    mesh = mesh_of(2, 2)
    x, target = (
        tt.randn(4, 6, dtype=tt.float64, generator=tt.Generator().manual_seed(1)),
        tt.tensor([1, 5, -100, 0]),
    )
    placed = distribute_tensor(target, mesh, [Shard(0), Replicate()])
    for reduction in ("mean", "sum", "none"):
        plain = x.clone().requires_grad_()
        logits = distribute_tensor(x, mesh, [Shard(0), Shard(1)]).requires_grad_()
        with loss_parallel():
            loss = F.cross_entropy(logits, placed, reduction=reduction)
            loss.sum().backward()
            with pytest.raises(ValueError, match="expected a DTensor that lies as"):
                F.cross_entropy(logits, target)
        expected = F.cross_entropy(plain, target, reduction=reduction)
        expected.sum().backward()
        tt.testing.assert_close(loss.full_tensor().detach(), expected.detach())
        assert logits.grad is not None
        tt.testing.assert_close(logits.grad.full_tensor(), plain.grad)
