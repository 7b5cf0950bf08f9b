"""Plans specialized to a call's metadata agree with generic ones: lists, numbers, gaps, several results."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.plans.functional import TENSOR, VALUE, FunctionalForm, fresh_maker
from triten.dispatch.structured.stub import PlannedKernel
from triten.runtime.device import CPU
from triten.runtime.float_errors import quietly
from triten.runtime.scalar_type import float32
from triten.runtime.tensor_spec import TensorSpec

VECTOR = TensorSpec.contiguous((3,), float32, CPU)


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("container", [list, tuple])
def test_lists_of_every_length(count: int, container: type) -> None:
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3) + i for i in range(count)]
    for _ in range(2):
        tensors = container([tt.from_numpy(a) for a in arrays])
        assert tt.cat(tensors).tolist() == np.concatenate(arrays).tolist()
        assert tt.stack(tensors).tolist() == np.stack(arrays).tolist()
        assert tt.stack(tensors, -1).tolist() == np.stack(arrays, -1).tolist()


def test_long_lists_of_whatever_length_share_one_text() -> None:
    one = tt.ones(1)
    tt.cat([one] * 9)
    before = fresh_maker.cache_info().currsize
    for count in range(10, 40):
        assert tt.cat([one] * count).numel() == count
    assert fresh_maker.cache_info().currsize == before


def test_an_index_with_a_gap_and_without() -> None:
    a = np.arange(12).reshape(3, 4)
    rows, columns = np.array([2, 0]), np.array([1, 3])
    t, r, c = tt.from_numpy(a), tt.from_numpy(rows), tt.from_numpy(columns)
    for _ in range(2):
        assert t[r].tolist() == a[rows].tolist()
        assert t[:, c].tolist() == a[:, columns].tolist()
        assert t[r, c].tolist() == a[rows, columns].tolist()


@pytest.mark.parametrize("missing", [(None,), (None, None)])
def test_a_missing_tensor_is_refused_where_none_may_be_missing(missing: tuple[None, ...]) -> None:
    with pytest.raises(TypeError):
        tt.cat(missing)


def test_a_number_is_a_tensor_of_its_own() -> None:
    x = tt.ones(4, 4)
    for compute, expected in ((x.sum, 16.0), (x.mean, 1.0)):
        first, second = compute(), compute()
        first.add_(1)
        assert first.shape == () and first.dtype is tt.float32
        assert (first.item(), second.item(), compute().item()) == (expected + 1, expected, expected)


def test_a_dimension_and_a_flag_of_one_value_are_told_apart() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = tt.from_numpy(a)
    for _ in range(2):
        assert tt.var(x, 1).tolist() == x.var(1).tolist() == a.var(1, ddof=1).tolist()
        assert tt.var(x, True).item() == x.var(True).item() == pytest.approx(a.var(ddof=1))
        assert tt.var(x, 0).tolist() == x.var(0).tolist() == a.var(0, ddof=1).tolist()
        assert tt.var(x, False).item() == x.var(False).item() == pytest.approx(a.var())
        assert tt.max(x).item() == x.max().item() == 5.0
        assert tt.max(x, 1).values.tolist() == x.max(1).values.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("returns", [False, True], ids=["into", "fresh"])
@pytest.mark.parametrize("by_plan", [False, True], ids=["quietly", "quiet"])
def test_an_error_of_a_kernel_is_not_taken_for_a_context_in_use(returns: bool, by_plan: bool) -> None:
    calls = []

    def failing(*data: object) -> None:
        calls.append(len(data))
        raise RuntimeError("of the kernel")

    kernel = failing if by_plan else quietly(failing)
    planned = PlannedKernel(kernel, kernel if returns else None, by_plan)
    plan = FunctionalForm((TENSOR, VALUE), None).plan(planned, (VECTOR,))
    with pytest.raises(RuntimeError, match="of the kernel"):
        plan(tt.ones(3), 2.0)
    assert calls == [2 if returns else 3]


def test_several_results_come_as_the_operator_names_them() -> None:
    def into(low: np.ndarray, high: np.ndarray, data: np.ndarray) -> None:
        np.subtract(data, 1, low)
        np.add(data, 1, high)

    x = tt.tensor([1.0, 2.0, 3.0])
    for gather, made in ((None, tuple), (tuple, tuple), (list, list)):
        results = FunctionalForm((TENSOR,), gather).plan(PlannedKernel(into), (VECTOR, VECTOR))(x)
        assert type(results) is made
        assert [r.tolist() for r in results] == [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]


@pytest.mark.parametrize("start", [None, -9, -3, -1, 0, 2, 5, 9])
@pytest.mark.parametrize("stop", [None, -9, -2, 0, 3, 5, 9])
def test_bounds_of_slices_are_pythons(start: int | None, stop: int | None) -> None:
    a = np.arange(10).reshape(5, 2)
    x = tt.from_numpy(a)
    for step in (1, 2, 7):
        assert x[start:stop:step].tolist() == a[start:stop:step].tolist()
        assert x.T[:, start:stop:step].tolist() == a.T[:, start:stop:step].tolist()
