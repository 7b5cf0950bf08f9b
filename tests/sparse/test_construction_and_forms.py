"""Sparse tensors from sizes and types, of empty matrices and diagonals, as parameters, outputs and gradients."""

import pytest

import triten as tt

D = tt.tensor([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 0], [0, 5, 0, 6]])
LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)),
}


@pytest.mark.parametrize("rows", [(4,), (2, 4)], ids=str)
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_a_sparse_weight(make, rows):
    linear = tt.nn.Linear(4, 4)
    linear.weight = tt.nn.Parameter(make(D))
    assert linear.weight.layout is make(D).layout and linear.weight.requires_grad
    with tt.no_grad():
        tt.testing.assert_close(linear(tt.ones(rows)), tt.ones(rows) @ D.t() + linear.bias)


@pytest.mark.parametrize("layout", [tt.sparse_bsr, tt.sparse_bsc], ids=str)
@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 0), (2, 0, 4), (4, 0, 3)], ids=str)
def test_empty_matrices_in_blocks(shape, layout):
    dense_dim = 1 if shape[-1] == 3 else 0
    made = tt.empty(shape).to_sparse(layout=layout, blocksize=(2, 2), dense_dim=dense_dim)
    assert made.shape == shape and made.layout is layout and made.values().numel() == 0


def test_sizes_alone():
    made = tt.sparse_coo_tensor(size=(2, 3), dtype=tt.int64)
    assert (made.shape, made.dtype, made._nnz()) == ((2, 3), tt.int64, 0)
    assert made.t_() is made and made.shape == (3, 2)
    assert D.to_sparse().transpose_(0, 1).to_dense().equal(D.t()) and D.to_sparse().unsqueeze_(0).ndim == 3
    one = tt.sparse_coo_tensor(tt.tensor([[0]]), tt.tensor([1.0]), (2,))
    assert one.resize_as_(tt.sparse_coo_tensor(size=(3,))).to_dense().tolist() == [1, 0, 0]
    with pytest.raises(TypeError, match="expected indices and values, or a size"):
        tt.sparse_coo_tensor()


def test_sparse_types():
    x = tt.eye(2).to_sparse()
    indices, values = x._indices(), x._values()
    for made in (
        x.new(indices, values, x.shape),
        x.new(indices, values),
        tt.sparse.FloatTensor(indices, values),
    ):
        assert made.layout is tt.sparse_coo and made.to_dense().equal(tt.eye(2))
    assert x.new(2, 3).shape == x.new(tt.Size([2, 3])).shape == (2, 3) and x.new().shape == (0,)
    assert isinstance(x, tt.sparse.FloatTensor) and not isinstance(x, tt.FloatTensor)
    assert not isinstance(tt.eye(2), tt.sparse.FloatTensor) and tt.sparse.LongTensor(2, 2).dtype is tt.int64
    assert x.type("triten.sparse.DoubleTensor").dtype is x.type(tt.sparse.DoubleTensor).dtype is tt.float64
    assert (
        tt.sparse.FloatTensor.is_sparse
        and repr(tt.sparse.FloatTensor) == "<class 'triten.sparse.FloatTensor'>"
    )
    with pytest.raises(TypeError, match="a sparse type takes sizes"):
        x.new([2, 3])
    with pytest.raises(TypeError, match="expected values of triten"):
        tt.sparse.DoubleTensor(indices, values)


@pytest.mark.parametrize("make", [tt.zeros, tt.empty])
@pytest.mark.parametrize("size", [(3, 2), (3,)], ids=str)
def test_factories_into_sparse_outputs(make, size):
    out = tt.eye(2).to_sparse()
    assert make(size, out=out) is out and out.shape == size and out._nnz() == 0


def test_conjugates():
    x = tt.tensor([[0, 1 + 2j], [3j, 0]]).to_sparse()
    out = tt.zeros(2, 2, dtype=tt.complex64).to_sparse()
    for made in (tt.conj_physical(x), tt.conj_physical(x, out=out), x.clone().conj_physical_()):
        assert made.layout is tt.sparse_coo and made.to_dense().tolist() == [[0, 1 - 2j], [-3j, 0]]
    real = tt.eye(2).to_sparse()
    assert tt.conj_physical(real, out=tt.zeros(2, 2).to_sparse()).to_dense().equal(tt.eye(2))


@pytest.mark.parametrize("layout", [tt.sparse_coo, tt.sparse_csr], ids=str)
def test_no_diagonals(layout):
    made = tt.sparse.spdiags(tt.ones(0, 3), tt.tensor([], dtype=tt.int64), (3, 3), layout)
    assert made.shape == (3, 3) and made.layout is layout and made._nnz() == 0


@pytest.mark.parametrize(
    ("shape", "index", "expected"),
    [((), 0, 1.0), ((), [0], 1.0), ((), [0, 0], 2.0), ((4,), 2, [0, 0, 1, 0]), ((4,), [2, 2], [0, 0, 2, 0])],
    ids=str,
)
def test_sparse_gradients_of_gather(shape, index, expected):
    x = tt.ones(shape, requires_grad=True)
    tt.gather(x, 0, tt.tensor(index), sparse_grad=True).sum().backward()
    assert x.grad.layout is tt.sparse_coo and x.grad.to_dense().tolist() == expected
