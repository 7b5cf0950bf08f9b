"""`TensorSpec`: interning, twins, and precomputed properties."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triten as tt
from triten.runtime import tensor_spec
from triten.runtime.memory_format import contiguous_strides
from triten.runtime.tensor_spec import TensorSpec
from triten.tests.shared.threads import together

CPU = tt.device("cpu")


def spec(sizes: tuple[int, ...], strides: tuple[int, ...] | None = None, **flags: bool) -> TensorSpec:
    return TensorSpec.of(
        sizes, contiguous_strides(sizes) if strides is None else strides, tt.float32, CPU, **flags
    )


def test_one_spec_for_tensors_that_look_alike() -> None:
    assert tt.ones(2, 3)._spec is tt.zeros(2, 3)._spec is (tt.ones(2, 3) + 1)._spec
    assert tt.ones(2, 3)._spec is spec((2, 3))
    assert tt.ones(3, 2).t()._spec is spec((2, 3), (1, 2))


@pytest.mark.parametrize(
    "other",
    [
        TensorSpec.of((2, 3), (3, 1), tt.float64, CPU),
        TensorSpec.of((2, 3), (1, 2), tt.float32, CPU),
        TensorSpec.of((3, 2), (2, 1), tt.float32, CPU),
        TensorSpec.of((2, 3), (3, 1), tt.float32, tt.device("meta")),
        spec((2, 3), requires_grad=True),
        spec((2, 3), is_inference=True),
        spec((2, 3), read_only=True),
    ],
    ids=["dtype", "strides", "sizes", "device", "requires_grad", "inference", "read_only"],
)
def test_every_field_distinguishes(other: TensorSpec) -> None:
    assert other is not spec((2, 3))


def test_interning_is_safe_among_threads() -> None:
    def work() -> list[TensorSpec]:
        return [spec((7, 11, n), requires_grad=bool(n % 2)) for n in range(300)]

    for same in zip(*together(*[work] * 4), strict=True):
        assert len({id(s) for s in same}) == 1


@given(st.lists(st.integers(0, 4), max_size=4), st.booleans(), st.booleans())
def test_twins(sizes: list[int], inference: bool, read_only: bool) -> None:
    plain = spec(tuple(sizes), is_inference=inference, read_only=read_only)
    grad = plain.twin
    assert grad.twin is plain
    assert (plain.requires_grad, grad.requires_grad) == (False, True)
    assert plain.differentiable is grad.differentiable is grad
    assert plain.detached is grad.detached is plain
    assert grad is spec(tuple(sizes), requires_grad=True, is_inference=inference, read_only=read_only)
    assert (plain.sizes, plain.strides, plain.is_inference, plain.read_only) == (
        grad.sizes,
        grad.strides,
        grad.is_inference,
        grad.read_only,
    )


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_contiguity_and_overlap_by_addresses(sizes: list[int], data: st.DataObject) -> None:
    """Compare with the definition: visiting the elements in order visits addresses 0, 1, 2, ..."""
    strides = [data.draw(st.integers(0, 12)) for _ in sizes]
    made = spec(tuple(sizes), tuple(strides))
    addresses = [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, sizes))
    ]
    assert made.is_contiguous == (addresses == list(range(len(addresses))))
    if made.overlaps:
        assert len(set(addresses)) < len(addresses) or not addresses
    dense = sorted(addresses) == list(range(len(addresses)))
    if made.is_dense():
        assert dense


def test_counts() -> None:
    s = spec((2, 3, 4))
    assert (s.ndim, s.numel, s.itemsize, s.nbytes) == (3, 24, 4, 96)
    assert s.shape == (2, 3, 4)
    assert isinstance(s.shape, tt.Size)
    assert spec(()).numel == 1
    assert spec((2, 0)).nbytes == 0


def test_an_expanded_tensor_overlaps() -> None:
    x = tt.ones(1, 3).expand(2, 3)
    assert x._spec.overlaps
    assert not x._spec.is_dense()
    assert not tt.ones(1, 3).expand(1, 3)._spec.overlaps


def test_replace() -> None:
    s = spec((2, 3), (1, 2), requires_grad=True)
    assert s.replace() is s
    assert s.replace(requires_grad=False) is s.twin
    assert s.replace(sizes=(6,)).strides == (1,)
    assert s.replace(dtype=tt.int8).strides == (1, 2)
    assert s.replace(device=tt.device("meta")).is_meta


def test_key_sets() -> None:
    plain = spec((2,))
    assert plain.call_keys == tt.DispatchKey.CPU.bits
    assert plain.twin.call_keys == tt.DispatchKey.CPU.bits | tt.DispatchKey.AutogradCPU.bits
    assert plain.key_set == plain.twin.key_set
    assert spec((2,), is_inference=True).key_set == tt.DispatchKey.CPU.bits


def test_the_table_is_bounded_and_living_tensors_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_spec, "_table", {})
    monkeypatch.setattr(tensor_spec, "MAX_SPECS", 64)
    x = tt.ones(2, 3)
    before = x._spec
    for n in range(200):
        spec((5, 3, n))
        assert len(tensor_spec._table) <= 64 + 2
    assert x._spec is before
    y = tt.ones(2, 3)
    assert (x + y).tolist() == [[2.0] * 3] * 2
    w = tt.ones(2, 3).requires_grad_()
    (x + w).sum().backward()
    assert w.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((2, 3, 4, 5), (60, 1, 15, 3), "channels_last"),
        ((2, 3, 4, 5), (60, 20, 5, 1), "contiguous_format"),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), "channels_last_3d"),
        ((2, 3), (1, 2), "contiguous_format"),
        ((2, 1, 4, 5), (20, 1, 5, 1), "channels_last"),
        ((2, 1, 4, 5), (20, 20, 5, 1), "contiguous_format"),
        ((2, 1, 1, 1), (1, 1, 1, 1), "contiguous_format"),
    ],
)
def test_suggested_format(sizes: tuple[int, ...], strides: tuple[int, ...], expected: str) -> None:
    assert spec(sizes, strides).suggest_memory_format() is getattr(tt, expected)
