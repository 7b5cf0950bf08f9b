"""Registering while other threads call: every result is right under some registration of that moment.

``TRITEN_STRESS_SECONDS`` sets how long; the default keeps the suite quick.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import triten as tt
from triten.dispatch.core import operator_entry
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.library import Library

CALLS, REGISTRATIONS = 100, 10
"""At least so many happen in every test."""
SECONDS = float(os.environ.get("TRITEN_STRESS_SECONDS", "2"))
CALLERS = 8
MOMENT = 0.001
DISPATCHER = Dispatcher.singleton()
NS = "t_threads"

pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns every few bytecodes, so that short races are met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(
    callers: list[Callable[[], None]], registrars: list[Callable[[], None]], seconds: float
) -> tuple[int, int]:
    """Repeat every function in a thread of its own, `callers` while `registrars` run.

    Returns:
        how often callers and registrars were called. The first exception of any of them is raised.
    """
    errors: list[BaseException] = []
    counts: list[int] = [0] * (len(callers) + len(registrars))
    deadline = time.monotonic() + seconds
    start = threading.Barrier(len(counts))
    latest = deadline + 45

    def too_few() -> bool:
        # A busy machine gets more time rather than a weaker test.
        return sum(counts[: len(callers)]) <= CALLS or sum(counts[len(callers) :]) <= REGISTRATIONS

    def repeat(index: int, function: Callable[[], None]) -> None:
        try:
            start.wait()
            while not errors and (time.monotonic() < deadline or (too_few() and time.monotonic() < latest)):
                function()
                counts[index] += 1
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=repeat, args=(i, f), daemon=True) for i, f in enumerate(callers + registrars)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return sum(counts[: len(callers)]), sum(counts[len(callers) :])


def stress(callers: list[Callable[[], None]], registrars: list[Callable[[], None]], share: float) -> None:
    """Run for a share of the time, and hold that the threads met and that nothing is left behind."""
    before = DISPATCHER.get_all_op_names(), dict(operator_entry.fallbacks)
    calls, registrations = run_together(callers, registrars, SECONDS * share)
    assert calls > CALLS
    assert registrations > REGISTRATIONS
    assert (DISPATCHER.get_all_op_names(), dict(operator_entry.fallbacks)) == before


def test_kernels_come_and_go_under_calls_of_every_kind() -> None:
    """`aten::mul`, called through its function, its operator and a composite that plans it."""
    a, b = tt.full((3,), 2.0), tt.full((3,), 5.0)
    eye = tt.ones(1, 1)
    scaled = {10.0, 20.0, 30.0}
    products = {1.0, 100.0}

    def call_functions() -> None:
        for value in (tt.mul(a, b), a * b, tt.ops.aten.mul.Tensor(a, b)):
            assert value.tolist()[0] in scaled

    def call_composite() -> None:
        for value in (tt.matmul(eye, eye), tt.ops.aten.matmul.default(eye, eye)):
            assert value.item() in products

    def register(factor: float) -> Callable[[], None]:
        def once() -> None:
            with Library("aten", "IMPL", "CPU") as library:
                library.impl("mul.Tensor", lambda x, y: tt.full((3,), 10.0 * factor))
                library.impl("mm", lambda x, y: tt.full((1, 1), 100.0))

        return once

    stress([call_functions, call_composite] * (CALLERS // 2), [register(2.0), register(3.0)], 0.4)
    assert tt.mul(a, b).tolist() == [10.0] * 3
    assert tt.ops.aten.mul.Tensor(a, b).tolist() == [10.0] * 3
    assert tt.ops.aten.matmul.default(eye, eye).item() == 1.0


def test_fallbacks_come_and_go_under_calls() -> None:
    x = tt.ones(1)
    with Library(NS, "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: "own", "VE")
        f = tt.ops.t_threads.f.default
        ve, ipu = (tt.DispatchKeySet(getattr(tt.DispatchKey, key)) for key in ("VE", "IPU"))
        seen: set[str] = set()

        def call() -> None:
            assert f.redispatch(ve, x) == "own"
            try:
                value = f.redispatch(ipu, x)
            except NotImplementedError as error:
                assert "'t_threads::f' with arguments from the 'IPU' backend" in str(error)
                value = "missing"
            assert value in ("missing", "fallback", "kernel")
            seen.add(value)

        def fallback(op: object, keys: object, stack: list[object]) -> None:
            stack[:] = ["fallback"]

        def register_fallback() -> None:
            with Library("_", "IMPL", "IPU") as fallbacks:
                fallbacks.fallback(fallback)
                time.sleep(MOMENT)
            time.sleep(MOMENT)

        def register_kernel() -> None:
            with DISPATCHER.register_impl(f"{NS}::f", "IPU", KernelFunction(lambda x: "kernel")):
                time.sleep(MOMENT)
            time.sleep(2 * MOMENT)

        stress([call] * CALLERS, [register_fallback, register_kernel], 0.3)
        assert seen == {"missing", "fallback", "kernel"}
        with pytest.raises(NotImplementedError):
            f.redispatch(ipu, x)


def test_definitions_come_and_go_under_calls() -> None:
    """One name with two schemas in turn: a call meets one of them whole, or is told that it is gone."""
    x = tt.ones(1)
    expected = {"one": (x,), "two": (x, 7)}
    name = f"{NS}::g"
    seen: set[str] = set()

    def call() -> None:
        op = DISPATCHER.find_schema(name)
        if op is None:
            seen.add("absent")
            return
        label = op.source
        args = expected[label]
        assert len(op.schema.arguments) == len(args)
        try:
            value = op.call(*args)
        except NotImplementedError as error:
            assert f"its definition at {label} was taken back" in str(error)
            value = "retired"
        assert value in (label, "retired")
        seen.add(value)

    def call_by_name() -> None:
        try:
            group = tt.ops.t_threads.g
        except AttributeError as error:
            assert "has no operator 'g'" in str(error)
            return
        try:
            assert group(x) in ("one", "two")
        except NotImplementedError as error:
            assert "Could not run 't_threads::g'" in str(error)
        assert set(dir(tt.ops.t_threads)) <= {"g", "other"}
        assert set(group.overloads()) <= {"default"}

    def define() -> None:
        """Both definitions in turn, over a kernel that stays; the other thread is refused meanwhile, or waits."""
        for label, arguments in (("one", "Tensor x"), ("two", "Tensor x, int y=7")):
            try:
                definition = DISPATCHER.register_def(f"{name}({arguments}) -> str", label)
            except RuntimeError as error:
                assert "multiple times. First registered at" in str(error)
                continue
            with definition:
                time.sleep(MOMENT)

    def other_operators() -> None:
        with DISPATCHER.register_def(f"{NS}::other(Tensor x) -> Tensor", "other"):
            assert DISPATCHER.find_schema(f"{NS}::other") is not None

    kernel = KernelFunction(lambda *args: "one" if len(args) == 1 else "two")
    with DISPATCHER.register_impl(name, "CPU", kernel):
        stress([call, call_by_name] * (CALLERS // 2), [define, define, other_operators], 0.3)
    assert seen >= {"one", "two"}


def test_a_handle_closed_by_many_threads_undoes_once() -> None:
    undone: list[int] = []

    class Counting:
        def on_operator_registered(self, op: object) -> None: ...

        def on_operator_deregistered(self, op: object) -> None:
            undone.append(1)

    with DISPATCHER.add_listener(Counting()):
        for _ in range(20):
            handle = DISPATCHER.register_def(f"{NS}::h(Tensor x) -> Tensor", "here")
            threads = [threading.Thread(target=handle.close) for _ in range(CALLERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert DISPATCHER.find_op(f"{NS}::h") is None
    assert len(undone) == 20
