"""Operators on distributed tensors agree with those on whole tensors for every placement, backward too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.distributed import DeviceMesh, init_device_mesh
from triten.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from triten.distributed.tensor.rules.table import RULES
from triten.nn import functional as F
from triten.tests.distributed.ranks import on_ranks

_meshes: dict[tuple[int, ...], DeviceMesh] = {}
Case = tuple[Callable[..., Any], Sequence[tuple[int, ...]]]


def mesh_of(*shape: int) -> DeviceMesh:
    if shape not in _meshes:
        _meshes[shape] = init_device_mesh("cpu", shape)
    return _meshes[shape]


def numbers(shape: tuple[int, ...], seed: int) -> tt.Tensor:
    return tt.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def layouts(shape: tuple[int, ...], mesh: DeviceMesh) -> list[list[Placement]]:
    one: list[Placement] = [Replicate(), *[Shard(dim) for dim in range(len(shape))]]
    if mesh.ndim == 1:
        return [[each] for each in one] + [[Partial()]]
    return [[a, b] for a, b in ((one[0], one[-1]), (one[-1], one[-1]), (one[min(1, len(one) - 1)], one[-1]))]


def spread(x: tt.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """Distribute a tensor by its placements; the local terms of a partial sum differ between the processes."""
    if not any(each.is_partial() for each in placements):
        return distribute_tensor(x, mesh, placements).requires_grad_(x.is_floating_point())
    rank = mesh.get_local_rank()
    part = x * 0.25 if rank == 0 else x * (0.75 / (mesh.size() - 1))
    return DTensor.from_local(part, mesh, placements).detach().requires_grad_()


def check(name: str, case: Case, mesh: DeviceMesh, quietly: bool = True) -> None:
    function, shapes = case
    inputs = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    plain = [x.clone().requires_grad_() for x in inputs]
    expected = function(*plain)
    flat = expected if isinstance(expected, tuple | list) else (expected,)
    derivable = [each for each in flat if isinstance(each, tt.Tensor) and each.requires_grad]
    weights = [numbers(tuple(each.shape), 9) for each in derivable]
    if derivable:
        tt.autograd.backward(derivable, weights)
    every = list(product(*[layouts(shape, mesh) for shape in shapes]))
    # Take a subset of the combinations: a prime step covers all layouts of each tensor.
    most = 25 if mesh.ndim == 1 else 4
    step = next(step for step in (1, 2, 3, 5, 7, 11) if len(every) <= step * most)
    for chosen in every[::step]:
        given = [spread(x, mesh, placements) for x, placements in zip(inputs, chosen, strict=True)]
        with warnings.catch_warnings():
            warnings.simplefilter("error" if quietly else "ignore")
            found = function(*given)
            several = found if isinstance(found, tuple | list) else (found,)
            assert len(several) == len(flat)
            for made, wanted in zip(several, flat, strict=True):
                assert made.shape == wanted.shape and made.dtype == wanted.dtype, (name, chosen, made)
                whole = made.full_tensor() if isinstance(made, DTensor) else made
                assert tt.allclose(whole, wanted), (name, chosen, made, whole, wanted)
            if derivable:
                outs = [each for each in several if each.requires_grad]
                seeds = [distribute_tensor(each, mesh) for each in weights]
                tt.autograd.backward(outs, seeds)
        for made, reference in zip(given, plain, strict=True):
            if reference.grad is None:
                assert made.grad is None
            else:
                assert made.grad is not None and made.grad.shape == reference.grad.shape
                grad = made.grad.full_tensor()
                assert tt.allclose(grad, reference.grad), (name, chosen, made.grad, grad, reference.grad)


POINTWISE: dict[str, Case] = {
    "add": (lambda a, b: a + b, [(4, 3), (4, 3)]),
    "add broadcast": (lambda a, b: tt.add(a, b, alpha=2), [(4, 3), (3,)]),
    "add number": (lambda a: a + 1.5, [(5, 3)]),
    "mul": (lambda a, b: a * b, [(2, 4, 3), (4, 1)]),
    "mul number": (lambda a: 2 * a, [(5, 3)]),
    "div": (lambda a, b: a / (b * b + 1), [(4, 3), (4, 3)]),
    "neg sub": (lambda a, b: -(a - b), [(3, 3), (3, 3)]),
    "gelu": (F.gelu, [(5, 3)]),
    "relu silu": (lambda a: F.silu(F.relu(a)), [(4, 3)]),
    "exp tanh sigmoid": (lambda a: (a.tanh() * a.sigmoid()).exp(), [(4, 3)]),
    "where": (lambda a, b: tt.where(a > 0, a, b), [(4, 3), (4, 3)]),
    "masked_fill": (lambda a: a.masked_fill(a > 0, 3.0), [(4, 3)]),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), [(4, 3)]),
    "pow": (lambda a: a**2 + a.square(), [(4, 3)]),
    "in place": (lambda a, b: a.abs().add_(b).mul_(2).sub_(b), [(4, 3), (4, 3)]),
    "to": (lambda a: a.to(tt.float32).to(tt.float64), [(4, 3)]),
    "lerp addcmul": (lambda a, b: tt.addcmul(tt.lerp(a, b, 0.3), a, b, value=2), [(4, 3), (4, 3)]),
    "compare": (lambda a, b: (a > b, a == b, tt.maximum(a, b)), [(4, 3), (4, 3)]),
    "like": (lambda a: tt.zeros_like(a) + tt.ones_like(a) + tt.full_like(a, 2.0), [(4, 3)]),
    "new": (lambda a: a.new_zeros(4, 3) + a.new_ones(4, 3) + a, [(4, 3)]),
}
REDUCTIONS: dict[str, Case] = {
    "sum": (lambda a: a.sum(), [(5, 3)]),
    "sum dim": (lambda a: (a.sum(0), a.sum(-1, keepdim=True)), [(5, 3)]),
    "mean": (lambda a: (a.mean(), a.mean(0), a.mean(1)), [(5, 4)]),
    "amax": (lambda a: (a.amax(0), a.amin(1), a.max(), a.min()), [(4, 6)]),
    "max dim": (lambda a: a.max(1)[0], [(4, 6)]),
    "argmax": (lambda a: (a.argmax(0), a.argmax(1)), [(4, 6)]),
    "norm": (lambda a: (a.norm(), tt.linalg.vector_norm(a, 1, 0), a.norm(3, dim=1)), [(5, 4)]),
    "norm inf": (lambda a: tt.linalg.vector_norm(a, float("inf")), [(4, 4)]),
    "prod": (lambda a: a.detach().prod(), [(2, 3)]),
    "any all": (lambda a: ((a > 0).any(), (a > -9).all(), (a > 0).any(1)), [(5, 4)]),
    "var": (lambda a: (a.var(0), a.std(1)), [(5, 4)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(5, 4)]),
    "cumsum": (lambda a: a.cumsum(0), [(4, 3)]),
}
PRODUCTS: dict[str, Case] = {
    "mm": (lambda a, b: a @ b, [(4, 6), (6, 5)]),
    "bmm": (lambda a, b: a @ b, [(2, 3, 4), (2, 4, 5)]),
    "addmm": (lambda c, a, b: tt.addmm(c, a, b), [(5,), (4, 6), (6, 5)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(2, 4, 6), (4, 6), (4,)]),
    "linear of a vector": (lambda x, w: F.linear(x, w), [(6,), (4, 6)]),
    "einsum": (lambda a, b: tt.einsum("bij,bjk->ik", a, b), [(2, 3, 4), (2, 4, 5)]),
    "mv dot": (lambda a, b: (a @ b, b @ b), [(4, 6), (6,)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 2, 4, 4), (4, 2, 3, 3), (4,)]),
}
VIEWS: dict[str, Case] = {
    "view": (lambda a: (a.view(8, 6), a.view(2, 4, 2, 3), a.reshape(-1)), [(2, 4, 6)]),
    "flatten unflatten": (lambda a: (a.flatten(1), a.unflatten(1, (2, 2))), [(2, 4, 6)]),
    "transpose permute": (lambda a: (a.transpose(0, 2), a.permute(1, 2, 0), a.mT), [(2, 4, 6)]),
    "squeeze unsqueeze": (lambda a: (a.unsqueeze(1).squeeze(1), a.unsqueeze(-1), a[:, None]), [(2, 3)]),
    "squeeze all": (lambda a: (a.squeeze(), a.squeeze(0), a.squeeze(1)), [(2, 1, 3)]),
    "expand": (lambda a: (a.expand(3, 2, 1, 3), a.expand(2, 4, 3)), [(2, 1, 3)]),
    "slice select": (lambda a: (a[1:3], a[:, ::2], a[0], a[:, -1]), [(4, 6)]),
    "split": (lambda a: (*a.split(2), *a.chunk(3, 1), *a.unbind(0)), [(4, 6)]),
    "cat stack": (lambda a, b: (tt.cat([a, b]), tt.cat([a, b], 1), tt.stack([a, b], 1)), [(4, 3), (4, 3)]),
    "flip roll tril": (lambda a: (a.flip(0), a.roll(1, 1), a.tril(), a.triu(1)), [(4, 4)]),
    "repeat pad": (lambda a: (a.repeat(2, 1), F.pad(a, (1, 2))), [(4, 3)]),
    "index": (
        lambda a: (
            a[[0, 2]],
            a[:, [[1, 0], [2, 1]]],
            a[[0, 1], :, [2, 0]],
            a.index_select(1, tt.tensor([1])),
        ),
        [(3, 4, 3)],
    ),
    "complex": (lambda a: (tt.view_as_complex(a).abs(), tt.view_as_real(tt.complex(a, a))), [(4, 3, 2)]),
    "t clone": (lambda a: a.t().contiguous().clone(), [(4, 3)]),
}
LAYERS: dict[str, Case] = {
    "pooling": (
        lambda a: (F.max_pool2d(a, 2), F.avg_pool2d(a, 2), F.adaptive_avg_pool2d(a, 1)),
        [(2, 2, 4, 4)],
    ),
    "softmax": (lambda a: (F.softmax(a, -1), F.log_softmax(a, 0)), [(4, 6)]),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (6,), w, b), [(2, 4, 6), (6,), (6,)]),
    "rms_norm": (lambda a, w: F.rms_norm(a, (6,), w), [(2, 4, 6), (6,)]),
    "group_norm": (lambda a: F.group_norm(a, 2), [(2, 4, 3)]),
    "mse_loss": (lambda a, b: (F.mse_loss(a, b), F.mse_loss(a, b, reduction="sum")), [(4, 6), (4, 6)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 2, 3, 4)] * 3,
    ),
}
FAMILIES = {
    "pointwise": POINTWISE,
    "reductions": REDUCTIONS,
    "products": PRODUCTS,
    "views": VIEWS,
    "layers": LAYERS,
}


@on_ranks(2)
def test_pointwise(rank: int, size: int) -> None:
    for name, case in POINTWISE.items():
        check(name, case, mesh_of(size))


@on_ranks(2)
def test_reductions(rank: int, size: int) -> None:
    for name, case in REDUCTIONS.items():
        check(name, case, mesh_of(size))


@on_ranks(2)
def test_products(rank: int, size: int) -> None:
    for name, case in PRODUCTS.items():
        check(name, case, mesh_of(size))


@on_ranks(2)
def test_views(rank: int, size: int) -> None:
    for name, case in VIEWS.items():
        check(name, case, mesh_of(size))


@on_ranks(2)
def test_layers(rank: int, size: int) -> None:
    for name, case in LAYERS.items():
        check(name, case, mesh_of(size))


@on_ranks(4)
def test_meshes_of_two_dimensions(rank: int, size: int) -> None:
    for family in FAMILIES.values():
        for name, case in list(family.items())[::2]:
            check(name, case, mesh_of(2, 2), quietly=False)


def test_every_rule_is_an_operators() -> None:
    dispatcher = Dispatcher.singleton()
    assert [name for name in RULES if dispatcher.find_schema(name) is None] == []
