"""Operators' costs equal counts made by hand."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
import triten.nn.functional as F


def meta(*shape: int, dtype: Any = tt.float32) -> tt.Tensor:
    return tt.empty(shape, dtype=dtype, device="meta")


SQUARE = meta(4, 4)
ROWS = meta(8, 16)
INDEX = meta(5, dtype=tt.int64)
IMAGES, FILTERS = meta(2, 6, 9, 9), meta(8, 3, 3, 3)  # two groups
PIXELS = 2 * 8 * 7 * 7
HEADS = meta(2, 3, 7, 16)
LOGSUMEXP = 4 * 2 * 3 * 7 + 2 * 8  # a number for each query, and two of the generator's
NONE = (0, 0, 0)

# name: (function, operands, bytes read, bytes written, operations)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int, int]] = {
    "add": (tt.add, (ROWS, ROWS.clone()), 2 * 512, 512, 128),
    "add of itself reads once": (lambda a: a + a, (ROWS,), 512, 512, 128),
    "add of a row": (tt.add, (ROWS, meta(16)), 512 + 64, 512, 128),
    "add of an expanded row": (lambda a, b: a + b.expand(8, 16), (ROWS, meta(16)), 512 + 64, 512, 128),
    "an expanded slice with steps": (
        lambda a: a[:, ::2].unsqueeze(1).expand(8, 5, 8) * 2.0, (ROWS,), 256, 1280, 320,
    ),
    "add with a number": (lambda a: a + 1.0, (ROWS,), 512, 512, 128),
    "add of integers is no floating-point operation": (lambda a: a + 1, (INDEX,), 40, 40, 0),
    "add in place": (lambda a, b: a.add_(b), (ROWS, ROWS.clone()), 2 * 512, 512, 128),
    "add out=": (lambda a, b, c: tt.add(a, b, out=c), (ROWS, ROWS.clone(), ROWS.clone()), 2 * 512, 512, 128),
    "add into itself": (lambda a: tt.add(a, a, out=a), (ROWS,), 512, 512, 128),
    "comparison of floats": (lambda a: a > 0, (ROWS,), 512, 128, 128),
    "half elements": (tt.neg, (meta(10, dtype=tt.float16),), 20, 20, 10),
    "every second column": (lambda a: a[:, ::2] * 2.0, (ROWS,), 256, 256, 64),
    "conversion": (lambda a: a.to(tt.float64), (ROWS,), 512, 1024, 0),
    "where": (tt.where, (meta(8, 16, dtype=tt.bool), ROWS, ROWS.clone()), 128 + 1024, 512, 128),
    "sum": (tt.sum, (ROWS,), 512, 4, 128),
    "mean of rows": (lambda a: a.mean(1), (ROWS,), 512, 32, 128),
    "amax of columns": (lambda a: a.amax(0), (ROWS,), 512, 64, 128),
    "maximum with indices": (lambda a: a.max(1), (ROWS,), 512, 8 * (4 + 8), 128),
    "cumsum": (lambda a: a.cumsum(1), (ROWS,), 512, 512, 128),
    "views": (lambda a: a.t().reshape(16, 2, 4)[3:, 0].unsqueeze(0).expand(5, 13, 4), (ROWS,), *NONE),
    "a reshape that copies": (lambda a: a.t().reshape(128), (ROWS,), 512, 512, 0),
    "empty": (lambda: tt.empty(100), (), *NONE),
    "zeros": (lambda: tt.zeros(100), (), 0, 400, 0),
    "zeros_like reads no element": (tt.zeros_like, (ROWS,), 0, 512, 0),
    "new_full": (lambda a: a.new_full((3,), 2.0), (ROWS,), 0, 12, 0),
    "zero_": (lambda a: a.zero_(), (ROWS,), 0, 512, 0),
    "copy_": (lambda a, b: a.copy_(b), (ROWS, meta(16)), 64, 512, 0),
    "uniform_": (lambda a: a.uniform_(), (ROWS,), 0, 512, 0),
    "clone": (tt.clone, (ROWS,), 512, 512, 0),
    "cat": (lambda a, b: tt.cat((a, b)), (ROWS, meta(2, 16)), 512 + 128, 640, 0),
    "mm": (tt.mm, (meta(4, 5), meta(5, 6)), 4 * (20 + 30), 96, 2 * 4 * 5 * 6),
    "mm of a transpose": (lambda a: a @ a.t(), (meta(4, 5),), 160, 64, 2 * 4 * 4 * 5),
    "addmm": (tt.addmm, (meta(6), meta(4, 5), meta(5, 6)), 4 * (6 + 20 + 30), 96, 240 + 24),
    "addmm with beta=0": (lambda *a: tt.addmm(*a, beta=0), (meta(6), meta(4, 5), meta(5, 6)), 200, 96, 240),
    "bmm": (tt.bmm, (meta(3, 4, 5), meta(3, 5, 6)), 4 * 150, 4 * 72, 3 * 240),
    "mv": (tt.mv, (meta(4, 5), meta(5)), 100, 16, 40),
    "dot": (tt.dot, (meta(5), meta(5)), 40, 4, 10),
    "linear": (F.linear, (meta(2, 3, 5), meta(4, 5), meta(4)), 4 * (30 + 20 + 4), 96, 2 * 6 * 4 * 5 + 24),
    "conv2d of two groups": (
        lambda x, w: F.conv2d(x, w, groups=2), (IMAGES, FILTERS),
        4 * (2 * 6 * 81 + 8 * 27), 4 * PIXELS, 2 * PIXELS * 27,
    ),
    "conv2d with bias, stride, padding": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (meta(1, 3, 9, 9), FILTERS, meta(8)),
        4 * (243 + 216 + 8), 4 * 8 * 25, 2 * 8 * 25 * 27 + 8 * 25,
    ),
    "conv_transpose1d": (
        F.conv_transpose1d, (meta(2, 3, 10), meta(3, 4, 5)), 4 * (60 + 60), 4 * 2 * 4 * 14, 2 * 60 * 20,
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3), (IMAGES,), 4 * 972, 12 * 9 * 12, 9 * 108),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (3, 1)), (IMAGES,), 4 * 972, 4 * 12 * 27, 3 * 324),
    "softmax": (lambda a: F.softmax(a, 1), (ROWS,), 512, 512, 5 * 128),
    "layer_norm": (
        lambda a, w, b: F.layer_norm(a, (16,), w, b), (ROWS, meta(16), meta(16)),
        512 + 128, 512 + 2 * 32, 8 * 128,
    ),
    "layer_norm without weights": (lambda a: F.layer_norm(a, (16,)), (ROWS,), 512, 512 + 2 * 32, 6 * 128),
    "rms_norm": (lambda a, w: F.rms_norm(a, (16,), w), (ROWS, meta(16)), 512 + 64, 512 + 32, 4 * 128),
    "batch_norm in evaluation": (
        F.batch_norm, (IMAGES, meta(6), meta(6)), 4 * (972 + 12), 4 * 972, 2 * 972,
    ),
    "group_norm": (lambda a: F.group_norm(a, 3), (IMAGES,), 4 * 972, 4 * (972 + 12), 6 * 972),
    "attention": (
        F.scaled_dot_product_attention, (HEADS, HEADS.clone(), HEADS.clone()),
        4 * 3 * 672, 4 * 672 + LOGSUMEXP, 4 * 6 * 49 * 16,
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (HEADS, HEADS.clone(), HEADS.clone()), 4 * 3 * 672, 4 * 672 + LOGSUMEXP, 4 * 6 * 28 * 16,
    ),
    "index_select reads what is picked": (
        lambda a, i: a.index_select(0, i), (meta(1000, 16), INDEX), 40 + 320, 320, 0,
    ),
    "gather": (lambda a, i: a.gather(0, i), (meta(1000), INDEX), 40 + 20, 20, 0),
    "a[index]": (lambda a, i: a[i], (meta(1000, 16), INDEX), 40 + 320, 320, 0),
    "embedding": (F.embedding, (INDEX, meta(1000, 16)), 40 + 320, 320, 0),
    "index_add_ touches what is picked": (
        lambda a, i, s: a.index_add_(0, i, s), (meta(1000, 16), INDEX, meta(5, 16)), 320 + 40 + 320, 320, 80,
    ),
    "fft": (tt.fft.fft, (meta(3, 16, dtype=tt.complex64),), 384, 384, 5 * 48 * 4),
    "rfft": (tt.fft.rfft, (meta(3, 16),), 192, 3 * 9 * 8, 5 * 48 * 4 // 2),
    "cholesky": (tt.linalg.cholesky_ex, (meta(2, 6, 6),), 288, 288 + 8, 2 * 72),
    "solve": (tt.linalg.solve, (meta(6, 6), meta(6, 2)), 4 * 48 + 4, 4 * (12 + 36) + 24 + 4, 144 + 144),
    "nothing": (lambda: None, (), *NONE),
    "no elements": (lambda a: a + 1.0, (meta(0, 5),), *NONE),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_costs_what_was_counted_by_hand(name: str) -> None:
    fn, operands, read, written, flops = CASES[name]
    found = tt.perf.cost(fn, *operands)
    counted = (found.bytes_read, found.bytes_written, found.flops)
    assert counted == (read, written, flops), f"{name}: {found}"
    assert found.bytes == read + written


def test_a_backward_pass_counts_too() -> None:
    def step(a: tt.Tensor, b: tt.Tensor) -> None:
        (a @ b).sum().backward()

    a, b = tt.randn(3, 4, requires_grad=True), tt.randn(4, 5, requires_grad=True)
    found = {row.name: row for row in tt.perf.cost(step, a, b).operators}
    assert found["aten::mm"].calls == 3
    assert found["aten::mm"].flops == 3 * 2 * 3 * 4 * 5
    # The incoming gradient is one element, expanded.
    assert found["aten::mm"].bytes_read == 4 * (12 + 20) + (4 + 80) + (48 + 4)
    assert a.grad is None


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("wanted", ["input", "weight", "both"])
def test_gradients_of_a_convolution_take_as_much_each_as_it_does(groups: int, wanted: str) -> None:
    x, w = tt.randn(2, 4, 8, 8), tt.randn(6, 4 // groups, 3, 3)
    x.requires_grad_(wanted != "weight")
    w.requires_grad_(wanted != "input")
    forward = 2 * (2 * 6 * 36) * (4 // groups * 9)
    found = tt.perf.cost(lambda x, w: F.conv2d(x, w, groups=groups).sum().backward(), x, w)
    products = sum(row.flops for row in found.operators if "conv" in row.name)
    assert products == forward * (3 if wanted == "both" else 2)


def test_attention_backward_takes_five_products_to_two() -> None:
    q, k, v = (meta(2, 4, 8, 16).requires_grad_() for _ in range(3))
    found = tt.perf.cost(lambda *a: F.scaled_dot_product_attention(*a).sum().backward(), q, k, v)
    forward, backward = (row.flops for row in found.operators if "attention" in row.name)
    assert forward == 4 * 8 * 64 * 16
    assert 2 * backward == 5 * forward


def test_a_module_is_counted_and_stays_as_it_was() -> None:
    model = tt.nn.Sequential(tt.nn.Linear(16, 32), tt.nn.ReLU(), tt.nn.Linear(32, 10))
    before = [parameter.clone() for parameter in model.parameters()]
    found = tt.perf.cost(model, tt.randn(8, 16))
    assert found.flops == 8 * (2 * 16 * 32 + 32) + 8 * 32 + 8 * (2 * 32 * 10 + 10)
    trained = tt.perf.cost(lambda m, x: m(x).sum().backward(), model, tt.randn(8, 16))
    assert trained.flops > 2 * found.flops
    for parameter, values in zip(model.parameters(), before, strict=True):
        assert parameter.grad is None
        assert parameter.device.type == "cpu"
        assert bool((parameter == values).all())


def test_an_optimizer_reads_gradients_and_writes_parameters() -> None:
    def step(parameters: list[tt.Tensor], grads: list[tt.Tensor], momenta: list[tt.Tensor]) -> None:
        tt.ops.aten._fused_sgd_.default(
            parameters, grads, momenta, weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False,
            maximize=False, is_first_step=False,
        )  # fmt: skip

    found = tt.perf.cost(step, *([meta(10), meta(3)] for _ in range(3)))
    assert (found.bytes_read, found.bytes_written, found.flops) == (3 * 52, 2 * 52, 6 * 13)


def test_a_tensor_from_outside_is_taken_and_not_changed() -> None:
    outside = tt.ones(3)
    found = tt.perf.cost(lambda a: a.add_(outside).mul_(tt.full((3,), 2.0)), a := tt.zeros(3))
    assert (found.bytes_read, found.bytes_written) == (2 * 24, 12 + 24)
    assert a.tolist() == [0, 0, 0]
    tt.perf.cost(lambda: outside.add_(1.0))
    assert outside.tolist() == [1, 1, 1]


def test_a_parameter_from_outside_is_refused() -> None:
    outside = tt.ones(3, requires_grad=True)
    with pytest.raises(
        ValueError, match=r"aten::mul.Tensor got a tensor of size \(3,\) on cpu that requires grad"
    ):
        tt.perf.cost(lambda a: (a * outside).sum().backward(), tt.ones(3))
    assert outside.grad is None
    with tt.no_grad():
        assert tt.perf.cost(lambda a: a * outside, tt.ones(3)).flops == 3


def test_what_depends_on_values_is_refused_as_meta_tensors_do() -> None:
    with pytest.raises(RuntimeError):
        tt.perf.cost(lambda a: a.item(), tt.ones(()))


def test_rows_add_up_and_print() -> None:
    found = tt.perf.cost(lambda a: (a + 1.0) * 2.0 + a, ROWS)
    assert [(row.name, row.calls) for row in found.operators] == [
        ("aten::add.Tensor", 2),
        ("aten::mul.Tensor", 1),
    ]
    assert found.flops == 3 * 128
    assert math.isclose(found.intensity, 3 * 128 / (4 * 512 + 3 * 512))
    assert str(found).splitlines()[-1].split() == ["all", "3", "2,048", "1,536", "384"]
    assert tt.perf.cost(lambda: None).intensity == 0.0


def test_the_import_of_triten_leaves_perf_alone() -> None:
    program = (
        "import sys, triten; assert not [m for m in sys.modules if m.startswith('triten.perf')]; "
        "assert callable(triten.perf.cost); import triten.perf; "
        "assert triten.perf.cost is sys.modules['triten.perf'].cost"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
