"""Masked tensors whose data and mask are sparse: conversions, values beside those of the dense form, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.masked import MaskedTensor, masked_tensor

DATA = tt.tensor([[0.1, 0.2, 0.0], [0.3, -0.4, 0.5]])
MASK = tt.tensor([[True, False, True], [True, True, False]])
LAYOUTS = ["to_sparse_coo", "to_sparse_csr"]


def made(layout: str, **named: Any) -> MaskedTensor:
    mask = getattr(MASK, layout)()
    return masked_tensor(DATA.sparse_mask(mask), mask, **named)


def shown(x: MaskedTensor) -> list[Any]:
    return x.to_tensor(9).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions_keep_elements_and_mask(layout: str) -> None:
    dense = masked_tensor(DATA, MASK)
    sparse = getattr(dense, layout)()
    assert sparse.layout is getattr(MASK, layout)().layout
    assert shown(sparse) == shown(dense)
    assert sparse.get_data().layout is sparse.get_mask().layout is sparse.layout
    back = sparse.to_dense()
    assert back.layout is tt.strided
    assert back.get_mask().tolist() == MASK.tolist()
    assert repr(sparse) == repr(dense)
    assert getattr(sparse, layout)() is sparse
    assert dense.to_dense() is dense


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amin", "amax", "argmin", "argmax", "norm"])
def test_reductions_equal_those_of_the_dense_form(layout: str, name: str) -> None:
    for arguments in ((), (1,)) if name != "norm" else ((),):
        expected = getattr(masked_tensor(DATA, MASK), name)(*arguments)
        result = getattr(made(layout), name)(*arguments)
        assert result.layout is tt.strided
        assert shown(result) == pytest.approx(shown(expected))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "call",
    [tt.cos, tt.neg, lambda x: x + x, lambda x: x * x.exp(), lambda x: 2 - x],
    ids=["cos", "neg", "add", "mul", "rsub"],
)
def test_pointwise_operators_compute_specified_elements(layout: str, call: Callable[[Any], Any]) -> None:
    result = call(made(layout))
    assert result.layout is made(layout).layout
    for row, expected in zip(shown(result), shown(call(masked_tensor(DATA, MASK))), strict=True):
        assert row == pytest.approx(expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_operator_in_place_writes_to_the_values(layout: str) -> None:
    x = made(layout)
    assert x.neg_() is x
    assert shown(x) == [[pytest.approx(-0.1), 9, 0], [pytest.approx(-0.3), pytest.approx(0.4), 9]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_have_the_mask_and_the_layout_of_the_leaf(layout: str) -> None:
    x = masked_tensor(DATA, MASK, requires_grad=True)
    (getattr(x, layout)().to_dense() * 3).sum().backward()
    assert shown(x.grad) == [[3, 9, 3], [3, 3, 9]]
    y = made(layout, requires_grad=True)
    (y * y).sum().backward()
    assert y.grad.layout is y.layout
    for row, expected in zip(shown(y.grad), [[0.2, 9, 0], [0.6, -0.8, 9]], strict=True):
        assert row == pytest.approx(expected)


def test_refusals() -> None:
    coo, csr = MASK.to_sparse_coo().coalesce(), MASK.to_sparse_csr()
    with pytest.raises(TypeError, match=r"data layout of .*sparse_csc is not supported"):
        masked_tensor(DATA.to_sparse_csc(), MASK.to_sparse_csc())
    with pytest.raises(TypeError, match="data and mask must have the same layout"):
        masked_tensor(DATA, coo)
    with pytest.raises(ValueError, match="both sparse COO tensors but do not have the same indices"):
        masked_tensor(DATA.flip(1).sparse_mask(MASK.flip(1).to_sparse_coo()), coo)
    with pytest.raises(ValueError, match="both sparse CSR tensors but do not share either crow or col"):
        masked_tensor(DATA.flip(1).sparse_mask(MASK.flip(1).to_sparse_csr()), csr)
    with pytest.raises(TypeError, match="a sparse MaskedTensor needs MaskedTensors or numbers"):
        tt.add(made("to_sparse_coo"), DATA)
    with pytest.raises(ValueError, match="Input masks must match"):
        made("to_sparse_coo") + made("to_sparse_csr")
