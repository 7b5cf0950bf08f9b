"""Writes to aliases of sparse tensors: their parts, detached forms and transposed matrices."""

from collections.abc import Callable

import pytest

import triten as tt

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
COMPRESSED = LAYOUTS[1:]
ALIASES: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "values": lambda x: x.values(),
    "values_of_detached": lambda x: x.detach().values(),
    "detached": lambda x: x.detach(),
    "transposed": lambda x: x.t(),
}
WRITES: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "mul_": lambda x: x.mul_(3),
    "neg_": lambda x: x.neg_(),
    "sin_": lambda x: x.sin_(),
    "add_": lambda x: x.add_(x),
    "copy_": lambda x: x.copy_(x * 5),
    "zero_": lambda x: x.zero_(),
}


def _indices(x: tt.Tensor) -> list[tt.Tensor]:
    if x.layout is tt.sparse_coo:
        return [x.indices()]
    if x.layout in (tt.sparse_csr, tt.sparse_bsr):
        return [x.crow_indices(), x.col_indices()]
    return [x.ccol_indices(), x.row_indices()]


def _sparse(device: str, layout: str, elements: list[list[float]] | None = None) -> tt.Tensor:
    whole = tt.tensor([[2.0, 0, 0, 0], [0, 3.0, 0, 4.0]] if elements is None else elements, device=device)
    blocks = {"blocksize": (1, 2)} if layout.startswith("b") else {}
    return whole.to_sparse(layout=getattr(tt, f"sparse_{layout}"), **blocks)


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_saved_sparse_tensor_notices_writes_to_its_aliases(device: str, layout: str, alias: str) -> None:
    x = _sparse(device, layout)
    weight = tt.ones(4, 2, device=device, requires_grad=True)
    loss = (x @ weight).sum()
    ALIASES[alias](x).mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_saved_sparse_tensor_notices_writes_to_its_indices(device: str, layout: str) -> None:
    for position in range(len(_indices(_sparse(device, layout)))):
        x = _sparse(device, layout)
        weight = tt.ones(4, 2, device=device, requires_grad=True)
        loss = (x @ weight).sum()
        _indices(x)[position].add_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_values_that_were_saved_notice_writes_to_the_sparse_tensor(device: str) -> None:
    x = _sparse(device, "csr")
    weight = tt.ones(3, device=device, requires_grad=True)
    loss = (x.values() * weight).sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aliases_share_versions(device: str, layout: str) -> None:
    x = _sparse(device, layout)
    values = x.values()
    values.mul_(2)
    x.mul_(2)
    x.t().mul_(1)
    assert x._version == values._version == x.detach()._version == 3
    assert (x + x)._version == 0


def test_inference_tensors_have_parts_without_versions(device: str) -> None:
    with tt.inference_mode():
        x = _sparse(device, "coo")
        x.values().mul_(2)
        assert x.t().coalesce().values().tolist() == [4.0, 6.0, 8.0]
        with pytest.raises(RuntimeError, match="do not track version counter"):
            _ = x.values()._version


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("layout", COMPRESSED)
def test_writes_to_a_detached_compressed_tensor_reach_it(layout: str, write: str) -> None:
    x = _sparse("cpu", layout)
    expected = WRITES[write](x.clone()).to_dense()
    WRITES[write](x.detach())
    assert tt.equal(x.to_dense(), expected)
    y = _sparse("cpu", layout)
    WRITES[write](y.data)
    assert tt.equal(y.to_dense(), expected)


@pytest.mark.parametrize("write", [name for name in WRITES if name != "zero_"])
@pytest.mark.parametrize("layout", COMPRESSED)
def test_writes_that_keep_the_indices_reach_values_and_transposes(layout: str, write: str) -> None:
    x = _sparse("cpu", layout)
    values, turned = x.values(), x.t()
    WRITES[write](x)
    assert tt.equal(values, x.values()) and values.data_ptr() == x.values().data_ptr()
    assert tt.equal(turned.to_dense(), x.to_dense().t())
    WRITES[write](turned)
    assert tt.equal(turned.to_dense(), x.to_dense().t())


@pytest.mark.parametrize("layout", COMPRESSED)
def test_writes_that_change_the_indices_reach_detached_forms(device: str, layout: str) -> None:
    x = _sparse(device, layout)
    other = _sparse(device, layout, [[0, 0, 5.0, 0], [0, 6.0, 7.0, 0]])
    detached, source = x.detach(), other.clone()
    x.copy_(other)
    assert tt.equal(detached.to_dense(), other.to_dense())
    x.add_(_sparse(device, layout))
    assert tt.equal(detached.to_dense(), x.to_dense())
    x.zero_()
    assert detached._nnz() == 0
    assert tt.equal(other.to_dense(), source.to_dense())


def test_a_copy_keeps_the_dtype_of_its_indices(device: str) -> None:
    x = _sparse(device, "csr")
    for elements in ([[7.0, 0, 0, 0], [0, 8.0, 0, 9.0]], [[0, 7.0, 0, 0], [8.0, 9.0, 0, 0]]):
        y = _sparse(device, "csr", elements)
        y = tt.sparse_csr_tensor(y.crow_indices().int(), y.col_indices().int(), y.values().half(), (2, 4))
        x.copy_(y)
        assert x.crow_indices().dtype is x.col_indices().dtype is tt.int64 and x.dtype is tt.float32
        assert x.to_dense().tolist() == elements


@pytest.mark.parametrize("layout", LAYOUTS)
def test_accumulated_gradients_leave_incoming_ones_alone(layout: str) -> None:
    x = _sparse("cpu", layout).requires_grad_()
    grad = tt.ones_like(x.detach().values())
    for count in (1, 2, 3):
        x.values().backward(grad)
        assert tt.equal(grad, tt.ones_like(grad))
        assert tt.equal(x.grad.coalesce().values() if layout == "coo" else x.grad.values(), grad * count)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_narrow_results_are_written_to_values(layout: str) -> None:
    x = _sparse("cpu", layout).half()
    turned = x.t()
    x.add_(_sparse("cpu", layout))
    assert x.dtype is tt.float16
    assert tt.equal(turned.to_dense().float(), 2 * _sparse("cpu", layout).to_dense().t())


NEW: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "mul": lambda x: x * 1,
    "neg": lambda x: -x,
    "relu": tt.relu,
    "floor": tt.floor,
    "add": lambda x: x + x,
    "to": lambda x: x.to(x.dtype, copy=True),
    "clone": tt.clone,
    "transpose": lambda x: x.transpose(0, 0),
    "sparse_mask": lambda x: x.sparse_mask(x),
}


@pytest.mark.parametrize("make", NEW)
@pytest.mark.parametrize("layout", COMPRESSED)
def test_new_results_are_no_aliases(layout: str, make: str) -> None:
    x = _sparse("cpu", layout)
    before = x.to_dense()
    NEW[make](x).mul_(7)
    assert tt.equal(x.to_dense(), before)


@pytest.mark.parametrize(
    ("layout", "size", "message"),
    [
        ("csr", (3, 4), "match along dimension 0 for SparseCsr layout but .* self and src are 2 and 3"),
        ("csc", (2, 2), "match along dimension 1 for SparseCsc layout but .* self and src are 4 and 2"),
        ("bsr", (1, 2, 4), "different numbers of dimensions is not supported"),
    ],
)
def test_copies_of_other_sizes_are_refused(layout: str, size: tuple[int, ...], message: str) -> None:
    whole = tt.zeros(size)
    whole.view(-1)[0] = 1
    source = whole.to_sparse(
        layout=getattr(tt, f"sparse_{layout}"), blocksize=(1, 2) if layout == "bsr" else None
    )
    with pytest.raises(RuntimeError, match=message):
        _sparse("cpu", layout, [[1.0, 0, 0, 0], [0, 0, 0, 0]]).copy_(source)


def test_copies_of_other_blocks_are_refused() -> None:
    x = tt.eye(4, 8).to_sparse_bsr((2, 4))
    y = tt.tensor([[1.0, 0, 0, 0, 0, 2.0, 0, 0]] * 4).to_sparse_bsr((4, 2))
    with pytest.raises(
        RuntimeError, match=r"different block sizes .* are \[2, 4\] and \[4, 2\], respectively"
    ):
        x.copy_(y)
