"""Registrations during calls of other threads: every result is right for some registration of that moment.

``TRITEN_STRESS_TIMES`` multiplies the number of calls; the default keeps the suite quick.
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
from triten.runtime.dispatch_key import BY_NAME, DispatchKey, Functionality
from triten.tests.shared.threads import PATIENCE, together

TIMES = int(os.environ.get("TRITEN_STRESS_TIMES", "1"))
CALLS, REGISTRATIONS = 300 * TIMES, 30 * TIMES
"""At least so many happen in every test, and every state is met."""
CALLERS = 8
MOMENT = 0.001
"""Seconds for which a registrar leaves the others their turn."""
DISPATCHER = Dispatcher.singleton()
NS = "t_threads"

pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Switch threads every few bytecodes to provoke short races."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def stress(
    callers: list[Callable[[], None]],
    registrars: list[Callable[[], None]],
    all_met: Callable[[], bool] = lambda: True,
) -> None:
    """Repeat every function in its own thread until both kinds have enough calls, and assert that nothing
    remains.

    Raise the first exception of any thread.
    """
    before = DISPATCHER.get_all_op_names(), dict(operator_entry.fallbacks)
    functions = callers + registrars
    counts = [0] * len(functions)
    ended = threading.Event()
    until = time.monotonic() + PATIENCE

    def enough() -> bool:
        calls, registrations = sum(counts[: len(callers)]), sum(counts[len(callers) :])
        return calls > CALLS and registrations > REGISTRATIONS and all_met()

    def repeated(index: int) -> Callable[[], None]:
        def repeat() -> None:
            try:
                while not ended.is_set():
                    functions[index]()
                    counts[index] += 1
                    if enough():
                        ended.set()
                    assert time.monotonic() < until, counts
            finally:
                ended.set()

        return repeat

    together(*[repeated(index) for index in range(len(functions))])
    assert (DISPATCHER.get_all_op_names(), dict(operator_entry.fallbacks)) == before


def test_kernels_come_and_go_under_calls_of_every_kind() -> None:
    """Call `aten::mul` through its function, its operator and a composite that plans it."""
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

    stress([call_functions, call_composite] * (CALLERS // 2), [register(2.0), register(3.0)])
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

        states = {"missing", "fallback", "kernel"}
        stress([call] * CALLERS, [register_fallback, register_kernel], lambda: seen == states)
        assert seen == states
        with pytest.raises(NotImplementedError):
            f.redispatch(ipu, x)


def test_definitions_come_and_go_under_calls() -> None:
    """Alternate two schemas under one name: a call meets one of them whole, or raises because it is gone."""
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
        """Alternate both definitions over a permanent kernel; the other thread's definition raises an error,
        or waits.
        """
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
        stress(
            [call, call_by_name] * (CALLERS // 2),
            [define, define, other_operators],
            lambda: seen >= {"one", "two"},
        )
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


def test_a_kernel_registered_while_a_late_one_is_found_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = DISPATCHER.find_schema_or_throw("aten::atan2")
    sparse, key = BY_NAME["SparseCPU"], BY_NAME["IPU"]
    registered = []

    def late(op: operator_entry.OperatorEntry, asked: DispatchKey) -> KernelFunction:
        # On a thread of its own, as a registration that comes between the two halves of the replacement.
        thread = threading.Thread(
            target=lambda: registered.append(DISPATCHER.register_impl(op.name, key, lambda x, y: x))
        )
        thread.start()
        thread.join(PATIENCE)
        return KernelFunction(lambda x, y: y)

    before = entry.kernels
    monkeypatch.setitem(operator_entry.late_kernels, Functionality.Sparse, late)
    try:
        found = entry.kernel_for(sparse)
        assert found is entry.kernels[sparse][-1]
        assert key in entry.kernels
        registered[0].close()
        assert key not in entry.kernels
        assert sparse in entry.kernels
    finally:
        entry.kernels = before
