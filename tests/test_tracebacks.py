"""An error shows the caller's frames and the message: no look-up's KeyError, no inner frames of the package."""

import inspect
import io
import logging
import os
import subprocess
import sys
import textwrap
import threading
import traceback
import types
from contextlib import ExitStack

import pytest

import triten as tt
from triten.dispatch.core.overload_packet import clear_plans
from triten.dispatch.core.tensor_function import _asking_first as asking_first
from triten.runtime.traceback_filter import api_boundary, hide_inner_frames

F = tt.nn.functional
NOTE = "TRITEN_FULL_TRACEBACK=1 shows them"

# These functions have effects that are not undone, or take no tensors.
LEFT_OUT = {
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "cpu_kernel",
    "initial_seed",
    "load",
    "manual_seed",
    "save",
    "seed",
    "set_sizes_and_strides",
    "set_sizes_contiguous",
    "_set_requires_grad",
    "_wrapped",
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("TRITEN_FULL_TRACEBACK", raising=False)


def operators():
    """Yield every public operator: its name in programs, and the function."""
    for prefix, namespace in (
        ("tt", tt),
        ("tt.linalg", tt.linalg),
        ("tt.fft", tt.fft),
        ("tt.special", tt.special),
        ("tt.signal.windows", tt.signal.windows),
        ("F", F),
    ):
        for name in namespace.__all__:
            function = getattr(namespace, name)
            if isinstance(function, types.FunctionType) and not name.startswith(("set_", "_check")):
                yield f"{prefix}.{name}", function
    for name in dir(tt.Tensor):
        method = inspect.getattr_static(tt.Tensor, name)
        if not name.startswith("__") and isinstance(method, types.FunctionType):
            yield f"Tensor.{name}", method


OPERATORS = {name: function for name, function in operators() if name.rpartition(".")[2] not in LEFT_OUT}


def bad_calls(name):
    """Return positional and keyword arguments, by the error in them."""
    x = tt.ones(2, 3)
    itself = (x,) if name.startswith("Tensor.") else ()
    yield "none", itself, {}
    yield "a string for a tensor", (*itself, "text"), {}
    yield "a string for the second tensor", (x, "text"), {}
    yield "no such dimension", (x, 7), {}
    yield "no such dimension", (x,), {"dim": 7}
    yield "shapes that do not fit", (tt.ones(2, 3), tt.ones(4, 5)), {}
    yield "shapes that do not fit", (tt.ones(2, 3), tt.ones(4, 5), tt.ones(7)), {}
    yield "shapes that do not fit", ([tt.ones(2, 3), tt.ones(4, 5)],), {}
    yield "a dtype without kernel", (x.to(tt.complex64), x.to(tt.bool)), {}
    yield "a dtype without kernel", (x.to(tt.bool),), {}
    yield "no such keyword", (x,), {"nonsense": 3}
    yield "too many", tuple(range(12)), {}


def own_frames(error):
    """Return the package's frames in an error's traceback."""
    return [
        entry.tb_frame
        for entry in entries(error)
        if entry.tb_frame.f_globals.get("__name__", "").startswith("triten.")
    ]


def entries(error):
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def raised(call, *args, **kwargs):
    """Return the error of a call, or None."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_bad_arguments_show_the_callers_line_and_the_message(name):
    function = OPERATORS[name]
    clear_plans()
    for wrong, args, kwargs in bad_calls(name):
        error = raised(function, *args, **kwargs)
        if error is None:
            continue
        text = "".join(traceback.format_exception(error))
        said = f"{name}: {wrong}:\n{text}"
        assert "another exception occurred" not in text, said
        assert "direct cause" not in text, said
        assert len(own_frames(error)) <= 1, said
        assert not isinstance(error, KeyError), said
        if NOTE in text:
            assert not name.startswith("tt.linalg"), said
        if wrong in ("none", "no such keyword", "too many") and type(error) is TypeError:
            assert name.rpartition(".")[2] in text.splitlines()[-1] or "argument" in text, said


def softmax_of_no_dimension(x):
    return tt.softmax(x, 7)


def test_only_the_callers_frames_and_the_operators_own_are_there():
    error = raised(softmax_of_no_dimension, tt.ones(3, 4))
    names = [entry.tb_frame.f_code.co_name for entry in entries(error)]
    assert names == ["raised", "softmax_of_no_dimension", "softmax"]
    assert type(error) is IndexError and error.__context__ is None
    assert str(error) == "Dimension out of range (expected to be in range of [-2, 1], but got 7)"


@pytest.mark.parametrize("value", ["1", "yes"])
def test_the_environment_variable_shows_all_frames_but_no_look_up(value, monkeypatch):
    monkeypatch.setenv("TRITEN_FULL_TRACEBACK", value)
    error = raised(softmax_of_no_dimension, tt.ones(3, 4))
    names = [frame.f_code.co_name for frame in own_frames(error)]
    assert names[0] == "softmax" and names[-1] == "wrap_dim" and len(names) > 5
    assert "KeyError" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("value", ["", "0"])
def test_empty_and_zero_are_as_unset(value, monkeypatch):
    monkeypatch.setenv("TRITEN_FULL_TRACEBACK", value)
    assert len(own_frames(raised(softmax_of_no_dimension, tt.ones(3, 4)))) == 1


def test_the_variable_is_read_when_the_error_arises(monkeypatch):
    x = tt.ones(3, 4)
    few = own_frames(raised(softmax_of_no_dimension, x))
    monkeypatch.setenv("TRITEN_FULL_TRACEBACK", "1")
    assert len(own_frames(raised(softmax_of_no_dimension, x))) > len(few)


# Later calls, whose plans are there


VALUES_THAT_FAIL = {
    "embedding": (
        lambda bad: F.embedding(tt.tensor([9 if bad else 1]), tt.ones(3, 2)),
        IndexError,
    ),
    "index": (lambda bad: tt.ones(3)[tt.tensor([9 if bad else 1])], IndexError),
    "an element": (lambda bad: tt.ones(3)[9 if bad else 1], IndexError),
    "cholesky": (lambda bad: tt.linalg.cholesky(tt.eye(3) * (-1 if bad else 1)), tt.linalg.LinAlgError),
    "inv": (lambda bad: tt.linalg.inv(tt.eye(3) * (0.0 if bad else 1.0)), tt.linalg.LinAlgError),
    "gather": (lambda bad: tt.gather(tt.ones(3), 0, tt.tensor([9 if bad else 1])), RuntimeError),
    "cross_entropy": (lambda bad: F.cross_entropy(tt.ones(1, 3), tt.tensor([9 if bad else 1])), IndexError),
}


@pytest.mark.parametrize("name", VALUES_THAT_FAIL)
def test_errors_of_a_plan_that_has_run_before_show_no_inner_frames(name):
    call, kind = VALUES_THAT_FAIL[name]
    call(False)
    for _ in range(3):
        error = raised(call, True)
        assert isinstance(error, kind)
        assert len(own_frames(error)) <= 1, "".join(traceback.format_exception(error))
        call(False)


def test_a_call_that_fails_again_and_again_looks_the_same():
    x, w = tt.ones(3, 4), tt.ones(5, 3)
    found = ["".join(traceback.format_exception(raised(F.linear, x, w))) for _ in range(3)]
    assert len({text.partition("Error")[2] for text in found}) == 1
    assert all(len(own_frames(raised(F.linear, x, w))) == 1 for _ in range(3))


def test_a_plan_is_kept_once_it_has_run():
    packet = inspect.getmodule(tt.linear).linear_packet
    clear_plans()
    assert raised(F.linear, tt.ones(3, 4), tt.ones(5, 3)) is not None
    assert not any(packet.plans.values())
    F.linear(tt.ones(3, 4), tt.ones(5, 4))
    assert len(packet.plans) == 1


# The caller's own frames and contexts


class Doubled(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return tt.softmax(grad, 9)


class Reciprocal(tt.nn.Module):
    def forward(self, x):
        return tt.softmax(x, 9)


class Squares(tt.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return tt.softmax(tt.ones(2), 9)


class Refusing(tt.overrides.TensorFunctionMode):
    def __tensor_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Watching(tt.TensorDispatchMode):
    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def failing(*values):
    return tt.softmax(values[0], 9)


def through_module():
    tt.nn.Sequential(tt.nn.Identity(), Reciprocal())(tt.ones(2, 3))


def through_hooks_of_a_module():
    module = tt.nn.Linear(3, 3)
    module.register_forward_hook(lambda module, args, output: failing(output))
    module(tt.ones(2, 3))


def through_backward():
    Doubled.apply(tt.ones(3, requires_grad=True)).sum().backward()


def through_a_hook_of_a_tensor():
    x = tt.ones(3, requires_grad=True)
    x.register_hook(failing)
    (x * 2).sum().backward()


def through_autograd_grad():
    x = tt.ones(3, requires_grad=True)
    tt.autograd.grad(Doubled.apply(x).sum(), x)


def through_an_optimizer():
    x = tt.nn.Parameter(tt.ones(3))
    tt.optim.SGD([x], lr=0.1).step(lambda: failing(x))


def through_vmap():
    tt.vmap(failing)(tt.ones(2, 3))


def through_grad():
    tt.func.grad(failing)(tt.ones(3))


def through_jacrev():
    tt.func.jacrev(failing)(tt.ones(3))


def through_make_graph():
    tt.func.make_graph(failing)(tt.ones(3))


def through_functionalize():
    tt.func.functionalize(failing)(tt.ones(3))


def through_checkpoint():
    tt.utils.checkpoint.checkpoint(failing, tt.ones(3), use_reentrant=False)


def through_a_loader():
    next(iter(tt.utils.data.DataLoader(Squares(), batch_size=2)))


def through_a_function_mode():
    with Refusing():
        failing(tt.ones(3))


def through_a_dispatch_mode():
    with Watching():
        failing(tt.ones(3))


THROUGH = [value for name, value in globals().items() if name.startswith("through_")]


@pytest.mark.parametrize("call", THROUGH, ids=lambda call: call.__name__)
def test_the_callers_callbacks_stay_and_what_calls_them_goes(call):
    error = raised(call)
    assert type(error) is IndexError
    files = [entry.tb_frame.f_code.co_filename for entry in entries(error)]
    own = own_frames(error)
    assert len(own) <= 1, "".join(traceback.format_exception(error))
    assert files.count(__file__) >= 3 - (call is through_a_function_mode), files
    assert error.__context__ is None


def test_the_callers_frames_are_there_with_all_others_too(monkeypatch):
    monkeypatch.setenv("TRITEN_FULL_TRACEBACK", "1")
    error = raised(through_vmap)
    names = [entry.tb_frame.f_code.co_name for entry in entries(error)]
    assert names.index("through_vmap") < names.index("wrapped") < names.index("failing")


def test_an_error_that_the_caller_was_handling_stays():
    x = tt.ones(3, 4)
    handled = ValueError("the caller's")
    try:
        raise handled
    except ValueError:
        error = raised(tt.softmax, x, 7)
    assert error.__context__ is handled
    assert "the caller's" in "".join(traceback.format_exception(error))


def test_a_key_error_that_the_caller_was_handling_stays():
    try:
        {}["missing"]
    except KeyError as handled:
        error = raised(tt.zeros, "x")
        assert error.__context__ is handled


def test_a_cause_stays():
    def callback(x):
        try:
            {}["missing"]
        except KeyError as cause:
            raise ValueError("the caller's") from cause

    error = raised(tt.vmap(callback), tt.ones(3))
    assert isinstance(error.__cause__, KeyError)
    assert "direct cause" in "".join(traceback.format_exception(error))


def test_a_context_inside_a_callback_stays():
    def callback(x):
        try:
            {}["missing"]
        except KeyError:
            tt.softmax(x, 9)

    error = raised(tt.vmap(callback), tt.ones(3, 2))
    assert isinstance(error, IndexError) and isinstance(error.__context__, KeyError)
    assert error.__context__.args == ("missing",)


def test_what_the_package_hides_from_itself_does_not_hide_the_callers_error():
    source = textwrap.dedent(
        """
        def refuse():
            try:
                try: {}["inner"]
                except KeyError: raise ValueError("inner") from None
            except BaseException:
                hide_inner_frames()
                raise
        """
    )
    names = {"__name__": "triten.made_for_a_test", "hide_inner_frames": hide_inner_frames}
    exec(source, names)
    try:
        raise RuntimeError("the caller's")
    except RuntimeError as handled:
        error = raised(names["refuse"])
        assert error.__context__ is handled and not error.__suppress_context__


# Other places where errors arise and are printed


def test_errors_of_threads_are_as_those_of_the_main_one():
    found = []
    x = tt.ones(3, 4)
    threads = [threading.Thread(target=lambda: found.append(raised(tt.softmax, x, 7))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(own_frames(error)) for error in found] == [1] * 4
    assert all(error.__context__ is None for error in found)


@pytest.mark.parametrize("watched", ["trace", "profiler"])
def test_errors_under_a_trace_and_a_profiler(watched):
    x = tt.ones(3, 4)
    with ExitStack() as stack:
        if watched == "trace":
            stack.enter_context(tt.dispatch.show_trace(io.StringIO()))
        else:
            stack.enter_context(tt.profiler.profile(activities=[tt.profiler.ProfilerActivity.CPU]))
        for _ in range(2):
            error = raised(tt.mm, x, x)
            assert len(own_frames(error)) == 1 and error.__context__ is None


def test_a_logged_error_is_short_too():
    stream = io.StringIO()
    logger = logging.getLogger("test_tracebacks")
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        tt.mm(tt.ones(3), tt.ones(3))
    except RuntimeError:
        logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue().count("  File ") == 2


def test_what_stays_is_marked_for_pytest_and_ipython():
    (frame,) = own_frames(raised(tt.softmax, tt.ones(3, 4), 7))
    assert frame.f_locals["__tracebackhide__"] is True


def printed(program, **environment):
    """Return the lines that a program prints on standard error."""
    made = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return made.stderr.splitlines()


def test_an_uncaught_error_prints_the_callers_line_and_the_message():
    lines = printed("import triten as tt\ntt.softmax(tt.ones(3, 4), 7)\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File ")] == [
        '  File "<string>", line 2, in <module>'
    ]
    assert lines[-1].startswith("IndexError: Dimension out of range")


def test_an_uncaught_error_of_a_thread_prints_no_inner_frames():
    lines = printed(
        """
        import threading
        import triten as tt
        thread = threading.Thread(target=lambda: tt.softmax(tt.ones(3, 4), 7))
        thread.start()
        thread.join()
        """
    )
    assert not [line for line in lines if "softmax_packet" in line or "generated" in line]
    assert lines[-1].startswith("IndexError: Dimension out of range")


def test_the_environment_variable_shows_an_uncaught_errors_frames():
    lines = printed("import triten as tt\ntt.softmax(tt.ones(3, 4), 7)\n", TRITEN_FULL_TRACEBACK="1")
    assert sum(line.startswith("  File ") for line in lines) > 5


def test_a_programs_own_hook_stays():
    lines = printed(
        """
        import sys
        def hook(*error):
            print("the program's own", file=sys.stderr)
        sys.excepthook = hook
        import triten as tt
        tt.softmax(tt.ones(3, 4), 7)
        """
    )
    assert lines == ["the program's own"]


def test_importing_sets_no_hook():
    lines = printed(
        """
        import sys, threading
        import triten as tt
        tt.ones(2) + 1
        assert sys.excepthook is sys.__excepthook__ and threading.excepthook is threading.__excepthook__
        """
    )
    assert lines == []


# Faults of the package


def test_an_error_that_nobody_raised_says_how_to_see_more():
    names = {"__name__": "triten.made_for_a_test"}
    exec("def compute():\n    return None._spec\n", names)
    error = raised(api_boundary(names["compute"]))
    assert isinstance(error, AttributeError) and NOTE in error.__notes__[0]
    outer = raised(api_boundary(lambda: (_ for _ in ()).throw(error)))
    assert len(outer.__notes__) == 1


def test_an_error_that_was_raised_for_the_caller_has_no_note():
    assert not hasattr(raised(tt.softmax, tt.ones(3, 4), 7), "__notes__")


# Costs


@pytest.mark.parametrize(
    "function",
    [F.softmax, F.relu, F.layer_norm, F.silu, tt.nn.Module.__call__, tt.zeros, tt.empty],
    ids=lambda function: function.__qualname__,
)
def test_a_handler_is_no_instruction_of_a_call_without_error(function):
    import dis

    # The look-up of factories has one; what asks arguments of other classes first has one on that way alone.
    allowed = 2 if function in (tt.zeros, tt.empty) else function.__code__ is asking_first.__code__
    assert [each.opname for each in dis.get_instructions(function)][:-1].count("NOP") <= allowed


# Plans' lines


def test_a_traceback_through_a_plan_shows_its_line():
    """Test in a new process: after many plans, the source lines of the first ones are evicted."""
    program = """
        import sys, traceback
        import triten as tt
        try:
            tt.nn.functional.embedding(tt.tensor([9]), tt.ones(3, 2))
        except IndexError as error:
            for frame in traceback.extract_tb(error.__traceback__):
                if frame.filename.startswith("<triten plan"):
                    print(frame.line, file=sys.stderr)
    """
    lines = printed(program, TRITEN_FULL_TRACEBACK="1")
    assert lines and all(lines) and any("compute(" in line for line in lines)
