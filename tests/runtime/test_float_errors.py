"""Kernels neither depend on NumPy's floating-point error state nor change it."""

import contextvars
import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import triten as tt
from triten.runtime.float_errors import LINE, quietly, run_quiet, run_quiet_copy
from triten.tests.shared.threads import together

INF, NAN = float("inf"), float("nan")


def overflow_add() -> list[float]:
    x = tt.tensor([3e38, -3e38])
    return (x + x).tolist()


def invalid_add() -> list[float]:
    return (tt.tensor([INF, 1.0]) + tt.tensor([-INF, 1.0])).tolist()


def inplace_overflow() -> list[float]:
    return tt.tensor([3e38]).add_(tt.tensor([3e38])).tolist()


def scaled_overflow() -> list[float]:
    return tt.add(tt.tensor([1.0, 1e38]), tt.tensor([1.0, 1e38]), alpha=10.0).tolist()


def overflow_sum() -> float:
    return tt.tensor([3e38, 3e38]).sum().item()


def overflow_mm() -> list[list[float]]:
    x = tt.tensor([[3e38]])
    return x.mm(tt.tensor([[10.0]])).tolist()


def narrowing() -> list[float]:
    return tt.tensor([1e300, NAN], dtype=tt.float64).to(tt.float32).tolist()


def narrowing_to_half() -> list[float]:
    return tt.tensor([1e6]).to(tt.float16).tolist()


def nan_to_int() -> int:
    return tt.tensor([NAN, 1.0]).to(tt.int32)[1].item()


def half_overflow() -> list[float]:
    x = tt.tensor([60000.0], dtype=tt.float16)
    return (x + x).tolist()


def bfloat_overflow() -> list[float]:
    x = tt.tensor([3e38], dtype=tt.bfloat16)
    return (x + x).tolist()


def complex_invalid() -> bool:
    x = tt.tensor([complex(INF, 0)]) + tt.tensor([complex(-INF, 0)])
    return x.tolist()[0].real != x.tolist()[0].real


def relu_of_nan() -> bool:
    value = tt.tensor([NAN]).relu().item()
    return value != value


def copy_overflow() -> list[float]:
    return tt.zeros(1).copy_(tt.tensor([1e300], dtype=tt.float64)).tolist()


def backward_overflow() -> list[float]:
    w = tt.tensor([[1.0]]).requires_grad_()
    w.mm(tt.tensor([[3e38]])).sum().backward(tt.tensor(10.0))
    return w.grad.tolist()


CASES: list[tuple[Callable[[], object], object]] = [
    (overflow_add, [INF, -INF]),
    (inplace_overflow, [INF]),
    (scaled_overflow, [11.0, INF]),
    (overflow_sum, INF),
    (overflow_mm, [[INF]]),
    (narrowing_to_half, [INF]),
    (nan_to_int, 1),
    (half_overflow, [INF]),
    (bfloat_overflow, [INF]),
    (complex_invalid, True),
    (relu_of_nan, True),
    (copy_overflow, [INF]),
    (backward_overflow, [[INF]]),
]
IDS = [case.__name__ for case, _ in CASES]


@pytest.fixture(params=["raise", "warn", "call"])
def users_state(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    def complain(kind: str, flag: int) -> None:
        raise AssertionError(f"NumPy reported {kind}")

    with np.errstate(all=request.param, call=complain):
        yield dict(np.geterr())


@pytest.mark.parametrize(("compute", "expected"), CASES, ids=IDS)
def test_the_users_state_changes_nothing(
    compute: Callable[[], object], expected: object, users_state: dict[str, str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):  # the call that plans, and those that follow the plan
            assert compute() == expected
    assert np.geterr() == users_state


@pytest.mark.parametrize(("compute", "expected"), CASES, ids=IDS)
def test_no_warning_reaches_a_user(compute: Callable[[], object], expected: object) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert compute() == expected
    assert not caught


def test_nan_survives_and_invalid_is_silent() -> None:
    with np.errstate(all="raise"):
        first, second = invalid_add()
        assert first != first
        assert second == 2.0
        inf, nan = narrowing()
        assert inf == INF
        assert nan != nan


def test_the_users_state_still_rules_numpy() -> None:
    with np.errstate(all="raise"):
        overflow_add()
        with pytest.raises(FloatingPointError):
            np.float32(3e38) + np.float32(3e38)
    with np.errstate(all="warn"):
        overflow_add()
        with pytest.warns(RuntimeWarning):
            np.array([3e38], np.float32) + np.array([3e38], np.float32)


def test_worker_threads() -> None:
    """Keep the error state of each thread; a new thread starts with the default of NumPy, which warns."""

    def work() -> None:
        with np.errstate(all="raise"):
            for _ in range(50):
                for compute, expected in CASES:
                    assert compute() == expected, compute.__name__
            assert set(np.geterr().values()) == {"raise"}

    together(*[work] * 4)


def test_a_call_within_a_call() -> None:
    """Enter a kernel from within another, as a finalizer or a custom operator may."""
    with np.errstate(all="raise"):
        assert run_quiet(np.geterr)["over"] == "ignore"
        with pytest.raises(RuntimeError, match="cannot enter context"):
            run_quiet(lambda: run_quiet(np.geterr))
        assert run_quiet(lambda: run_quiet_copy(np.geterr))["over"] == "ignore"
        assert set(np.geterr().values()) == {"raise"}


def test_context_variables_of_the_user_are_kept() -> None:
    mine: contextvars.ContextVar[int] = contextvars.ContextVar("mine", default=0)
    mine.set(5)
    overflow_add()
    assert mine.get() == 5


def test_quietly_runs_inside_itself_and_raises_a_functions_own_error_once() -> None:
    calls = []

    def failing() -> None:
        calls.append(np.geterr()["over"])
        raise RuntimeError("its own")

    nested = quietly(lambda: quietly(failing)())
    with np.errstate(all="raise"):
        for function in (quietly(failing), nested):
            with pytest.raises(RuntimeError, match="its own"):
                function()
    assert calls == ["ignore", "ignore"]


@pytest.mark.parametrize("line", [0, LINE])
@pytest.mark.parametrize(
    ("function", "given"),
    [
        (list, ()),
        (lambda a: [a], (1,)),
        (lambda a, b: [a, b], (1, 2)),
        (lambda *a: list(a), (1, 2, 3)),
        (lambda a, b=2: [a, b], (1,)),
        (math.hypot, (3.0, 4.0)),
    ],
    ids=["nothing", "one", "two", "any number", "a default", "a built-in"],
)
def test_quietly_takes_what_its_function_takes(
    function: Callable[..., object], given: tuple[object, ...], line: int
) -> None:
    assert quietly(function, line)(*given) == function(*given)


def test_lines_go_through_a_short_buffer() -> None:
    assert quietly(np.getbufsize, LINE)() == LINE
    assert quietly(np.getbufsize)() == np.getbufsize() > LINE
