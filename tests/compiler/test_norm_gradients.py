"""Gradients of layer_norm and rms_norm in row kernels fuse with adjacent steps, bitwise identical to eager."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler import norm_gradients
from triten.compiler.schedule import RowsKernel
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.test_loops import needs_llvm
from triten.tests.compiler.test_row_loops import runs_as

F = tt.nn.functional
Function = Callable[..., tt.Tensor]


def residual(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    h = x + r
    return F.relu(F.layer_norm(h, w.shape, w, b)) * 2 + h


def masked(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.layer_norm(x * (r > 0) * 1.25, w.shape, w, b) * r.detach()


def gated(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.silu(F.rms_norm(x + r, w.shape, w)) + x


def twice(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.layer_norm(F.rms_norm(x + r, w.shape, w) + r, w.shape, w, b)


def without_weights(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.layer_norm(x * 2, w.shape) + F.rms_norm(r, w.shape)


def in_float32(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.layer_norm((x + r).float(), w.shape, w.float(), b.float()).to(x.dtype) * 2


FUNCTIONS: dict[str, Function] = {
    "residual": residual,
    "masked": masked,
    "gated": gated,
    "twice": twice,
    "without weights": without_weights,
    "in float32": in_float32,
}


def operands(shape: tuple[int, ...], dtype: Any = tt.float32, wanted: str = "xrwb") -> list[tt.Tensor]:
    sizes = (shape, shape, shape[-1:], shape[-1:])
    return [
        drawn(*each, seed=i, dtype=dtype, grad=name in wanted)
        for i, (each, name) in enumerate(zip(sizes, "xrwb", strict=True))
    ]


def gradients(function: Function, args: list[tt.Tensor]) -> list[tt.Tensor]:
    made = function(*args)
    return list(
        tt.autograd.grad(made, [a for a in args if a.requires_grad], made.detach(), allow_unused=True)
    )


def backward_kernels(function: Function, args: list[tt.Tensor]) -> list[Any]:
    """Return the kernels of backward that compute the gradient of a norm."""
    schedules = tt.compiler.explain(function, *args).schedules
    found = [kernel for schedule in schedules for kernel in schedule.kernels]
    return [kernel for kernel in found if "norm_backward" in str(kernel)]


@needs_llvm
@pytest.mark.parametrize("shape", [(64, 130), (3, 11, 260), (5, 9000), (4100, 2), (70, 2050)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_have_the_bits_of_eager_calls(name: str, shape: tuple[int, ...]) -> None:
    args = operands(shape)
    function = FUNCTIONS[name]
    same(gradients(tt.compile(function, fullgraph=True), args), gradients(function, args))
    if shape[-1] > 32:  # Forward sums shorter rows by matmuls.
        assert all("one compiled loop" in how for how in runs_as(function, *args))
    assert all(isinstance(kernel, RowsKernel) for kernel in backward_kernels(function, args))


@needs_llvm
@pytest.mark.parametrize("wanted", ["x", "w", "b", "xw", "rb", "wb"])
def test_gradients_that_are_asked_for(wanted: str) -> None:
    args = operands((40, 300), wanted=wanted)
    for function in (residual, gated):
        if function is gated and wanted == "b":
            continue
        same(gradients(tt.compile(function, fullgraph=True), args), gradients(function, args))
        assert backward_kernels(function, args)


@needs_llvm
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["gated", "in float32"])
def test_narrow_floats(name: str, dtype: Any) -> None:
    args = operands((60, 200), dtype)
    found = gradients(tt.compile(FUNCTIONS[name], fullgraph=True), args)
    for a, b in zip(found, gradients(FUNCTIONS[name], args), strict=True):
        if b is not None:
            tt.testing.assert_close(a, b)
    assert all("one compiled loop" in how for how in runs_as(FUNCTIONS[name], *args))


@needs_llvm
def test_neighbours_and_sums_are_in_one_kernel() -> None:
    args = operands((40, 300))
    (kernel,) = backward_kernels(residual, args)
    assert kernel.name == "mul_threshold_backward_native_layer_norm_backward_add"
    assert len(kernel.column_sums) == 2
    assert runs_as(residual, *args)[-1] == "one compiled loop over rows, which also adds them up"


@needs_llvm
@pytest.mark.parametrize("shape", [(96, 96), (128, 64)], ids=str)
def test_what_reads_a_sum_over_rows_is_another_kernel(shape: tuple[int, int]) -> None:
    """Separate the consumer of a sum over rows, also if the rows are as many as a row's elements."""

    def f(g: tt.Tensor, x: tt.Tensor, m: tt.Tensor, r: tt.Tensor, w: tt.Tensor) -> Any:
        made = tt.ops.aten.native_layer_norm_backward(g * 2, x, w.shape, m, r, w, w, [True, True, True])
        to, to_weight, to_bias = made
        return to + 1, to_weight * 2 - to_bias, to * 3

    g, x, w = drawn(*shape), drawn(*shape, seed=1), drawn(shape[1], seed=2)
    _, m, r = tt.native_layer_norm(x, w.shape, w, None, 1e-5)
    same(tt.compile(f, fullgraph=True)(g, x, m, r, w), f(g, x, m, r, w))
    (schedule,) = tt.compiler.explain(f, g, x, m, r, w).schedules
    assert [kernel.name for kernel in schedule.kernels] == [
        "mul_native_layer_norm_backward_add_mul",
        "mul_sub",
    ]


@needs_llvm
def test_draws_beside_gradients() -> None:
    def f(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        return F.layer_norm(F.dropout(x, 0.3) + r, w.shape, w, b)

    args = operands((64, 200))
    tt.manual_seed(1)
    expected = gradients(f, args)
    tt.manual_seed(1)
    same(gradients(tt.compile(f, fullgraph=True), args), expected)


@needs_llvm
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", ["residual", "gated", "twice"])
def test_threads_share_rows(name: str, threads: int) -> None:
    before, args = tt.get_num_threads(), operands((700, 120))
    expected = gradients(FUNCTIONS[name], args)
    try:
        tt.set_num_threads(threads)
        same(gradients(tt.compile(FUNCTIONS[name]), args), expected)
    finally:
        tt.set_num_threads(before)


@needs_llvm
def test_rows_of_several_strides() -> None:
    """Compare sums over strided rows, which have another order and the same accuracy."""

    def f(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        return F.layer_norm((x * 2 + r[:1]).contiguous(), w.shape, w, b) * r[:, :1]

    args = operands((20, 30, 100))
    found, wanted = gradients(tt.compile(f), args), gradients(f, args)
    for a, b in zip(found, wanted, strict=True):
        tt.testing.assert_close(a, b)


@needs_llvm
def test_a_step_that_no_loop_has() -> None:
    def f(x: tt.Tensor, r: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        return tt.remainder(F.layer_norm(x * r, w.shape, w, b), 2.0) * r

    args = operands((40, 300))
    same(gradients(tt.compile(f, fullgraph=True), args), gradients(f, args))


@needs_llvm
def test_special_numbers() -> None:
    args = operands((64, 200), wanted="")
    for i, number in enumerate((float("inf"), float("-inf"), float("nan"), -0.0, 1e38, 1e-40)):
        args[0][3 * i, 5], args[1][3 * i + 1] = number, number
    for a in args:
        a.requires_grad_()
    same(gradients(tt.compile(residual, fullgraph=True), args), gradients(residual, args))


def test_few_elements_are_eager_calls() -> None:
    args = operands((norm_gradients.FEWEST // 128 - 1, 128))
    assert not backward_kernels(residual, args)
    same(gradients(tt.compile(residual, fullgraph=True), args), gradients(residual, args))


def test_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("norm_gradients", "host.pointwise", "host.rows", "host.single_steps"):
        monkeypatch.setattr(f"triten.compiler.{module}.is_possible", lambda: False)
    args = operands((64, 200))
    assert not backward_kernels(residual, args)
    same(gradients(tt.compile(residual, fullgraph=True), args), gradients(residual, args))
