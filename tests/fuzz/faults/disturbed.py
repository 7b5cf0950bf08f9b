"""A disturbed action: it raises the expected error and leaves no partial state.

The check compares the thread's modes, the parameters (unless the action writes them in steps), and the live
memory. It then repeats the action, in this thread and in another one, and compares the results with those of
an undisturbed run.
"""

import gc
import threading
from contextlib import ExitStack, contextmanager

import triten as tt
from triten.tests.fuzz.campaign import AGREED, OUTSIDE, Finding
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
PATIENCE = 60.0
REPEATS = 2


class Injectors:
    """Context manager that counts a device's kernels and allocations, and fails one of them on request.

    Args:
        device: whose allocations.
    """

    def __init__(self, device):
        self.device = device
        self._stack = ExitStack()

    def __enter__(self):
        self.kernels = self._stack.enter_context(kernels.failing())
        self.allocations = self._stack.enter_context(memory.failing(self.device))
        return self

    def __exit__(self, *_):
        self._stack.close()


class Disturbed:
    """One action, whose objects are kept from fault to fault.

    Args:
        name: of the action.
        injectors: what fails, and the device on which it does.
    """

    def __init__(self, name, injectors):
        self.device = injectors.device
        self.name = name
        self.action = ACTIONS[name]
        self._kernels, self._allocations = injectors.kernels, injectors.allocations
        self._objects = self.action.make(self.device)
        self._restored = Restored(self._objects)
        for _ in range(2):
            self._kernels.count = self._allocations.count = 0
            self._expected = self._act()
            counts = self._kernels.count, self._allocations.count
            self._restored.put_back()
        for _ in range(2):
            with interrupts.failing() as calls:
                self.action.act(self._objects)
            self._restored.put_back()
        self._counts = dict(zip(FAULTS, (counts[1], counts[0], counts[0], calls.count), strict=True))

    def _act(self):
        return bits(self.action.act(self._objects))

    def _held(self):
        self._objects.optimizer.zero_grad()
        gc.collect()
        return memory.held(self.device, self._allocations)

    def disturb(self, fault, at):
        """Inject a fault at event number `at`, modulo the number of events, and return the outcome."""
        if not self._counts[fault]:
            return OUTSIDE
        at %= self._counts[fault]
        what = f"{self.name} on {self.device}, {fault} {at} of {self._counts[fault]}"
        base, before = self._held(), thread_state()
        error, where = self._error_of(fault, at)
        what += where
        after = thread_state()
        if after != before:
            different = [key for key in before if before[key] != after[key]]
            return Finding(
                "state left", f"{what}: {different} are {[after[key] for key in different]!r:.300}"
            )
        if error is None and fault == "interrupt" and not where:
            return OUTSIDE  # fewer calls than the time before
        if error is None:
            return Finding("error lost", f"{what}: nothing was raised")
        if not isinstance(error, ERRORS[fault]):
            return Finding("other error", f"{what}: {type(error).__name__}: {error}"[:600])
        changed = self._restored.differences()
        if changed and not self.action.writes:
            return Finding("operand changed", f"{what}: parameters {changed} are others")
        del error
        self._restored.put_back()
        held = self._held()
        if held > base and self._grows(fault, at, held):
            return Finding("leak", f"{what}: {held} are alive, {base} before")
        again = self._act()
        self._restored.put_back()
        if again != self._expected:
            return Finding("wrong value", f"{what}: the next action gives something else")
        if fault == "interrupt":
            return self._in_another_thread(what) or AGREED
        return AGREED

    def _grows(self, fault, at, held):
        """Return True if each repeated fault retains more memory; a one-time cache is no leak."""
        for _ in range(REPEATS):
            before = held
            self._error_of(fault, at)
            self._restored.put_back()
            held = self._held()
            if held <= before:
                return False
        return True

    def _error_of(self, fault, at):
        try:
            with self._failing(fault, at) as calls:
                self.action.act(self._objects)
        except BaseException as error:
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return error, _shown(calls)
        return None, _shown(calls)

    @contextmanager
    def _failing(self, fault, at):
        if fault == "interrupt":
            with interrupts.failing(at) as calls:
                yield calls
            return
        counting = self._allocations if fault == "allocation" else self._kernels
        counting.count, counting.at = 0, at
        self._kernels.after = fault == "kernel, after"
        try:
            yield counting
        finally:
            counting.at = -1

    def _in_another_thread(self, what):
        """Return a finding if another thread deadlocks on a lock or computes another result."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self._act()), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            return Finding("lock kept", f"{what}: another thread waits")
        self._restored.put_back()
        return None if found == [self._expected] else Finding("wrong value", f"{what}: in another thread")


def _shown(calls):
    """Return the place of the interrupt, or an empty string."""
    where = getattr(calls, "where", "")
    return f" ({where})" if where else ""
