"""Arguments at the edge of what operators take, and which of several faults is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise import vector_passes

F = tt.nn.functional
NAN = float("nan")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, one: x.amax(one),
        lambda x, one: x.sum(one),
        lambda x, one: x.permute(one, 0).narrow(0, 0, one),
        lambda x, one: x.view(-1, one + 1, one),
        lambda x, one: x.rot90(1, (tt.tensor(False), one)),
        lambda x, one: F.pad(x, (0, one)),
        lambda x, one: tt.ones((one, 2)) + tt.ones(one, 2),
        lambda x, one: tt.fft.fft2(x, dim=(one, 0)),
    ],
)
def test_a_tensor_of_one_integer_is_an_element_of_sizes_and_dims(call: Callable[..., Any]) -> None:
    x = tt.arange(6.0).view(2, 3)[:, :2].contiguous()
    assert tt.equal(call(x, tt.tensor([1])), call(x, 1))


@pytest.mark.parametrize("wrong", [tt.tensor([1, 1]), tt.tensor([1.0]), tt.tensor([])], ids=str)
def test_other_tensors_are_not(wrong: tt.Tensor) -> None:
    with pytest.raises(TypeError, match=r"tuple of ints|invalid combination"):
        tt.ones(2, 2).flip((0, wrong))


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "alpha_dropout", "feature_alpha_dropout"])
def test_a_probability_of_nan_is_the_operator_s_to_refuse(name: str) -> None:
    function = getattr(F, name)
    with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got nan"):
        function(tt.ones(3, 2, 2), NAN)
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            function(tt.ones(3, 2, 2), p)


def test_distances_of_order_0_keep_nan() -> None:
    x, y = tt.tensor([[NAN, 1.0, 2.0]]), tt.tensor([[1.0, 1.0, 2.0], [0.0, 1.5, 2.0]])
    assert tt.cdist(x, y, 0.0).isnan().all()
    assert F.pdist(tt.cat((x, y)), 0.0).isnan().tolist() == [True, True, False]
    assert F.pdist(y, 0.0).tolist() == [2.0]
    large = tt.cat((y, x)).repeat(1, 3000)
    assert tt.cdist(large, large, 0.0).isnan().sum() == 5


def test_a_histogram_of_numbers_so_far_that_one_more_is_none() -> None:
    for number in (2.0**31, 1e30):
        assert tt.histc(tt.tensor([number] * 3), bins=3).tolist() == [0, 3, 0]
    assert tt.histc(tt.tensor([2.0] * 3), bins=3).tolist() == [0, 3, 0]


@pytest.mark.parametrize(("dtype", "most"), [(tt.float32, 3e38), (tt.float64, 1.7e308)])
def test_a_histogram_over_a_range_that_overflows(device: str, dtype: tt.dtype, most: float) -> None:
    x = tt.tensor([-most, -most / 2, most / 3, most], dtype=dtype, device=device)
    assert tt.histc(x, bins=4).tolist() == [1, 1, 1, 1]
    assert tt.histc(x.abs(), bins=4, min=0, max=most).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("sizes", [(0,), (2, 0)])
def test_weights_without_elements_have_no_sum(sizes: tuple[int, ...]) -> None:
    for replacement in (True, False):
        with pytest.raises(RuntimeError):
            tt.multinomial(tt.ones(sizes), 3, replacement)


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular"])
@pytest.mark.parametrize("sizes", [(0, 1, 3), (0, 2, 3, 3)])
def test_gradients_of_padding_an_empty_batch_are_empty(mode: str, sizes: tuple[int, ...]) -> None:
    x = tt.ones(sizes, requires_grad=True)
    F.pad(x, (1, 1) * (len(sizes) - 2), mode).sum().backward()
    assert x.grad.shape == sizes


def test_vectors_of_two_lengths_have_no_product() -> None:
    with pytest.raises(RuntimeError, match=r"inconsistent tensor size, expected tensor \[2\] and src \[1\]"):
        tt.linalg.vecdot(tt.ones(2), tt.ones(1))
    assert tt.linalg.vecdot(tt.ones(3, 2), tt.ones(1)).tolist() == [2, 2, 2]


def test_losses_of_weights_and_targets_of_other_kinds() -> None:
    weight = tt.ones(2, dtype=tt.float64)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.multi_margin_loss(tt.ones(1, 2), tt.tensor([1]), weight=weight)
    # The classes are the logits' last dimension, wherever that stands in the loss.
    loss = F.multilabel_soft_margin_loss(tt.ones(1), tt.ones(2, 1, 1, 1))
    tt.testing.assert_close(loss, 2 * tt.log1p(tt.exp(tt.tensor(-1.0))))


def test_windows_over_what_has_no_dimensions() -> None:
    with pytest.raises(IndexError, match="Dimension"):
        F.fractional_max_pool3d(tt.ones(()), (2, 3, 2), output_ratio=(0.5, 0.5, 0.5))


WINDOWS, INDEX = tt.signal.windows, tt.tensor([1])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tt.eye(2**40, 2**40, requires_grad=[]), TypeError, "'requires_grad' must be bool, not list"),
        (
            lambda: tt.ones(2, device="no", requires_grad=3),
            TypeError,
            "'requires_grad' must be bool, not int",
        ),
        (lambda: tt.tensor(["a"], requires_grad=3), TypeError, "'requires_grad' must be bool, not int"),
        (lambda: tt.ones(1).new_tensor(1, requires_grad=3), TypeError, "new_tensor.*must be bool, not int"),
        (lambda: tt.ones(1, requires_grad=np.True_), TypeError, "must be bool, not numpy.bool"),
        (lambda: tt.tensor(1.0, requires_grad=None), TypeError, "must be bool, not NoneType"),
        (lambda: tt.tensor([1.0], pin_memory=3), TypeError, "'pin_memory' must be bool, not int"),
        (lambda: tt.asarray([1.0], copy=3), TypeError, "'copy' must be bool, not int"),
        (lambda: WINDOWS.hann(1, requires_grad=3), TypeError, "'requires_grad' must be bool, not int"),
        (lambda: WINDOWS.blackman(5.0), TypeError, "linspace"),
        (lambda: WINDOWS.hann(tt.tensor(2.0)), TypeError, "linspace"),
        (lambda: WINDOWS.hann(2**64), ValueError, "Overflow"),
        (lambda: WINDOWS.kaiser(0, dtype=tt.uint8, beta=()), ValueError, "expects float32 or float64"),
        (lambda: WINDOWS.gaussian(5, std=tt.ones(1)), RuntimeError, "0-dimensional"),
        (lambda: WINDOWS.general_cosine({}, a=[]), TypeError, "not supported between"),
        (lambda: WINDOWS.general_cosine(3, dtype=tt.uint8, a=1), ValueError, "float32 or float64"),
        (lambda: WINDOWS.general_cosine(5, a=[1, tt.ones(2)]), ValueError, "only one element tensors"),
        (lambda: WINDOWS.general_cosine(5, a=[1j]), TypeError, "real number"),
        (lambda: tt.ones(2, 2).index_fill(1, INDEX.view(1, 1), 3), RuntimeError, "vector"),
        (lambda: tt.ones(2).index_add(0, tt.ones(1, 1), tt.ones(1)), IndexError, "supposed to be a vector"),
        (
            lambda: tt.ones(2).index_copy(0, tt.ones(1), tt.ones(1, 1)),
            IndexError,
            "dimensionality must match",
        ),
        (lambda: tt.ones(2).index_select(1, tt.ones(1, 1)), IndexError, "Dimension out of range"),
        (lambda: tt.ones(2, 2).scatter(0, INDEX.view(1, 1), tt.ones(1)), IndexError, "src has fewer"),
        (lambda: tt.ones(2, 2).scatter(1, INDEX.view(1, 1), tt.ones(())), RuntimeError, "same number"),
        (
            lambda: tt.ones(2, 2).scatter(0, tt.zeros(1, 3, dtype=tt.int64), tt.ones(1)),
            RuntimeError,
            "same number",
        ),
        (lambda: tt.tensordot(tt.ones(2), tt.ones(2), dims=(0, 0)), TypeError, "tuple of ints, not int"),
        (
            lambda: tt.tensordot(tt.ones(2), tt.ones(2), dims=np.int64(1)),
            RuntimeError,
            "expects dims to be int",
        ),
        (lambda: tt.tensordot(tt.ones(3), tt.ones(1, 2), ([0, 1], [1, 0])), RuntimeError, "contracted"),
        (lambda: tt.tensordot(tt.ones(2), tt.ones(()), ([0], [-1])), IndexError, "Dimension specified as -1"),
        (lambda: tt.triu_indices(3, 2**63), ValueError, "Overflow"),
        (lambda: tt.tril_indices(2**62, 21), RuntimeError, "overflow"),
        (lambda: tt.triu_indices(3, 2, layout=3), TypeError, "'layout'.* must be triten.layout, not int"),
        (lambda: tt.unravel_index(INDEX, (0, 4)), RuntimeError, "ZeroDivision"),
        (lambda: tt.unravel_index(INDEX, (4, 2**40, 2**40)), ValueError, "Overflow"),
        (lambda: tt.unravel_index(INDEX, INDEX), TypeError, "'shape' to be int or sequence"),
        (lambda: tt.arange(1e300), RuntimeError, "overflow"),
        (lambda: tt.arange(0, 1, 1e-320), RuntimeError, "overflow"),
        (
            lambda: tt.hstack([tt.ones(1, 1), tt.ones(0, 1)], out=tt.ones(1, dtype=tt.int64)),
            TypeError,
            "can't be cast",
        ),
        (
            lambda: tt.linspace(0, 1, 2, dtype="float32", out=tt.ones(2)),
            TypeError,
            "'dtype' must be triten.dtype",
        ),
        (
            lambda: tt.eye(2, pin_memory=2.5, out=tt.ones(2)),
            TypeError,
            "'pin_memory' must be bool, not float",
        ),
        (lambda: tt.broadcast_shapes((), "a"), TypeError, "not supported between"),
        (lambda: tt.broadcast_shapes((5, 10), (-3, 10)), RuntimeError, "length -3 at -2"),
        (lambda: tt.broadcast_shapes((5, 10), (1, "a")), RuntimeError, "length a at -1"),
        (lambda: tt.broadcast_shapes((1, 10), (-3, 10)), ValueError, "negative length"),
    ],
)
def test_what_is_wrong_is_told_in_order(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_an_output_is_not_written_before_requires_grad_is_refused() -> None:
    for factory in (tt.zeros, tt.rand):
        out = tt.full((2,), 5.0)
        with pytest.raises(TypeError, match="requires_grad"):
            factory((2,), out=out, requires_grad=[])
        assert out.tolist() == [5, 5]


@pytest.mark.parametrize("length", [1, 1.0, True, np.True_, tt.tensor(1.0)], ids=repr)
def test_a_window_of_one_element_is_one(length: Any) -> None:
    for window in (WINDOWS.hann, WINDOWS.kaiser, WINDOWS.bartlett, WINDOWS.nuttall):
        assert window(length).tolist() == [1]
    assert WINDOWS.general_cosine(1, sym=tt.ones(2), a=None).tolist() == [1]


def test_what_is_empty_is_not_looked_at() -> None:
    assert tt.take_along_dim(tt.ones(2, 2), tt.ones(0, 1)).shape == (0,)
    assert tt.broadcast_shapes(None, (2, 1), 3) == (2, 3)
    assert tt.cat([tt.ones(0), tt.ones(0, dtype=tt.int64)], 7).shape == (0,)
    nothing, zeros = tt.ones(0, 1, dtype=tt.int64), tt.zeros(3, dtype=tt.int64)
    for divide in (tt.floor_divide, tt.remainder, tt.fmod):
        assert divide(nothing, zeros).shape == (0, 3)
        assert divide(nothing, 0).shape == (0, 1)
    assert tt.roll(tt.ones(0, 2), 1, 7).shape == tt.ones(0, 2).repeat(-3, 1).shape == (0, 2)
    assert tt.split(tt.ones(0), ()) == ()
    assert tt.tile(tt.ones(0), (1, 3, 1 << 62)).shape == (1, 3, 0)
    assert tt.trapezoid(tt.ones(2, 0), tt.ones(3)).tolist() == [0, 0]
    assert [x.shape for x in tt.unravel_index(nothing, (2, 0))] == [(0, 1)] * 2


def test_triangles_take_the_memory_of_their_entries() -> None:
    assert tt.triu_indices(2**62, 2).tolist() == [[0, 0, 1], [0, 1, 1]]
    assert tt.tril_indices(2, 2**62).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert tt.tril_indices(2, 3, 2**62).shape == tt.triu_indices(2, 3, -(2**62)).shape == (2, 6)
    assert tt.tril_indices(2, 3, -(2**62)).shape == tt.triu_indices(2**62, 0).shape == (2, 0)


def test_outputs_take_what_tensors_bound() -> None:
    out = tt.empty(3)
    assert tt.linspace(tt.tensor(1), 3, 3, out=out) is out
    assert out.tolist() == [1, 2, 3]
    assert tt.logspace(0, tt.tensor(2.0), 3, 2.0, out=out).tolist() == [1, 2, 4]
    assert tt.equal(tt.fft.fftfreq(3, out=out), tt.fft.fftfreq(3))
    assert tt.fft.rfftfreq(4, 0.5, out=tt.empty(3, dtype=tt.float64)).tolist() == [0, 0.5, 1]
    assert tt.normal(INDEX, tt.zeros(1), out=tt.empty(0)).tolist() == [1]
    assert tt.normal(tt.ones(1), tt.ones(1, dtype=tt.float64)).dtype is tt.float32


@pytest.mark.parametrize("order", [1, 2])
def test_differences_of_integers_wrap_around(order: int) -> None:
    x = [-5, 127, -128, 3]
    ends = {1: [-124, -125], 2: [69.5, 68]}[order]
    for spacing in (1, 2.0):
        got = tt.gradient(tt.tensor(x, dtype=tt.int8), spacing=spacing, edge_order=order)[0] * spacing
        assert got.tolist() == [ends[0], -61.5, -62, ends[1]]


def test_methods_gather_integers_that_are_all_they_take() -> None:
    assert [x.tolist() for x in tt.arange(4).hsplit(1, 3)] == [[0], [1, 2], [3]]
    assert [x.shape for x in tt.ones(4, 2).vsplit(1, 3)] == [(1, 2), (2, 2), (1, 2)]
    with pytest.raises(TypeError):
        tt.hsplit(tt.ones(4), 1, 3)


def test_products_of_vectors_write_to_memory_of_their_own() -> None:
    x = tt.arange(6.0).view(2, 3)
    for product in (tt.cross, tt.linalg.cross):
        with pytest.raises(RuntimeError, match="single memory location"):
            product(x, tt.ones(2, 3), dim=1, out=x)
        assert product(x, tt.ones(2, 3), dim=1, out=tt.empty(0)).shape == (2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_outputs_that_ask_for_gradients_are_resized_by_what_has_none() -> None:
    out = tt.ones(0, requires_grad=True)
    assert tt.eq(tt.ones(2), 1, out=out) is out
    assert out.tolist() == [1, 1]
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="cannot resize"):
        out.resize_(3)


def test_directions_of_subnormal_numbers() -> None:
    for dtype, least in ((tt.complex64, 1e-45), (tt.complex128, 5e-324)):
        x = tt.tensor([complex(0, least), complex(-least, 0), 0, 3 + 4j], dtype=dtype)
        tt.testing.assert_close(x.sgn(), tt.tensor([1j, -1, 0, 0.6 + 0.8j], dtype=dtype))


@pytest.mark.parametrize("name", ["add", "atan2", "mul", "pow", "exp", "sqrt", "square"])
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=str)
def test_outputs_of_wider_dtypes_take_results_that_are_rounded_as_without(
    dtype: tt.dtype, name: str, device: str
) -> None:
    x = tt.tensor([0.94, 1.43, 2.25, 0.95]).to(device, dtype)
    given = (x, x) if name in ("add", "atan2", "mul", "pow") else (x,)
    expected = getattr(tt, name)(*given)
    for wide in (tt.float32, tt.float64, tt.complex64):
        out = tt.empty(0, dtype=wide, device=device)
        getattr(tt, name)(*given, out=out)
        assert out.dtype is wide and out.tolist() == expected.to(wide).tolist()


@pytest.mark.parametrize("name", ["hypot", "fmod", "remainder", "logaddexp", "logaddexp2"])
def test_passes_over_vectors_take_none(name: str) -> None:
    none = np.zeros((0, 4), np.float32)
    assert getattr(vector_passes, name)(none, none).shape == (0, 4)
