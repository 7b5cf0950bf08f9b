"""Structured kernels: one meta and one kernel for the functional, in-place and out= forms, and for Meta tensors."""

import pytest

import triten as tt


def test_the_forms_agree_and_write_where_they_say() -> None:
    a, b = tt.tensor([[1.0, 2.0], [3.0, 4.0]]), tt.tensor([10.0, 20.0])
    expected = [[11.0, 22.0], [13.0, 24.0]]
    assert tt.add(a, b).tolist() == expected
    out = tt.empty(0)
    assert tt.add(a, b, out=out) is out
    assert out.tolist() == expected
    assert a.add_(b) is a
    assert a.tolist() == expected


def test_an_output_of_other_strides_is_filled_through_a_proxy() -> None:
    storage = tt.zeros(2, 4)
    out = storage[:, ::2]
    tt.mm(tt.ones(2, 2), tt.ones(2, 2), out=out)
    assert storage.tolist() == [[2.0, 0.0, 2.0, 0.0]] * 2


def test_meta_tensors_get_shape_dtype_and_strides() -> None:
    a = tt.empty(3, 4, device="meta").t()
    real = tt.empty(3, 4).t()
    for f in (
        lambda x: x + 1,
        lambda x: x.sum(0),
        lambda x: x.softmax(1),
        lambda x: x @ x.t(),
        tt.zeros_like,
    ):
        meta, value = f(a), f(real)
        assert (meta.shape, meta.stride(), meta.dtype) == (value.shape, value.stride(), value.dtype)


def test_operands_on_several_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        tt.ones(2) + tt.ones(2, device="cuda")


def test_bad_outputs_are_refused_before_anything_is_written() -> None:
    out = tt.zeros(2, dtype=tt.int64)
    with pytest.raises(RuntimeError, match="result type"):
        tt.add(tt.ones(2), tt.ones(2), out=out)
    assert out.tolist() == [0, 0]
    expanded = tt.zeros(1).expand(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        expanded.add_(1)
