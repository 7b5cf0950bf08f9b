"""`precompile`: the kernels of a program, planned without running them, and compiled by several processes.

A forked process plans: it runs the program on a driver that records each launch and runs none
(`runtime.cuda.planning_driver`). The program's tensors, the optimizer's state and the random generators of this process
therefore stay as they are, and a device that this process uses is not touched. The forked process then forks the
compiling ones, which inherit the kernels.
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from ..dispatch.core.dispatcher import Dispatcher
from ..runtime.available_cores import available_cores
from ..runtime.cuda import driver as cuda
from ..runtime.cuda import provider
from ..runtime.cuda.driver import kernel_name
from ..runtime.cuda.occupancy import KNOWN, Target
from ..runtime.cuda.planning_driver import NoNewKernels, PlanningDriver, UnknownValueError
from ..runtime.cuda.planning_driver import is_precompiling as is_precompiling
from ..runtime.cuda.triton.assembler import least_cuda
from ..runtime.cuda.triton.compile import chosen_options
from ..runtime.cuda.triton.cubin_store import find_stored, store
from ..runtime.cuda.triton.forked_compilation import compile_forked, fork
from ..runtime.cuda.triton.kernel_archive import find_archived
from ..runtime.cuda.triton.kernel_key import KernelRequest, kernel_key
from ..runtime.cuda.triton.packaged_kernels import find_packaged

__all__ = ["PrecompiledKernels", "is_precompiling", "precompile"]

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class PrecompiledKernels:
    """Result of `precompile`.

    Args:
        planned: Number of distinct kernels that the program launches.
        compiled: Number of kernels that were compiled.
        cached: Number of kernels that the disk cache had before.
        launches: Number of launches that were planned.
        seconds: Elapsed time.
        cpu_seconds: CPU time of the compilations.
        stopped: Reason why the plan ended before the program; empty if the program ended.
    """

    planned: int
    compiled: int
    cached: int
    launches: int
    seconds: float
    cpu_seconds: float
    stopped: str = ""

    def __str__(self) -> str:
        return (
            f"{self.planned} kernels of {self.launches} launches: {self.compiled} compiled, {self.cached} cached, in "
            f"{self.seconds:.1f} s ({self.cpu_seconds:.1f} CPU s of compilation)"
        )


@dataclass(frozen=True)
class Plan:
    """Settings of a plan.

    Args:
        target: Device whose launches are planned.
        properties: Properties of this machine's devices, if they are the target.
        cuda_version: CUDA version of the driver that will load the kernels, 12080 for 12.8.
        workers: Number of compiling processes.
        placeholder: Value that each read of a CUDA tensor returns; None makes a read an error.
        stops_at_read: If True, a read ends the plan instead of raising the error.
        patience: Number of launches without a new kernel that ends the plan; None for no limit.
    """

    target: Target
    properties: tuple[cuda.DeviceProperties, ...]
    cuda_version: int
    workers: int
    placeholder: float | None
    stops_at_read: bool = False
    patience: int | None = None


def precompile(
    fn: Callable[..., Any],
    *args: Any,
    target: int | str | None = None,
    cuda_version: str | None = None,
    workers: int | None = None,
    steps: int = 2,
    placeholder: float | None = None,
    progress: Progress | None = None,
    **kwargs: Any,
) -> PrecompiledKernels:
    """Compile the kernels that a function launches, before it runs, in several processes.

    The function is called in a forked process on devices that run no kernel, so no result and no state of this process
    changes: it may be a whole training step with backward pass and optimizer. Its kernels are planned as the real
    device would plan them, for the shapes, dtypes and layouts of this call. Those that the disk cache lacks are
    compiled and stored there (``TRITEN_CACHE_DIR``). The first real call, in this or another process, finds them.

    No GPU is needed if `target` names the device. The function then makes its CUDA tensors itself.

    A kernel that is called as ``kernel[grid](...)`` is compiled by Triton into Triton's own cache while the plan is
    made.

    Args:
        fn: The function. Its result is dropped.
        *args: Positional arguments of `fn`. Tensors stay on their devices.
        target: Compute capability to compile for, such as 90 or "sm_90". Default: None, that of the current device.
        cuda_version: CUDA version that the driver of the target supports, such as "12.8", as ``nvidia-smi`` shows it.
            Default: None, that of this machine's driver if its device is the target, else the oldest that supports the
            target, whose kernels newer drivers load too.
        workers: Number of compiling processes. Default: None, the number of available cores.
        steps: Number of calls of `fn`; a second call sees the gradients and the optimizer's state of the first.
            Default: 2.
        placeholder: Value that each read of a CUDA tensor returns while the launches are planned. Default: None, a read
            is an error.
        progress: Function that is called with the number of finished kernels, the number of kernels to compile, and the
            name of the last one. Default: None, a line on the terminal.
        **kwargs: Keyword arguments of `fn`. Bind arguments with one of the names above by a ``lambda``.

    Returns:
        The numbers of kernels, and the time.

    Raises:
        RuntimeError: `fn` reads a value of a CUDA tensor (``item()``, a condition, ``nonzero()``) without
            `placeholder`; there is neither a GPU nor `target`; kernels are interpreted (``TRITEN_CUDA=interpret``); the
            disk cache is off; Triton is missing; a kernel does not compile.
        ValueError: For an unknown target or CUDA version, or a number that is not positive.
        Exception: Any exception of `fn`.

    Example:
        >>> import triten as tt
        >>> def step():
        ...     x = tt.ones(64, 128, device="cuda", requires_grad=True)
        ...     tt.softmax(x * 2, 1).sum().backward()
        >>> result = tt.cuda.precompile(step, target=90)  # doctest: +SKIP
        >>> result.planned, result.launches  # doctest: +SKIP
        (5, 14)
    """
    if steps < 1:
        raise ValueError(f"precompile: steps: expected a positive number, got {steps}")

    def run() -> None:
        for _ in range(steps):
            fn(*args, **kwargs)

    return planned_and_compiled(run, make_plan(target, cuda_version, workers, placeholder), progress)


def make_plan(
    target: int | str | None,
    cuda_version: str | None = None,
    workers: int | None = None,
    placeholder: float | None = None,
    stops_at_read: bool = False,
    patience: int | None = None,
) -> Plan:
    """Return the settings of a plan; see `precompile`. Raise its errors."""
    if workers is not None and workers < 1:
        raise ValueError(f"precompile: workers: expected a positive number, got {workers}")
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("precompile: kernels are compiled by Triton: pip install 'triton >= 3.6'")
    if store() is None:
        raise RuntimeError(
            "precompile: there is no disk cache to put kernels into: set TRITEN_CACHE_DIR to a folder, and "
            "TRITEN_CACHE_MAXSIZE to a number of bytes above 0 or to nothing"
        )
    if not hasattr(os, "fork"):
        raise RuntimeError("precompile: this system cannot fork processes")
    if cuda.wants_interpreter():
        raise RuntimeError(
            "precompile: TRITEN_CUDA=interpret interprets kernels and compiles none: unset it, and name the target"
        )
    named = None if target is None else find_target(target)
    if named is None and not cuda.is_available():
        raise RuntimeError(
            "precompile: there is no GPU whose kernels could be compiled; name a compute capability, such as target=90"
        )
    version = 0 if cuda_version is None else _cuda_number(cuda_version)
    properties: tuple[cuda.DeviceProperties, ...] = ()
    if cuda.is_available() and (named is None or cuda.current_driver() is not None):
        own = cuda.driver()
        here = own.properties(own.current_device())
        if named is None or named.capability == here.capability:
            properties = tuple(own.properties(i) for i in range(own.device_count()))
            named = named or _target_of(here)
            version = version or own.cuda_version
    assert named is not None
    return Plan(
        named,
        properties,
        version or least_cuda(named.capability),
        workers or available_cores(),
        placeholder,
        stops_at_read,
        patience,
    )


def find_target(name: int | str) -> Target:
    """Return the target of a compute capability, such as 90 or "sm_90". Raise ValueError for an unknown one."""
    digits = str(name).removeprefix("sm_")
    found = KNOWN.get(int(digits)) if digits.isdecimal() else None
    if found is None:
        names = ", ".join(map(str, sorted(KNOWN)))
        raise ValueError(f"precompile: target: expected a compute capability among {names}, got {name!r}")
    return found


def _target_of(properties: cuda.DeviceProperties) -> Target:
    known = KNOWN.get(properties.capability)
    if known is None:
        raise RuntimeError(
            f"precompile: {properties.name} has compute capability {properties.major}.{properties.minor}, for which no "
            f"launches can be planned; name one of {', '.join(map(str, sorted(KNOWN)))} as target"
        )
    return known


def _cuda_number(version: str) -> int:
    major, dot, minor = version.partition(".")
    if not major.isdecimal() or not (minor or "0").isdecimal() or (dot and not minor):
        raise ValueError(f"precompile: cuda_version: expected a version such as '12.8', got {version!r}")
    return 1000 * int(major) + 10 * int(minor or 0)


def planned_and_compiled(
    run: Callable[[], object], plan: Plan, progress: Progress | None = None
) -> PrecompiledKernels:
    """Run a program in a forked process that plans its launches, and compile their kernels."""
    started = time.perf_counter()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    reader, writer = os.pipe()
    pid = fork()
    if not pid:
        os.close(reader)
        _plan_and_exit(run, plan, os.fdopen(writer, "wb"))
    os.close(writer)
    finished = False
    try:
        with os.fdopen(reader, "rb") as answers:
            result = _follow(answers, progress or _Line(), started)
        finished = True
        return result
    finally:
        if not finished:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _follow(answers: IO[bytes], progress: Progress, started: float) -> PrecompiledKernels:
    """Read the planning process's answers until the last."""
    planned = cached = launches = done = 0
    cpu_seconds, stopped, errors = 0.0, "", []
    missing = 0
    for kind, content in _messages(answers):
        if kind == "raised":
            raise _error_of(*content)
        if kind == "planned":
            planned, cached, missing, launches, stopped = content
            progress(0, missing, "")
        elif kind == "compiled":
            done += 1
            name, seconds, error = content
            cpu_seconds += seconds
            if error:
                errors.append(f"kernel '{name}': {error}")
            progress(done, missing, name)
        elif kind == "end":
            if errors:
                raise RuntimeError(
                    f"precompile: {len(errors)} of {planned} kernels do not compile: " + "; ".join(errors)
                )
            return PrecompiledKernels(
                planned, done, cached, launches, time.perf_counter() - started, cpu_seconds, stopped
            )
    raise RuntimeError("precompile: the process that plans the launches has ended without a result")


def _messages(answers: IO[bytes]) -> Iterator[tuple[str, Any]]:
    while True:
        try:
            yield pickle.load(answers)
        except EOFError:
            return


def _error_of(pickled: bytes | None, text: str) -> BaseException:
    """Return the exception of a planning process, with its traceback as a note."""
    error: BaseException | None = None
    if pickled is not None:
        with contextlib.suppress(Exception):  # whatever a class of others does when it is made again
            error = pickle.loads(pickled)
    if not isinstance(error, BaseException):
        error = RuntimeError(f"precompile: the function raised {text.strip().splitlines()[-1]}")
    error.add_note(f"raised while its launches were planned:\n{text.rstrip()}")
    return error


class _Line:
    """Progress line on the terminal; nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, count: int, name: str) -> None:
        if self.is_shown and count:
            end = "\r\x1b[K" if done == count else f"\r\x1b[Kcompiling kernels: {done} of {count} {name}"
            sys.stderr.write(end)
            sys.stderr.flush()


def _plan_and_exit(run: Callable[[], object], plan: Plan, answers: IO[bytes]) -> NoReturn:
    """Plan and compile in the forked process, and end it."""
    status = 1

    def send(kind: str, *content: Any) -> None:
        pickle.dump((kind, content), answers)
        answers.flush()

    try:
        os.setpgid(0, 0)  # its parent ends it together with the compiling processes
        driver = _install_driver(plan)
        stopped = ""
        try:
            run()
        except NoNewKernels:
            stopped = f"{plan.patience} launches needed no new kernel"
        except SystemExit as error:
            if error.code not in (None, 0):
                raise
        except UnknownValueError as error:
            if not plan.stops_at_read:
                raise
            stopped = f"a value of a CUDA tensor is read: {_user_line(error)}"
        planned, missing = _missing(driver.requests, plan)
        send("planned", planned, planned - len(missing), len(missing), driver.launches, stopped)
        for each in compile_forked(missing, plan.cuda_version, plan.workers):
            send("compiled", kernel_name(each.request.kernel), each.seconds, each.error)
        send("end")
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):  # the parent has ended
            send("raised", _pickled(error), "".join(traceback.format_exception(error)))
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _pickled(error: BaseException) -> bytes | None:
    try:
        return pickle.dumps(error)
    except Exception:  # an error that holds what cannot be pickled
        return None


def _user_line(error: BaseException) -> str:
    """Return file and line of the program where an error was raised."""
    package = __name__.partition(".")[0]
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [
        each for each in frames if each[0].f_globals.get("__name__", "").partition(".")[0] != package
    ] or frames
    frame, line = own[-1]
    name = frame.f_code.co_filename
    return f'File "{name}", line {line}: {linecache.getline(name, line).strip()}'


def _install_driver(plan: Plan) -> PlanningDriver:
    """Make the driver of the forked process one that plans."""
    for name in ("TRITEN_CUDA", "TRITON_INTERPRET"):
        os.environ.pop(name, None)
    planning = PlanningDriver(plan.target, plan.properties, plan.placeholder, plan.patience)  # type: ignore[abstract]
    earlier = cuda.current_driver()
    if earlier is None:
        cuda._driver = planning
    else:
        planning = planning.replace(earlier)
    provider.announce(planning)
    Dispatcher.singleton().forget_all()
    return planning


def _missing(noted: Sequence[Any], plan: Plan) -> tuple[int, list[KernelRequest]]:
    """Return the number of distinct kernels, and those that the cache lacks."""
    keys: set[str] = set()
    missing: list[KernelRequest] = []
    for each in noted:
        request = KernelRequest(
            each["kernel"],
            each["signature"],
            each["constants"],
            each["divisible"],
            plan.target.capability if not plan.properties else plan.properties[0].capability,
            chosen_options(each["options"]),
        )
        key = kernel_key(request, plan.cuda_version)
        if key is None:
            raise RuntimeError(
                f"precompile: kernel '{kernel_name(request.kernel)}' cannot be stored: its code depends on a value "
                "that has no key, or an environment variable asks Triton for compilation"
            )
        if key in keys:
            continue
        keys.add(key)
        found = (find(request, plan.cuda_version) for find in (find_archived, find_stored, find_packaged))
        if not any(found):
            missing.append(request)
    return len(keys), missing
