"""cat in one launch: sizes, strides, dtypes; few tensors by their addresses, many by a table."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.indexing.joining_kernel import FEW

DTYPES = [tt.float32, tt.float64, tt.bfloat16, tt.int8, tt.bool, tt.int64, tt.complex64, tt.complex128]


def numbered(sizes, dtype=tt.float32):
    """Return a tensor whose elements tell their positions."""
    count = int(np.prod(sizes))
    return (tt.arange(count, dtype=tt.float32).reshape(sizes) % 113).to(dtype).to("cuda")


def check(tensors, dim, launches, expected=1):
    host = tt.cat([t.cpu() for t in tensors], dim)
    before = launches.count
    found = tt.cat(tensors, dim)
    assert launches.count - before == expected
    assert found.stride() == host.stride()
    assert found.dtype is host.dtype
    got, wanted = found.cpu(), host
    if host.dtype is tt.bfloat16:
        got, wanted = got.float(), wanted.float()
    np.testing.assert_array_equal(got.numpy(), wanted.numpy())


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("count", [2, FEW, FEW + 1, 20])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_of_different_sizes_along_each_dimension(launches, dtype, count, dim):
    sizes = [[3, 4, 5] for _ in range(count)]
    for place, each in enumerate(sizes):
        each[dim] = 1 + place % 6 if place != 1 else 0
    check([numbered(each, dtype) for each in sizes], dim, launches)


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("dim", [0, 1])
def test_of_whole_vectors_and_of_odd_addresses(launches, count, dim):
    check([numbered((8, 64)) for _ in range(count)], dim, launches)
    check([numbered((8 * 64 + 1,))[1:].view(8, 64) for _ in range(count)], dim, launches)
    flat = tt.zeros(2 * count * 512 + 1, device="cuda")
    out = flat[1 : count * 512 + 1].view((count * 8, 64) if dim == 0 else (8, count * 64))
    tensors = [numbered((8, 64)) for _ in range(count)]
    tt.cat(tensors, dim, out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), tt.cat([t.cpu() for t in tensors], dim).numpy())
    assert flat[0].item() == 0
    assert not flat[count * 512 + 1 :].any().item()


def test_of_several_programs_a_tensor(launches, monkeypatch):
    """Use blocks of the size of a GPU."""
    from triten.triton_kernels.indexing import joining

    monkeypatch.setattr(joining, "interpreted", lambda: False)
    for dtype in (tt.float32, tt.bfloat16):
        check([numbered((40, n), dtype) for n in (64, 100, 8)], 1, launches)
        check([numbered((n,), dtype) for n in (4096, 1028, 5, 1024, 1, 2048)], 0, launches)


def test_of_strides_that_differ(launches):
    tensors = [
        numbered((6, 5)),
        numbered((5, 6)).t(),
        numbered((6, 10))[:, ::2],
        numbered((1, 5)).expand(6, 5),
        numbered((12, 5))[1::2],
        numbered((3, 2, 5)).transpose(0, 1).reshape(6, 5),
    ]
    for dim in (0, 1):
        check(tensors, dim, launches)
        check(tensors[:3], dim, launches)
    last = [numbered((2, 3, 4, 5)).to(memory_format=tt.channels_last) for _ in range(3)]
    check(last, 1, launches)
    deep = [
        numbered((2, 3, 2, 3, 2)).permute(order)
        for order in ((0, 1, 2, 3, 4), (4, 1, 2, 3, 0), (0, 3, 2, 1, 4))
    ]
    check(deep, 2, launches)


def test_of_several_dtypes_a_launch_for_each(launches):
    tensors = [numbered((4, 3), dtype) for dtype in (tt.float32, tt.int64, tt.float32, tt.int64, tt.bfloat16)]
    check(tensors, 0, launches, 3)
    check([numbered((4, 4), tt.bfloat16), numbered((4, 8), tt.bfloat16), numbered((4, 4))], 1, launches, 2)
    check([numbered((2,), tt.bool), numbered((3,), tt.bool), numbered((3,))], 0, launches, 2)


def test_of_nothing(launches):
    check([numbered((0, 3)), numbered((0, 3))], 0, launches, 0)
    check([numbered((0,)), numbered((2, 3)), numbered((2, 3))], 0, launches)


def test_other_addresses_give_a_table_of_their_own(launches):
    for _ in range(3):
        check([numbered((3, place + 1)) for place in range(FEW + 2)], 1, launches)


def test_gradients_come_back_to_their_tensors():
    tensors = [numbered((2, n)).requires_grad_() for n in range(1, 8)]
    weight = numbered((2, 28))
    (tt.cat(tensors, 1) * weight).sum().backward()
    for tensor, expected in zip(tensors, weight.split([*range(1, 8)], 1), strict=True):
        np.testing.assert_array_equal(tensor.grad.cpu().numpy(), expected.cpu().numpy())


def test_stacks_are_joined_too(launches):
    tensors = [numbered((3, 4)) for _ in range(12)]
    before = launches.count
    found = [tt.stack(tensors, dim) for dim in (0, 1, 2)]
    assert launches.count - before == 3
    for dim, each in enumerate(found):
        np.testing.assert_array_equal(each.cpu().numpy(), np.stack([t.cpu().numpy() for t in tensors], dim))
