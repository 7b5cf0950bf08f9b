"""Operators treat sparse tensors of each layout as PyTorch's do, on random tensors.

The database has few samples for sparse layouts, so this module generates cases. It takes each operator that
PyTorch registers for a sparse key, and operators that it refuses. The tensors of each layout have repeated
coordinates, dense dimensions, batches, blocks or no elements. The checks compare layout, shape, dtype and
values of results, and the type of a refusal. In float64 they also compare gradients, if PyTorch has them.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import triten as tt

from ..conversion import OutsideError
from ..outcome import Difference, compare_values, outcome, refusal_differs
from .mode import Check, Mode, Settings

CASES = 8
"""Drawn for each operator, layout and kind of tensor."""

LIMITS = (
    "INTERNAL ASSERT|MKL|(crow|col)_indices expected sparse row|Expected result Tensor to be of format CSR"
    "|no view exists|computation on CPU is not implemented|only supports|is not supported|not supported for mat"
    "|Only batched|expected sparse compressed|Could not run 'aten::[a-z_]*_copy'"
)
"""What PyTorch says where it lacks a part of a layout, rather than refuse a call."""

LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


@dataclass(frozen=True)
class Question:
    """An operator as a call: of the library, a tensor of a layout, another of it, and a dense one of the same shape."""

    name: str
    call: Callable[[Any, Any, Any, Any], Any]
    variant_test_name: str = ""


UNARY = (
    *(
        "abs",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "conj_physical",
        "deg2rad",
        "erf",
        "erfinv",
        "expm1",
        "floor",
    ),
    *(
        "frac",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "log1p",
        "neg",
        "positive",
        "rad2deg",
        "relu",
        "round",
        "sgn",
    ),
    *(
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
        "nan_to_num",
        "angle",
        "cos",
        "exp",
        "log",
    ),
    *(
        "sigmoid",
        "reciprocal",
        "square",
        "logical_not",
        "isfinite",
        "any",
        "all",
        "mean",
        "prod",
        "max",
        "zeros_like",
    ),
    *("empty_like", "ones_like", "clone", "numel", "is_floating_point"),
)

CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "add": lambda lib, x, y, d: x + y,
    "add.alpha": lambda lib, x, y, d: lib.add(x, y, alpha=3),
    "add.dense_first": lambda lib, x, y, d: d + x,
    "add.dense": lambda lib, x, y, d: x + d,
    "add.number": lambda lib, x, y, d: x + 1,
    "sub": lambda lib, x, y, d: x - y,
    "sub.dense_first": lambda lib, x, y, d: d - x,
    "mul": lambda lib, x, y, d: x * y,
    "mul.dense": lambda lib, x, y, d: x * d,
    "mul.dense_first": lambda lib, x, y, d: d * x,
    "mul.number": lambda lib, x, y, d: x * 3,
    "mul.zero_dim": lambda lib, x, y, d: x * d.sum(),
    "div.number": lambda lib, x, y, d: x / 2,
    "div": lambda lib, x, y, d: x / y,
    "div.floor": lambda lib, x, y, d: lib.div(x, 2, rounding_mode="floor"),
    "floor_divide": lambda lib, x, y, d: x // 2,
    "pow": lambda lib, x, y, d: x**2,
    "pow.zero": lambda lib, x, y, d: x**0,
    "sum": lambda lib, x, y, d: x.sum(),
    "sum.dim0": lambda lib, x, y, d: x.sum(0),
    "sum.dim1": lambda lib, x, y, d: x.sum(1),
    "sum.keepdim": lambda lib, x, y, d: x.sum(1, keepdim=True),
    "sum.all": lambda lib, x, y, d: x.sum(tuple(range(x.dim()))),
    "sum.dtype": lambda lib, x, y, d: x.sum(dtype=lib.float64),
    "sparse.sum": lambda lib, x, y, d: lib.sparse.sum(x),
    "sparse.sum.dim": lambda lib, x, y, d: lib.sparse.sum(x, 0),
    "sparse.softmax": lambda lib, x, y, d: lib.sparse.softmax(x, 1),
    "sparse.log_softmax": lambda lib, x, y, d: lib.sparse.log_softmax(x, 0),
    "softmax": lambda lib, x, y, d: x.softmax(1),
    "norm": lambda lib, x, y, d: x.norm(),
    "to_dense": lambda lib, x, y, d: x.to_dense(),
    "to_sparse": lambda lib, x, y, d: x.to_sparse(),
    "to_sparse_csr": lambda lib, x, y, d: x.to_sparse_csr(),
    "to_sparse_csc": lambda lib, x, y, d: x.to_sparse_csc(),
    "to_sparse_bsr": lambda lib, x, y, d: x.to_sparse_bsr((2, 3)),
    "to_sparse_bsc": lambda lib, x, y, d: x.to_sparse_bsc((2, 3)),
    "dense.to_sparse": lambda lib, x, y, d: (
        d.to_sparse(layout=x.layout) if "bs" not in str(x.layout) else d.sum()
    ),
    "sparse_mask": lambda lib, x, y, d: d.sparse_mask(x),
    "sparse_mask.sparse": lambda lib, x, y, d: y.sparse_mask(x),
    "transpose": lambda lib, x, y, d: x.transpose(0, 1),
    "t": lambda lib, x, y, d: x.t(),
    "permute": lambda lib, x, y, d: x.permute(tuple(reversed(range(x.dim())))),
    "unsqueeze": lambda lib, x, y, d: x.unsqueeze(0),
    "select": lambda lib, x, y, d: x.select(0, 1),
    "item": lambda lib, x, y, d: x[1],
    "slice": lambda lib, x, y, d: x[1:3],
    "index_select": lambda lib, x, y, d: x.index_select(0, lib.tensor([2, 0, 2], device=x.device)),
    "narrow_copy": lambda lib, x, y, d: x.narrow_copy(0, 1, 2),
    "cat": lambda lib, x, y, d: lib.cat([x, y], 0),
    "cat.dim1": lambda lib, x, y, d: lib.cat([x, y], 1),
    "stack": lambda lib, x, y, d: lib.stack([x, y]),
    "view": lambda lib, x, y, d: x.view(-1),
    "expand": lambda lib, x, y, d: x.expand(2, *x.shape),
    "to.dtype": lambda lib, x, y, d: x.to(lib.float64),
    "to.bool": lambda lib, x, y, d: x.to(lib.bool),
    "coalesce": lambda lib, x, y, d: x.coalesce(),
    "zero_": lambda lib, x, y, d: x.clone().zero_(),
    "neg_": lambda lib, x, y, d: x.clone().neg_(),
    "add_": lambda lib, x, y, d: x.clone().add_(y),
    "add_.dense": lambda lib, x, y, d: d.clone().add_(x),
    "mul_": lambda lib, x, y, d: x.clone().mul_(y),
    "mul_.number": lambda lib, x, y, d: x.clone().mul_(3),
    "copy_": lambda lib, x, y, d: x.clone().copy_(y),
    "fill_": lambda lib, x, y, d: x.clone().fill_(2),
    "mm": lambda lib, x, y, d: lib.mm(x, d.t()),
    "mm.dense_first": lambda lib, x, y, d: lib.mm(d.t(), x),
    "mm.sparse": lambda lib, x, y, d: lib.mm(x, y.t()),
    "matmul": lambda lib, x, y, d: x @ d.transpose(-1, -2),
    "mv": lambda lib, x, y, d: x @ d[0],
    "addmm": lambda lib, x, y, d: lib.addmm(d @ d.t(), x, d.t(), beta=2, alpha=3),
    "sparse.mm": lambda lib, x, y, d: lib.sparse.mm(x, d.t()),
    "sparse.addmm": lambda lib, x, y, d: lib.sparse.addmm(d @ d.t(), x, d.t()),
    "sampled_addmm": lambda lib, x, y, d: lib.sparse.sampled_addmm(x, d, d.t() @ d),
    "sparse.mm.reduce": lambda lib, x, y, d: lib.sparse.mm(x, d.t(), "mean"),
    "smm": lambda lib, x, y, d: lib.smm(x, d.t()),
    "hspmm": lambda lib, x, y, d: lib.hspmm(x, d.t()),
    "sspaddmm": lambda lib, x, y, d: lib.sspaddmm(x, y @ y.t(), d),
    "dsmm": lambda lib, x, y, d: lib.dsmm(x, d.t()),
    "hsmm": lambda lib, x, y, d: lib.hsmm(x, d.t()),
    "saddmm": lambda lib, x, y, d: lib.saddmm(x, y @ y.t(), d),
    "spmm": lambda lib, x, y, d: lib.spmm(x, d.t()),
    "semi_structured.packed": lambda lib, x, y, d: _packed(lib, x),
    "semi_structured.whole": lambda lib, x, y, d: (
        lib.sparse._semi_structured_conversions.sparse_semi_structured_to_dense_cutlass(*_packed(lib, x))
    ),
    "semi_structured.tile": lambda lib, x, y, d: (
        lib.sparse._semi_structured_conversions._sparse_semi_structured_tile(_repeated(x).clone())
    ),
    "linear": lambda lib, x, y, d: lib.nn.functional.linear(d, x),
    "dot": lambda lib, x, y, d: lib.dot(x, y),
    "contiguous": lambda lib, x, y, d: x.contiguous(),
    "eq": lambda lib, x, y, d: x == y,
    "where": lambda lib, x, y, d: lib.where(d > 0, x, y),
    "reshape": lambda lib, x, y, d: x.reshape(-1),
    "nonzero": lambda lib, x, y, d: x.nonzero(),
    "values": lambda lib, x, y, d: x.values(),
    "indices": lambda lib, x, y, d: x.indices(),
    "crow_indices": lambda lib, x, y, d: x.crow_indices(),
    "ccol_indices": lambda lib, x, y, d: x.ccol_indices(),
    "values_copy": lambda lib, x, y, d: lib.values_copy(x),
    "crow_indices_copy": lambda lib, x, y, d: lib.crow_indices_copy(x),
    "col_indices_copy": lambda lib, x, y, d: lib.col_indices_copy(x),
    "ccol_indices_copy": lambda lib, x, y, d: lib.ccol_indices_copy(x),
    "row_indices_copy": lambda lib, x, y, d: lib.row_indices_copy(x),
    "to_sparse_coo": lambda lib, x, y, d: x.to_sparse_coo(),
}


def questions(pattern: str, dtype: torch.dtype | None) -> Iterator[Question]:
    """Yield the questions whose names match a pattern."""
    for name in UNARY:
        if re.search(pattern, name):
            yield Question(name, partial(_unary, name))
    for name, call in CALLS.items():
        if re.search(pattern, name):
            yield Question(name, call)


def _repeated(x: Any) -> Any:
    """Return a dense matrix with enough rows for the metadata of sparse tensor cores."""
    return x.to_dense().reshape(4, -1).repeat(16, 16)


def _packed(lib: Any, x: Any) -> Any:
    whole = _repeated(x).to(lib.float16)
    return lib.sparse._semi_structured_conversions.sparse_semi_structured_from_dense_cutlass(whole)


def _unary(name: str, lib: Any, x: Any, y: Any, d: Any) -> Any:
    return getattr(lib, name)(x)


def drawn(rng: np.random.Generator, layout: str, dtype: torch.dtype, number: int) -> torch.Tensor:
    """Generate a tensor of a layout; for COO every second one is uncoalesced and every third has a dense dimension."""
    if layout == "sparse_coo":
        dense = (2,) if number % 3 == 2 else ()
        nnz = 0 if number == 5 else 9
        indices = np.stack([rng.integers(0, n, nnz) for n in (4, 6)])
        values = torch.from_numpy(rng.integers(-5, 6, (nnz, *dense)).astype(np.float64)).to(dtype)
        made = torch.sparse_coo_tensor(torch.from_numpy(indices), values, (4, 6, *dense))
        return made if number % 2 else made.coalesce()
    whole = torch.from_numpy(rng.integers(-5, 6, (4, 6)) * (rng.random((4, 6)) < 0.4)).to(dtype)
    if number == 5:
        whole = whole * 0
    blocks = {"blocksize": (2, 3)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    return whole.to_sparse(layout=getattr(torch, layout), **blocks)


def ours(tensor: torch.Tensor, device: str) -> Any:
    """Convert the tensor to triten's."""
    place = tt.device(device)
    if tensor.layout == torch.strided:
        return tt.from_numpy(tensor.detach().numpy().copy()).to(place)
    if tensor.layout == torch.sparse_coo:
        return tt.sparse_coo_tensor(
            ours(tensor._indices(), device),
            ours(tensor._values(), device),
            tuple(tensor.shape),
            is_coalesced=tensor.is_coalesced(),
        )
    by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    first = tensor.crow_indices() if by_rows else tensor.ccol_indices()
    second = tensor.col_indices() if by_rows else tensor.row_indices()
    layout = getattr(tt, str(tensor.layout).removeprefix("torch."))
    parts = (ours(first, device), ours(second, device), ours(tensor.values(), device))
    return tt.sparse_compressed_tensor(*parts, tuple(tensor.shape), layout=layout)


def cases(question: Question, settings: Settings) -> Iterator[tuple[str, Check]]:
    for layout in LAYOUTS:
        rng = np.random.default_rng(0)
        for number in range(min(CASES, settings.max_samples or CASES)):
            x, y = (drawn(rng, layout, settings.dtype, number) for _ in range(2))
            d = torch.from_numpy(rng.integers(1, 6, tuple(x.shape)).astype(np.float64)).to(settings.dtype)
            yield f"sparse {layout}", partial(_compared, question, (x, y, d), settings)
            if settings.dtype == torch.float64 and not settings.meta:
                yield f"sparse {layout} gradient", partial(_gradient, question, (x, y, d), settings)


def _compared(question: Question, given: tuple[torch.Tensor, ...], settings: Settings) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = outcome(lambda: question.call(torch, *given))
        own = [ours(each, settings.device) for each in given]
        mine = outcome(lambda: question.call(tt, *own))
    if theirs.raised is not None:
        if mine.raised is not None and isinstance(mine.raised, NotImplementedError):
            if not isinstance(theirs.raised, RuntimeError):
                raise Difference(refusal_differs(theirs.raised, mine.raised))
        elif mine.raised is not None and (differs := refusal_differs(theirs.raised, mine.raised)):
            raise Difference(differs)
        elif mine.raised is None and re.search(LIMITS, str(theirs.raised)):
            _compared_with_dense(question, given, mine.value, settings)
        elif mine.raised is None:
            raise Difference(
                f"{type(theirs.raised).__name__} expected ({str(theirs.raised)[:120]}), nothing raised"
            )
        return
    if mine.raised is not None:
        raise Difference(f"{type(mine.raised).__name__} raised: {str(mine.raised)[:150]}") from mine.raised
    want, got = theirs.value, mine.value
    if isinstance(want, torch.Tensor):
        expected = str(want.layout).removeprefix("torch.")
        if got.layout.name != expected:
            raise Difference(f"layout {expected} expected, {got.layout.name} given")
        if want.layout != torch.strided:
            dense = outcome(want.to_dense)
            if dense.raised is not None:
                # PyTorch's sum of no blocks at all has values of one dimension, which it cannot read itself.
                _compared_with_dense(question, given, got, settings)
                return
            want, got = dense.value, got.to_dense()
    if question.name == "empty_like":
        return
    compare_values(want, got, meta=settings.meta)


def _compared_with_dense(
    question: Question, given: tuple[torch.Tensor, ...], mine: Any, settings: Settings
) -> None:
    """Compare triten's result with PyTorch's on dense tensors, for calls that this build of PyTorch lacks."""
    dense = outcome(lambda: question.call(torch, *[each.to_dense() for each in given]))
    if dense.raised is not None or not isinstance(dense.value, torch.Tensor):
        raise OutsideError("PyTorch has nothing to compare with")
    got = mine.to_dense()
    if str(got.dtype).rpartition(".")[2] == str(dense.value.dtype).rpartition(".")[2]:
        compare_values(dense.value, got, meta=settings.meta)


def _gradient(question: Question, given: tuple[torch.Tensor, ...], settings: Settings) -> None:
    """Compare the gradients of x and d, if PyTorch has them."""
    x, y, d = given
    leaves = (x.clone().requires_grad_(), d.clone().requires_grad_())

    def loss(lib: Any, value: Any) -> Any:
        return value.to_dense().sum() if value.layout != lib.strided else value.sum()

    def call(lib: Any, x: Any, y: Any, d: Any) -> list[Any]:
        result = question.call(lib, x, y, d)
        if not hasattr(result, "requires_grad") or not result.requires_grad:
            return []
        loss(lib, result).backward()
        return [None if leaf.grad is None else leaf.grad for leaf in (x, d)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = outcome(lambda: call(torch, leaves[0], y, leaves[1]))
        if theirs.raised is not None or not theirs.value:
            return
        own = [ours(each, settings.device) for each in (x, y, d)]
        mine = outcome(lambda: call(tt, own[0].requires_grad_(), own[1], own[2].requires_grad_()))
    if mine.raised is not None:
        raise Difference(f"{type(mine.raised).__name__} raised: {str(mine.raised)[:150]}") from mine.raised
    if len(mine.value) != len(theirs.value):
        raise Difference("a gradient is recorded by one alone")
    for name, want, got in zip(("x", "d"), theirs.value, mine.value, strict=True):
        if want is None or got is None:
            if (want is None) != (got is None) and (want if got is None else got).to_dense().any():
                raise Difference(f"gradient of {name}: {want} expected, {got} given")
            continue
        expected = str(want.layout).removeprefix("torch.")
        if got.layout.name != expected:
            raise Difference(f"gradient of {name}: layout {expected} expected, {got.layout.name} given")
        compare_values(want.to_dense(), got.to_dense(), what=f"gradient of {name}")


SPARSE = Mode("sparse", lambda question, settings: True, cases, questions)
