"""An action disturbed: the error is the one that it should be, and nothing is left of what began.

Held against each other are the thread's modes, the parameters (where the action itself does not write them in steps),
memory that stays alive, and the action done once more, here and in another thread, with what it gives undisturbed.
"""

import gc
from contextlib import contextmanager

import triten as tt
from triten.tests.fuzz.campaign import AGREED, REFUSED_ALIKE, Finding
from triten.tests.fuzz.faults import interrupts, kernels, memory
from triten.tests.fuzz.faults.actions import ACTIONS, Restored, bits
from triten.tests.shared.thread_state import thread_state

ERRORS = {
    "allocation": (MemoryError, tt.OutOfMemoryError),
    "kernel": (MemoryError,),
    "kernel, after": (MemoryError,),
    "interrupt": (KeyboardInterrupt,),
}
"""What each fault ends in."""
FAULTS = tuple(ERRORS)


@contextmanager
def _failing(fault, device, at=-1):
    if fault == "allocation":
        with memory.failing(device, at) as counting:
            yield counting
    elif fault == "interrupt":
        with interrupts.failing(at) as calls:
            yield calls
    else:
        with kernels.failing(at, fault == "kernel, after") as calls:
            yield calls


def disturb(name, device, fault, at):
    """What comes of a fault at that number, taken modulo how many there are."""
    action = ACTIONS[name]
    objects = action.make(device)
    restored = Restored(objects)
    action.act(objects)
    restored.put_back()
    with _failing(fault, device) as counted:
        expected = action.act(objects)
    expected = bits(expected)
    restored.put_back()
    if not counted.count:
        return REFUSED_ALIKE
    alive = _alive_after(action, objects, restored, device, fault, -1)[1]
    before = thread_state()
    error, alive_now, where, changed = _alive_after(
        action, objects, restored, device, fault, at % counted.count
    )
    what = f"{name} on {device}, {fault} {at % counted.count} of {counted.count}{where}"
    after = thread_state()
    if after != before:
        different = [key for key in before if before[key] != after[key]]
        return Finding("state left", f"{what}: {different} are {[after[key] for key in different]!r:.300}")
    if error is None:
        return Finding("error lost", f"{what}: nothing was raised")
    if not isinstance(error, ERRORS[fault]):
        return Finding("other error", f"{what}: {type(error).__name__}: {error}"[:600])
    if changed and not action.writes:
        return Finding("operand changed", f"{what}: parameters {changed} are others")
    if alive_now > alive:
        return Finding("leak", f"{what}: {alive_now} are alive, {alive} after an undisturbed action")
    again = bits(action.act(objects))
    restored.put_back()
    if again != expected:
        return Finding("wrong value", f"{what}: the next action gives something else")
    if fault == "interrupt" and device == "cpu":
        return _in_another_thread(action, objects, expected, what) or AGREED
    return AGREED


def _alive_after(action, objects, restored, device, fault, at):
    """The error of a disturbed action, what is alive after it, where it was, and which parameters it changed."""
    error, where = None, ""
    with memory.failing(device) as alive:
        base = memory.held(device, alive)
        try:
            with _failing(fault, device, at) as calls:
                action.act(objects)
        except BaseException as raised:
            error = raised
            where = f" ({calls.where})" if fault == "interrupt" else ""
            error.__traceback__ = error.__context__ = error.__cause__ = None
        changed = restored.differences() if error is not None else []
        objects.optimizer.zero_grad()
        gc.collect()
        held = memory.held(device, alive) - base
    restored.put_back()
    return error, held, where, changed


def _in_another_thread(action, objects, expected, what):
    """A finding where a lock was not given back."""
    import threading

    found = []

    def run():
        found.append(bits(action.act(objects)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    if thread.is_alive():
        return Finding("lock kept", f"{what}: another thread waits")
    if found != [expected]:
        return Finding("wrong value", f"{what}: another thread gets something else")
    return None
