"""Families load when a caller first asks for one of their operators, with no visible difference."""

import subprocess
import sys
import threading

import pytest

from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.runtime.dispatch_key import BY_NAME

CPU = BY_NAME["CPU"]
NAMES = ("aten::f", "aten::f.out", "aten::g")


def dispatcher_with_family(log: list[str]) -> Dispatcher:
    dispatcher = Dispatcher()

    def prepare():
        log.append("prepared")

        def register() -> None:
            log.append("registered")
            for name in NAMES:
                dispatcher.install(name, f"{name}(Tensor self) -> Tensor", "here:1", frozenset())
                dispatcher.install_kernel(name, (CPU,), KernelFunction(lambda x: x, source="own"))

        return register

    dispatcher.defer(NAMES, prepare)
    return dispatcher


def asked(dispatcher: Dispatcher) -> dict[str, object]:
    return {
        "find_op": lambda: dispatcher.find_op("aten::f", "out"),
        "find_schema": lambda: dispatcher.find_schema("aten::g"),
        "dump": lambda: dispatcher.dump("aten::f"),
        "all names": dispatcher.get_all_op_names,
        "registrations": lambda: dispatcher.get_registrations_for_dispatch_key("CPU"),
        "register_impl": lambda: dispatcher.register_impl("aten::f", "Meta", lambda x: x),
        "register_name": lambda: dispatcher.register_name("aten::f"),
    }


@pytest.mark.parametrize("how", sorted(asked(Dispatcher())))
def test_whoever_asks_finds_the_family_registered_once(how):
    log: list[str] = []
    dispatcher = dispatcher_with_family(log)
    assert dispatcher.packets == {"aten::f": ("aten::f", "aten::f.out"), "aten::g": ("aten::g",)}
    assert not log
    for _ in range(2):
        asked(dispatcher)[how]()
    assert log == ["prepared", "registered"]
    assert dispatcher.get_all_op_names() == sorted(NAMES)
    assert dispatcher.packets == {"aten::f": ("aten::f", "aten::f.out"), "aten::g": ("aten::g",)}


def test_a_deferred_name_is_taken():
    dispatcher = dispatcher_with_family([])
    with pytest.raises(RuntimeError, match="same name and overload name multiple times"):
        dispatcher.register_def("aten::f(Tensor self) -> Tensor")


def test_a_users_kernel_comes_after_the_deferred_one_and_leaves_it_when_taken_back():
    dispatcher = dispatcher_with_family([])
    with pytest.warns(UserWarning, match="previous kernel: registered at own"):
        handle = dispatcher.register_impl("aten::f", "CPU", KernelFunction(lambda x: x, source="theirs"))
    assert [k.source for k in dispatcher.find_op("aten::f").kernels[CPU]] == ["own", "theirs"]
    handle.close()
    assert [k.source for k in dispatcher.find_op("aten::f").kernels[CPU]] == ["own"]


class Listening:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_operator_registered(self, op) -> None:
        self.heard.append(op.name)

    def on_operator_deregistered(self, op) -> None:
        raise AssertionError


def test_a_listener_hears_of_every_operator_now_or_as_they_are_loaded():
    dispatcher = dispatcher_with_family([])
    later, now = Listening(), Listening()
    dispatcher.add_listener(later, as_loaded=True)
    assert later.heard == []
    dispatcher.add_listener(now)
    assert later.heard == now.heard == list(NAMES)


def test_a_family_that_cannot_be_registered_stays_deferred():
    dispatcher = Dispatcher()
    fail = [True]

    def prepare():
        def register() -> None:
            dispatcher.install("aten::f", "aten::f(Tensor self) -> Tensor", "here:1", frozenset())
            if fail:
                raise MemoryError("no room")

        return register

    dispatcher.defer(("aten::f",), prepare)
    with pytest.raises(MemoryError):
        dispatcher.find_op("aten::f")
    fail.clear()
    assert dispatcher.find_op("aten::f").has_schema


def test_a_handler_that_interrupts_a_registration_asks_for_the_same_family():
    dispatcher, handled = Dispatcher(), []

    def prepare():
        def register() -> None:
            for name in NAMES:
                dispatcher.install(name, f"{name}(Tensor self) -> Tensor", "here:1", frozenset())
                if name == "aten::f" and not handled:
                    handled.append(None)
                    handled[0] = dispatcher.find_op("aten::g")

        return register

    dispatcher.defer(NAMES, prepare)
    found = dispatcher.find_op("aten::g")
    assert found is not None and found is handled[0] is dispatcher.find_op("aten::g")
    assert dispatcher.get_all_op_names() == sorted(NAMES)


def test_threads_that_ask_at_once_find_whole_operators():
    for _ in range(50):
        log: list[str] = []
        dispatcher = dispatcher_with_family(log)
        barrier = threading.Barrier(4)
        found = []

        def ask(dispatcher=dispatcher, barrier=barrier, found=found) -> None:
            barrier.wait()
            found.append(dispatcher.find_op("aten::g").kernels[CPU][-1].source)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["own"] * 4
        assert log.count("registered") == 1


def test_importing_the_package_registers_no_operator_and_a_call_only_its_family():
    code = """
import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
loaded = Dispatcher.singleton()._operators
assert not loaded, sorted(loaded)
tt.ones(3) + 1
assert "aten::add.Tensor" in loaded and "aten::sort" not in loaded and "aten::conv2d" not in loaded
assert "sort" in dir(tt.ops.aten) and "aten::sort" in loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
