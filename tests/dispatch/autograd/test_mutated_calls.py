"""Calls with one invalid argument raise an error of the package, or return a result.

Gradient operators are called with all mutations, others with a part of them. Each operator's valid call comes
from the rows of `derivatives.yaml` or from `CALLS`. The test replaces one argument at a time by tensors of
other ranks, sizes, dtypes and devices, and by numbers out of range.
"""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import pytest

import triten as tt
from triten.tests.dispatch.autograd import test_every_derivative as rows
from triten.utils._python_dispatch import TensorDispatchMode

aten = tt.ops.aten
ALLOWED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
TOO_LARGE = MemoryError
"""A result that no machine has the memory of: `tests/ops/test_exponential_outputs.py`."""
NUMBERS = (-1, 0, 1, 100, -100, 2**45, 2**63 - 1, -(2**63))
SIZES = (-1, 0, 100, 1 << 62)
Call = tuple[Any, Sequence[Any], dict[str, Any]]
"""An overload, its positional arguments, and its named ones."""


def grid(*sizes: int) -> tt.Tensor:
    numbers = tt.arange(tt.Size(sizes).numel(), dtype=tt.float64)
    return (numbers / 7 + 0.1).reshape(sizes)


def indices(*numbers: int) -> tt.Tensor:
    return tt.tensor(numbers)


CALLS: list[Callable[[Any], Any]] = [
    lambda aten: aten._basic_index_backward(grid(3), [2, 3], [1, 1, 0, 0]),
    lambda aten: aten._convolution_double_backward(
        *(grid(1, 2, 4), grid(3, 2, 2), grid(3), grid(1, 3, 3), grid(3, 2, 2), grid(1, 2, 4)),
        *([1], [0], [1], False, [0], 1, [True, True, True]),
    ),
    lambda aten: aten._embedding_bag_dense_backward(
        *(grid(2, 3), indices(0, 2, 1), indices(0, 0, 1), indices(2, 1), indices(), 4, False, 0, grid(3), -1)
    ),
    lambda aten: aten._embedding_bag_dense_backward(
        *(grid(2, 3), indices(0, 2, 1), indices(0, 0, 1), indices(2, 1)),
        *(indices(0, 2, 2, 1, 1, 1).reshape(2, 3), 4, False, 2, None, -1),
    ),
    lambda aten: aten._embedding_bag_backward(
        *(grid(2, 3), indices(0, 2, 1), indices(0, 2), indices(0, 0, 1), indices(2, 1), indices()),
        *(4, False, 1, True, None, -1),
    ),
    lambda aten: aten._fake_quantize_learnable_per_tensor_affine_backward(
        *(grid(2, 3), grid(2, 3), grid(1), grid(1), 0, 255)
    ),
    lambda aten: aten._fake_quantize_learnable_per_channel_affine_backward(
        *(grid(2, 3), grid(2, 3), grid(3), grid(3), 1, 0, 255)
    ),
    lambda aten: aten._grid_sampler_grid_backward(
        grid(1, 2, 3, 4), grid(1, 2, 3, 3), grid(1, 3, 4, 2), 0, 0, False
    ),
    lambda aten: aten._gather_sparse_backward(grid(2, 2), [2, 3], 1, indices(0, 2, 1, 1).reshape(2, 2)),
    lambda aten: aten._pack_padded_sequence_backward(grid(3, 2), [2, 2, 2], indices(2, 1), False),
    lambda aten: aten._thnn_fused_lstm_cell_backward_impl(
        *(grid(2, 3), grid(2, 3), grid(2, 3), grid(2, 3), grid(2, 12), True)
    ),
    lambda aten: aten._thnn_fused_lstm_cell_backward(
        *(grid(2, 3), grid(2, 3), grid(2, 3), grid(2, 3), grid(2, 12), True)
    ),
    lambda aten: aten._thnn_differentiable_lstm_cell_backward(
        *(grid(2, 3), grid(2, 3), grid(2, 12), grid(2, 12), grid(12), grid(12), grid(2, 3), grid(2, 3))
    ),
    lambda aten: aten._thnn_differentiable_gru_cell_backward(
        *(grid(2, 3), grid(2, 9), grid(2, 9), grid(2, 3), grid(9), grid(9))
    ),
    lambda aten: aten._weight_norm_interface_backward(grid(2, 3), grid(2, 3), grid(2, 1), grid(2, 1), 0),
    lambda aten: aten.affine_grid_generator_backward(grid(1, 2, 3, 2), [1, 1, 2, 3], False),
    lambda aten: aten.batch_norm_backward_reduce(
        *(grid(2, 3, 2), grid(2, 3, 2), grid(3), grid(3), grid(3), True, True, True)
    ),
    lambda aten: aten.batch_norm_backward_elemt(
        *(grid(2, 3, 2), grid(2, 3, 2), grid(3), grid(3), grid(3), grid(3), grid(3)),
        tt.tensor([4], dtype=tt.int32),
    ),
    lambda aten: aten.batch_norm_backward(
        *(grid(2, 3, 2), grid(2, 3, 2), grid(3), grid(3), grid(3), grid(3), grid(3), True, 1e-5),
        *([True, True, True], tt.empty(0, dtype=tt.uint8)),
    ),
    lambda aten: aten.convolution_backward(
        *(grid(1, 3, 3), grid(1, 2, 4), grid(3, 2, 2), [3], [1], [0], [1], False, [0], 1, [True, True, True])
    ),
    lambda aten: aten.convolution_backward(
        *(grid(1, 2, 5), grid(1, 3, 4), grid(3, 2, 2), [2], [1], [0], [1], True, [0], 1, [True, True, True])
    ),
    lambda aten: aten.cummaxmin_backward(grid(2, 3), grid(2, 3), indices(0, 1, 1, 0, 0, 2).reshape(2, 3), 1),
    lambda aten: aten.cumprod_backward(grid(2, 3), grid(2, 3), 1, grid(2, 3)),
    lambda aten: aten.huber_loss_backward(grid(2, 3), grid(2, 3), grid(2, 3) + 1, 1, 0.5),
    lambda aten: aten.log_sigmoid_backward(grid(2, 3), grid(2, 3), grid(2, 3)),
    lambda aten: aten.rrelu_with_noise_backward(grid(2, 3), grid(2, 3), grid(2, 3), 0.1, 0.3, True, False),
    lambda aten: aten.smooth_l1_loss_backward(grid(2, 3), grid(2, 3), grid(2, 3) + 1, 1, 0.5),
    lambda aten: aten.multi_margin_loss_backward(grid(), grid(2, 3), tt.tensor([2, 0]), 1, 1, None, 1),
    lambda aten: aten.multilabel_margin_loss_backward(
        grid(),
        grid(2, 3),
        tt.tensor([[2, 0, -1], [1, -1, 0]]),
        1,
        tt.tensor([[1.0, 0, 1], [0, 1, 0]]).double(),
    ),
    lambda aten: aten.elu_backward(grid(2, 3), 1.0, 1.0, 1.0, False, grid(2, 3)),
    lambda aten: aten.embedding_backward(grid(3, 2), indices(0, 2, 1), 4, -1, False, False),
    lambda aten: aten.embedding_backward(grid(3, 2), indices(0, 2, 1), 4, -1, False, True),
    lambda aten: aten.embedding_sparse_backward(grid(3, 2), indices(0, 2, 1), 4, -1, False),
    lambda aten: aten.fake_quantize_per_channel_affine_cachemask_backward(grid(2, 3), grid(2, 3) > 0),
    lambda aten: aten.fake_quantize_per_tensor_affine_cachemask_backward(grid(2, 3), grid(2, 3) > 0),
    lambda aten: aten.glu_backward(grid(2, 2), grid(2, 4), 1),
    lambda aten: aten.to_dense_backward(grid(2, 3), grid(2, 3).to_sparse()),
    lambda aten: aten.value_selecting_reduction_backward(grid(2), 1, indices(0, 2), [2, 3], False),
]
"""Valid calls of operators that no row makes."""
OF_CUDA_ALONE = {"_scaled_dot_product_efficient_attention_backward"}


@cache
def valid_calls() -> dict[str, list[Call]]:
    """Return a valid call of each operator that rows call, and of those of gradients, by name."""
    found: dict[str, list[Call]] = {}

    class Recording(TensorDispatchMode):
        def __tensor_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            found.setdefault(str(func), [(func, args, kwargs or {})])
            return func(*args, **(kwargs or {}))

    left_out = rows.RANDOM | rows.STRAIGHT_THROUGH | rows.UNDERIVABLE | rows.NO_FLOAT64
    for row in sorted(set(rows.ROWS) - left_out - {"_basic_index_backward"}):
        function, args = rows.prepared(row)
        with Recording():
            made = function(*args)
            results = made if isinstance(made, (tuple, list)) else [made]
            for out in results:
                if isinstance(out, tt.Tensor) and out.requires_grad:
                    dense = out.to_dense() if out.layout is not tt.strided else out
                    dense.abs().sum().backward(retain_graph=True)

    class Recorder:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def record(*args: Any) -> None:
                func = getattr(aten, name).default
                func(*args)
                found.setdefault(str(func), []).append((func, args, {}))

            return record

    for call in CALLS:
        call(Recorder())
    return found


def mutations(value: Any) -> Iterator[Any]:
    """Yield values of other shapes, dtypes, devices and ranges instead of an argument."""
    if isinstance(value, tt.Tensor):
        x = value.detach()
        if x.layout is not tt.strided:
            yield x.to_dense()
            return
        yield from (x.unsqueeze(0), x.reshape(-1), x.sum(), x.to(tt.int64), x != 0, x.to(tt.float16))
        yield from (x.to(tt.complex64), None, x.to("meta"))
        if x.ndim:
            yield from (tt.cat([x, x], 0), tt.cat([x, x], -1), x.narrow(0, 0, 0))
            yield from (x.narrow(d, 0, max(x.shape[d] - 1, 0)) for d in (0, -1))
        if not x.dtype.is_floating_point:
            yield from (-x.long() - 5, x.long() + 1000, x.to(tt.float64))
    elif isinstance(value, bool):
        yield from (not value, None)
    elif isinstance(value, int):
        yield from NUMBERS
    elif isinstance(value, float):
        yield from (0.0, -1.0, float("nan"), float("inf"), 1e300)
    elif isinstance(value, str):
        yield "nothing"
    elif isinstance(value, (list, tuple)):
        value = list(value)
        yield from ([], value[:-1], value * 2, [*value, *value[-1:]])
        if value and type(value[0]) is int:
            yield from ([size, *value[1:]] for size in SIZES)
            yield from ([*value[:-1], size] for size in SIZES)
    elif isinstance(value, tt.dtype):
        yield tt.int32
    elif value is None:
        yield tt.ones(2, 3, dtype=tt.float64)


def is_raised_on_purpose(error: BaseException) -> bool:
    """Return whether the innermost frame is this package's and its line raises."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "site-packages" not in last.filename and linecache.getline(
        last.filename, last.lineno or 0
    ).strip().startswith("raise")


def faults_of(
    func: Any, args: Sequence[Any], named: dict[str, Any], step: int = 1, first: int = 0
) -> Iterator[str]:
    """Yield what is wrong with the errors of a call's mutations, or of each `step`-th one."""
    for place in (*range(len(args)), *named):
        values = mutations(args[place] if isinstance(place, int) else named[place])
        for value in islice(values, first, None, step):
            changed = [x.detach().clone() if is_strided(x) else x for x in args]
            others = dict(named)
            if isinstance(place, int):
                changed[place] = value
            else:
                others[place] = value
            try:
                func(*changed, **others)
            except TOO_LARGE:
                continue
            except Exception as error:
                if not isinstance(error, ALLOWED) or not is_raised_on_purpose(error):
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    shown = f"{value.dtype}{list(value.shape)}" if isinstance(value, tt.Tensor) else value
                    told = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                    yield f"{func}, argument {place} = {shown}: {told}"


def is_strided(value: Any) -> bool:
    return isinstance(value, tt.Tensor) and value.layout is tt.strided


@pytest.fixture(autouse=True)
def full_tracebacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITEN_FULL_TRACEBACK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_operator_of_gradients_has_a_valid_call() -> None:
    names = {name.split("::")[-1].split(".")[1] for name in valid_calls()}
    assert {name for name in dir(aten) if "_backward" in name} - names == OF_CUDA_ALONE


@pytest.mark.parametrize("part", range(8))
def test_mutated_calls_raise_errors_of_the_package(part: int) -> None:
    calls = valid_calls()
    names = [name for name in sorted(calls) if "_backward" in name]
    faults = [fault for name in names[part::8] for call in calls[name] for fault in faults_of(*call)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("part", range(4))
def test_a_part_of_the_mutations_of_other_operators(part: int) -> None:
    names = [name for name in sorted(valid_calls()) if "_backward" not in name]
    faults = [
        fault
        for number, name in enumerate(names[part::4])
        for call in valid_calls()[name]
        for fault in faults_of(*call, step=3, first=number % 3)
    ]
    assert not faults, "\n".join(faults)


def test_an_inner_error_is_found() -> None:
    def broken(x: tt.Tensor) -> int:
        return x.shape[1]

    assert any("tuple index out of range" in fault for fault in faults_of(broken, [grid(2, 3)], {}))
