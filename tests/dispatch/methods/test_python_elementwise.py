"""`apply_`, `map_` and `map2_`: values of every layout and dtype, and the errors."""

import pytest

import triten as tt


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.int8, tt.bool, tt.complex64])
def test_each_element_is_replaced_in_place(dtype: tt.dtype) -> None:
    x = tt.arange(6).view(2, 3).to(dtype).t()
    given = x.tolist()
    assert x.apply_(lambda value: value * 2) is x
    assert x.tolist() == tt.tensor([[v * 2 for v in row] for row in given]).to(dtype).tolist()
    assert x.stride() == (1, 3)


def test_other_operands_are_expanded() -> None:
    x = tt.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert x.map_(tt.tensor([3.0, 4.0]), max).tolist() == [[3.0, 5.0], [7.0, 4.0]]
    assert x.map2_(tt.tensor(2.0), tt.tensor([[1.0], [0.0]]), lambda a, b, c: a * b + c).tolist() == [
        [7.0, 11.0],
        [14.0, 8.0],
    ]
    assert tt.zeros(0, 2).apply_(abs).shape == (0, 2)
    assert tt.tensor([3, -3]).apply_(lambda value: value / 2).tolist() == [1, -1]
    assert tt.ones(2, device="meta").apply_(abs).device.type == "meta"


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: tt.ones(2).apply_(str)),
        (TypeError, lambda: tt.ones(2).apply_(3)),
        (TypeError, lambda: tt.ones(2).map_(3, max)),
        (TypeError, lambda: tt.ones(2).map_(tt.ones(2).double(), max)),
        (RuntimeError, lambda: tt.ones(2).map_(tt.ones(3), max)),
        (RuntimeError, lambda: tt.ones(2).map_(tt.ones(2, requires_grad=True), max)),
        (RuntimeError, lambda: tt.ones(2, requires_grad=True).apply_(abs)),
        (TypeError, lambda: tt.ones(2, device="cuda").apply_(abs)),
    ],
)
def test_refusals(error: type[Exception], call) -> None:
    with pytest.raises(error):
        call()


def test_a_failing_function_leaves_the_tensor_as_it_was() -> None:
    x = tt.tensor([1.0, 0.0])
    with pytest.raises(ZeroDivisionError):
        x.apply_(lambda value: 1 / value)
    assert x.tolist() == [1.0, 0.0] and x._version == 0
