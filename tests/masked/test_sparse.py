"""Masked reductions of sparse tensors: the mask selects the elements, whichever ones the input specifies."""

import pytest

import triten as tt

M = tt.masked
inf = float("inf")
ROWS = [[1.0, -2.0, 0.0, 0.0], [3.0, 0.0, -4.0, 0.0], [0.0, 0.0, 5.0, 6.0], [0.0, 0.0, 0.0, 0.0]]
KEPT = [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
LAYOUTS = {"coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr()}
EXPECTED = [
    # Zeros that the mask selects count; a row or column without any element is unspecified.
    (M.sum, [4.0, 0.0, -4.0, 6.0], [1.0, -1.0, 6.0, 0.0], 6.0),
    (M.prod, [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 6.0, 0.0], 0.0),
    (M.amax, [3.0, 0.0, 0.0, 6.0], [1.0, 3.0, 6.0, 0.0], 6.0),
    (M.amin, [1.0, 0.0, -4.0, 0.0], [0.0, -4.0, 6.0, 0.0], -4.0),
    (M.mean, [2.0, 0.0, -2.0, 3.0], [0.5, -0.25, 6.0, 0.0], 6 / 7),
]


def data():
    return tt.tensor(ROWS)


def mask():
    return tt.tensor(KEPT) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of_mask", [*LAYOUTS, "strided"])
@pytest.mark.parametrize(("reduce", "columns", "rows", "whole"), EXPECTED)
def test_reductions(layout, of_mask, reduce, columns, rows, whole):
    x, kept = LAYOUTS[layout](data()), LAYOUTS.get(of_mask, lambda x: x)(mask())
    for dim, expected in ((0, [columns]), (1, [[each] for each in rows]), (None, [[whole]])):
        found = reduce(x, dim, keepdim=True, mask=kept)
        assert found.layout is x.layout
        assert found.to_dense().tolist() == tt.tensor(expected).tolist()


@pytest.mark.parametrize(("reduce", "columns", "rows", "whole"), EXPECTED)
def test_reductions_that_lose_dimensions(reduce, columns, rows, whole):
    x = data().to_sparse()
    assert reduce(x, 0, mask=mask()).to_dense().tolist() == columns
    assert reduce(x, 1, mask=mask()).to_dense().tolist() == rows
    assert reduce(x, mask=mask()).to_dense().tolist() == tt.tensor(whole).item()
    with pytest.raises(RuntimeError, match="CSR tensors with keepdim=False is unsupported"):
        reduce(data().to_sparse_csr(), 0, mask=mask())


def test_dense_dimensions_of_a_hybrid_tensor():
    x = tt.arange(24.0).reshape(2, 3, 4)
    kept = tt.arange(24).reshape(2, 3, 4) % 3 == 0
    for dim in (0, 1, 2, (0, 2), (1, 2)):
        assert M.sum(x.to_sparse(1), dim, mask=kept).to_dense().tolist() == M.sum(x, dim, mask=kept).tolist()
        found = M.amax(x.to_sparse(2), dim, mask=kept).to_dense()
        assert found.tolist() == M.amax(x, dim, mask=kept).tolist()


def test_dtypes_and_empty_selections():
    x = tt.tensor(ROWS, dtype=tt.int32).to_sparse()
    found = M.sum(x, 1, mask=mask())
    assert found.dtype is tt.int64 and found.to_dense().tolist() == [1, -1, 6, 0]
    assert M.amax(x, 1, mask=mask()).dtype is tt.int32
    assert M.amax(x, mask=tt.zeros(4, 4, dtype=tt.bool)).to_dense().item() == -(2**31)
    halves = M.prod(data().half().to_sparse(), 1, mask=mask())
    assert halves.dtype is tt.float16 and halves.to_dense().tolist() == [0, 0, 6, 0]


def test_a_sparse_mask_of_a_strided_tensor():
    for kept in (mask().to_sparse(), mask().to_sparse_csr()):
        assert M.sum(data(), 1, mask=kept).tolist() == [1, -1, 6, 0]
        assert M.amax(data(), 1, mask=kept).tolist() == [1, 3, 6, -inf]


def test_gradients_go_to_selected_elements():
    x = data().to_sparse().requires_grad_()
    M.sum(x, 1, mask=mask()).to_dense().sum().backward()
    assert (x.grad.to_dense() * (data() != 0)).tolist() == (mask() & (data() != 0)).float().tolist()


def test_refusals():
    x = data().to_sparse()
    for reduce in (M.prod, M.amax, M.amin, M.mean):
        with pytest.raises(ValueError, match="expects explicit mask for sparse_coo tensor input"):
            reduce(x, 0)
    for call in (
        lambda: M.softmax(x, 1),
        lambda: M.argmax(x, 1),
        lambda: M.norm(x, 2.0, 1),
        lambda: M.var(x, 1),
    ):
        with pytest.raises(
            ValueError, match=r"masked .* expects strided tensor \(got triten.sparse_coo tensor\)"
        ):
            call()


def test_private_names():
    x, kept = data(), mask()
    assert M._output_mask(M.sum, x, 1, mask=kept).tolist() == [True, True, True, False]
    assert M._output_mask(M.norm, x, 2.0, 0, keepdim=True, mask=kept).tolist() == [[True, True, True, True]]
    assert M._output_mask(M.softmax, x, 1, mask=kept[0]).tolist() == [KEPT[0]] * 4
    filled = M._where(kept, x, tt.tensor(9.0))
    assert filled[0].tolist() == [1, 9, 0, 9]
    assert M._combine_input_and_mask(M.amin, x, kept)[3].tolist() == [inf] * 4
    with pytest.raises(ValueError, match="requires explicit mask"):
        M._input_mask(x)
