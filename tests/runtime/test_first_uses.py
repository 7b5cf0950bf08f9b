"""A first use that an interrupt ends can be repeated: imports, registrations, drivers and threads."""

import importlib
import subprocess
import sys
import threading
import types
from contextlib import nullcontext

import pytest

from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured import stub
from triten.runtime import device_guard, lazy_import
from triten.runtime.cpu import background as background_compiler
from triten.runtime.cpu.background import _Background
from triten.runtime.cuda import driver, provider
from triten.runtime.lazy_import import import_shielded, when_imported
from triten.tests.shared.interrupts import Moments
from triten.tests.shared.threads import PATIENCE


def test_first_uses_are_repeated_after_an_interrupt():
    """Interrupt a sample of moments; `make fuzz CAMPAIGNS=process_state` has all of them."""
    program = (sys.executable, "-P", "-m", "triten.tests.shared.first_uses", "2")
    done = subprocess.run(
        [*program, "linalg", "rows", "print", "compiled"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.fixture
def stubs(monkeypatch):
    monkeypatch.setattr(stub, "_stubs", {})
    monkeypatch.setattr(stub, "_bodies", {})
    monkeypatch.setattr(stub, "_loaders", {})


BODY = "from triten.dispatch.structured.stub import register_stub\nregister_stub('late_stub', 'cpu', lambda call: {})\n"


def test_a_module_that_is_executed_again_registers_in_its_own_place(stubs):
    for number in range(2):
        exec(compile(BODY.format(number), "late.py", "exec"), {"__name__": "late"})
        assert stub._stubs["late_stub"]["cpu"](None) == number


def test_a_module_does_not_register_a_kernel_twice(stubs):
    with pytest.raises(RuntimeError, match="late_stub has a cpu kernel already"):
        exec(compile(BODY.format(1) + BODY.format(2), "late.py", "exec"), {"__name__": "late"})


def test_another_module_does_not_register_in_its_place(stubs):
    exec(compile(BODY.format(1), "late.py", "exec"), {"__name__": "late"})
    with pytest.raises(RuntimeError, match="late_stub has a cpu kernel already"):
        exec(compile(BODY.format(2), "other.py", "exec"), {"__name__": "other"})


GUARD = (
    "from unittest.mock import Mock\n"
    "from triten.runtime.device_guard import DeviceGuardImpl, register_device_guard\n"
    "register_device_guard('xpu', Mock(DeviceGuardImpl))\n"
)


@pytest.mark.parametrize(("name", "is_refused"), [("late", False), ("other", True)])
def test_a_guard_of_devices_is_registered_again_by_its_module_alone(monkeypatch, name, is_refused):
    for table in ("_guards", "_bodies", "unindexed"):
        monkeypatch.setattr(device_guard, table, getattr(device_guard, table).copy())
    exec(compile(GUARD, "late.py", "exec"), {"__name__": "late"})
    with pytest.raises(RuntimeError, match="xpu has a device guard already") if is_refused else nullcontext():
        exec(compile(GUARD, "late.py", "exec"), {"__name__": name})


def test_a_kernel_of_a_module_that_was_interrupted_is_not_used(stubs, tmp_path, monkeypatch):
    """Look for `value`, which the kernel of the first execution lacks."""
    (tmp_path / "late_kernels.py").write_text(
        "import sys\n"
        "from triten.dispatch.structured.stub import register_stub\n"
        "register_stub('late_stub', 'cpu', lambda call: value)\n"
        "if sys.argv.pop() == 'interrupt':\n"
        "    raise KeyboardInterrupt\n"
        "value = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["again", "interrupt"])
    monkeypatch.delitem(sys.modules, "late_kernels", raising=False)
    stub.register_loader("cpu", lambda name: importlib.import_module("late_kernels"))
    with pytest.raises(KeyboardInterrupt):
        stub._factory_of("late_stub", "cpu")
    assert stub._factory_of("late_stub", "cpu")(None) == 1
    del sys.modules["late_kernels"]


def at_every_moment(make, use, expected, of_file):
    """Interrupt the first use of an object of `make` at every moment in a file, and use it again."""
    at = 0
    while True:
        at += 1
        made = make()
        moments = Moments(at, lambda code: code.co_filename.endswith(of_file))
        if not moments.interrupts(lambda made=made: use(made)):
            return at
        assert use(made) == expected, f"after an interrupt at {moments.where}"


def test_what_waits_for_a_module_is_called_until_it_returns(tmp_path, monkeypatch):
    (tmp_path / "late_awaited.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = []

    def make():
        sys.modules.pop("late_awaited", None)
        told.clear()
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, lazy_import._Awaited)]
        when_imported("late_awaited", lambda: told.append(len(told)))

    def use(_):
        importlib.import_module("late_awaited")
        return bool(told)

    before = list(sys.meta_path)
    try:
        assert at_every_moment(make, use, True, "lazy_import.py") > 3
    finally:
        sys.meta_path[:] = before
        sys.modules.pop("late_awaited", None)


def test_a_family_of_operators_is_loaded_once():
    """Keep the entries that callers found, whatever state an interrupt leaves behind."""

    def make():
        dispatcher = Dispatcher()

        def register():
            for name in ("docs::a", "docs::b"):
                dispatcher.install(name, f"{name}(Tensor x) -> Tensor", "here", frozenset())

        dispatcher.defer(["docs::a", "docs::b"], lambda: register)
        return dispatcher

    def use(dispatcher):
        entry = dispatcher._operators.get("docs::a")
        dispatcher.load_all()
        same = entry is None or dispatcher._operators["docs::a"] is entry
        return same, dispatcher._deferred, sorted(dispatcher._operators)

    assert at_every_moment(make, use, (True, {}, ["docs::a", "docs::b"]), "dispatcher.py") > 3


def test_a_driver_that_triton_was_not_told_of_is_not_kept(monkeypatch):
    told = []

    def announce(chosen):
        told.append(chosen)
        if len(told) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(driver, "_driver", None)
    monkeypatch.setattr(provider, "choose", object)
    monkeypatch.setattr(provider, "announce", announce)
    with pytest.raises(KeyboardInterrupt):
        driver._choose()
    assert driver._choose() is told[1]


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Make a module whose import waits for an event."""
    events = types.SimpleNamespace(begun=threading.Event(), go_on=threading.Event())
    monkeypatch.setattr(threading, "late_events", events, raising=False)
    (tmp_path / "late_slow.py").write_text(
        "import threading\n"
        "thread = threading.current_thread()\n"
        "threading.late_events.begun.set()\n"
        f"assert threading.late_events.go_on.wait({PATIENCE})\n"
        "value = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield events
    events.go_on.set()
    sys.modules.pop("late_slow", None)


def test_a_shielded_import_is_finished_by_its_thread(slow, monkeypatch):
    join = threading.Thread.join

    def interrupted(thread, timeout=None):
        assert slow.begun.wait(PATIENCE)
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_shielded("late_slow")
    slow.go_on.set()
    module = import_shielded("late_slow")
    assert module.value == 1 and module.thread is not threading.main_thread()


def test_a_shielded_import_raises_what_the_module_raises():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_shielded("no_such_module")


def test_loops_are_made_after_an_interrupted_start(monkeypatch):
    background, made = _Background(), []
    start = background_compiler.start_new_thread

    def interrupted(function, arguments):
        monkeypatch.setattr(background_compiler, "start_new_thread", start)
        raise KeyboardInterrupt

    monkeypatch.setattr(background_compiler, "start_new_thread", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.ask(lambda: made.append(1))
    background.wait()
    background.ask(lambda: made.append(2))
    background.wait()
    assert made == [1, 2]
