"""Operators that return their operand, or a view of it, where there is nothing to do, as PyTorch's do."""

import pytest

import triten as tt

ITSELF = {
    "conj": lambda x: x.conj(),
    "conj_physical": tt.conj_physical,
    "Tensor.conj_physical": lambda x: x.conj_physical(),
    "resolve_conj": tt.resolve_conj,
    "resolve_neg": tt.resolve_neg,
    "real": tt.real,
    "to of a dtype": lambda x: x.to(x.dtype),
    "to of a tensor": lambda x: x.to(x),
    "to of a device": lambda x: x.to(x.device),
    "type_as": lambda x: x.type_as(x),
    "contiguous": lambda x: x.contiguous(),
    "flatten of no dimension": lambda x: x.flatten(1, 1),
    "broadcast_tensors": lambda x: tt.broadcast_tensors(x, tt.ones(3, device=x.device))[0],
    "atleast_2d": tt.atleast_2d,
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "dropout of inference": lambda x: tt.nn.functional.dropout(x, 0.5, False),
    "as_tensor": tt.as_tensor,
    "detach_": lambda x: x.detach_(),
}
NEW = {
    "chain_matmul": lambda x: tt.chain_matmul(x),
    "conj_physical out": lambda x: tt.conj_physical(x, out=tt.empty_like(x)),
    "repeat": lambda x: x.repeat(1, 1),
    "cat": lambda x: tt.cat([x]),
    "roll": lambda x: x.roll(0, 0),
    "clone": lambda x: x.clone(),
    "round": lambda x: x.round(),
}


@pytest.mark.parametrize("dtype", [tt.float32, tt.int64, tt.bool], ids=str)
@pytest.mark.parametrize("name", ITSELF)
def test_returned_as_it_is(name: str, dtype: tt.dtype, device: str) -> None:
    for x in (tt.ones(3, 3, device=device, dtype=dtype), tt.ones(3, 3, device="meta", dtype=dtype)):
        assert ITSELF[name](x) is x


@pytest.mark.parametrize("name", NEW)
def test_not_returned(name: str, device: str) -> None:
    x = tt.ones(3, 3, device=device)
    made = NEW[name](x)
    assert made.data_ptr() != x.data_ptr()
    assert made.tolist() == x.tolist()


def test_conj_physical_of_complex_numbers_and_in_place(device: str) -> None:
    z = tt.tensor([1 + 2j, 3 - 4j], device=device, requires_grad=True)
    made = tt.conj_physical(z)
    assert made.tolist() == [1 - 2j, 3 + 4j]
    (gradient,) = tt.autograd.grad(made, z, tt.tensor([1j, 1.0], dtype=z.dtype, device=device))
    assert gradient.tolist() == [-1j, 1]
    assert z.detach().clone().conj_physical_().tolist() == [1 - 2j, 3 + 4j]
    x = tt.ones(2, device=device, requires_grad=True)
    assert tt.conj_physical(x) is x
    with pytest.raises(RuntimeError, match="leaf"):
        x.conj_physical_()
