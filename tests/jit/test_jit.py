"""`tt.jit`: programs of TorchScript run as Python, as PyTorch runs them under ``PYTORCH_JIT=0``."""

# ruff: noqa: UP006, UP007, UP045 - types as programs write them

import threading
import typing

import pytest

import triten as tt
from triten import jit, nn


def double(x):
    return x * 2


def test_what_would_be_compiled_is_what_it_was():
    model = nn.Linear(2, 3)

    class Plain:
        pass

    for thing in (double, model, nn.Linear, Plain):
        assert jit.script(thing) is thing
    assert jit.trace(double, (tt.ones(2),)) is double
    assert jit.trace(model, tt.ones(2), check_trace=False, strict=False) is model
    assert jit.trace_module(model, {"forward": tt.ones(2)}) is model
    assert not isinstance(model, jit.ScriptModule | jit.ScriptFunction)
    assert jit.is_scripting() is False and jit.is_tracing() is False


def test_lazy_modules_are_refused_until_they_have_run():
    model = nn.Sequential(nn.ReLU(), nn.LazyLinear(3))
    with pytest.raises(
        RuntimeError,
        match=r"'LazyLinear' has uninitialized parameters \['weight', 'bias'\]\. Did you forget to run a forward pass",
    ):
        jit.script(model)
    model(tt.ones(1, 2))
    assert jit.script(model) is model
    module = nn.Module()
    module.register_buffer("count", nn.UninitializedBuffer())
    with pytest.raises(RuntimeError, match=r"'Module' has uninitialized parameters \['count'\]"):
        jit.script(module)


def test_tracing_does_not_call_the_function():
    jit.trace(lambda x: pytest.fail("called"), (tt.ones(2),))


def test_a_script_module_is_a_module():
    class Scale(jit.ScriptModule):
        __constants__ = ("by",)
        by: jit.Final[int]

        def __init__(self):
            super().__init__()
            self.by = jit.Attribute(3, int)
            self.weight = nn.Parameter(tt.ones(1))

        @jit.script_method
        def forward(self, x):
            return x * self.weight * self.by

    model = Scale()
    assert isinstance(model, jit.ScriptModule) and isinstance(model, nn.Module)
    assert model(tt.ones(2)).tolist() == [3, 3]
    assert [name for name, _ in model.named_parameters()] == ["weight"]


@pytest.mark.parametrize(
    "decorator",
    [jit.ignore, jit.ignore(), jit.unused, jit.export, jit._overload, jit._overload_method, jit._drop],
)
def test_decorators_leave_functions_as_they_are(decorator):
    assert decorator(double) is double


def test_deprecated_ways_to_ignore_warn():
    with pytest.warns(FutureWarning, match=r"ignore\(True\) has been deprecated"):
        assert jit.ignore(drop=True)(double) is double
    with pytest.warns(FutureWarning, match=r"ignore\(drop_on_export=True\) has been deprecated"):
        assert jit.ignore(drop_on_export=True)(double) is double
    with pytest.raises(RuntimeError, match="must be a bool or a function but got 3"):
        jit.ignore(3)


def test_a_function_that_would_be_compiled_in_traces_is_called():
    called = jit.script_if_tracing(double)
    assert called.__name__ == "double" and called(tt.ones(1)).item() == 2


def test_interfaces_have_no_bases():
    class Plain:
        pass

    class OfModule(nn.Module):
        pass

    assert jit.interface(Plain) is Plain and jit.interface(OfModule) is OfModule
    with pytest.raises(RuntimeError, match="interface must be applied to a class"):
        jit.interface(double)
    with pytest.raises(RuntimeError, match="does not support inheritance"):
        jit.interface(type("Derived", (Plain,), {}))


@pytest.mark.parametrize(
    ("obj", "kind", "answer"),
    [
        ([1], typing.List[int], True),
        ([1, "a"], list[int], False),
        ((1,), typing.List[int], False),
        ({"a": [1]}, typing.Dict[str, typing.List[int]], True),
        ({"a": 1}, dict[int, int], False),
        ((1, "a"), typing.Tuple[int, str], True),
        ((1,), tuple[int, str], False),
        (None, typing.Optional[int], True),
        ("a", typing.Optional[int], False),
        (1, typing.Union[str, int], True),
        (1, str | int, True),
        ([[1], ["a"]], list[list[int]], False),
        (3, (str, int), True),
        (tt.ones(1), tt.Tensor, True),
    ],
)
def test_isinstance_looks_at_elements(obj, kind, answer):
    assert jit.isinstance(obj, kind) is answer


def test_isinstance_refuses_containers_of_anything():
    for kind, name in ((typing.List, "List"), (list, "list"), (typing.Dict, "Dict")):
        with pytest.raises(RuntimeError, match=f"Attempted to use {name} without a contained type"):
            jit.isinstance([1], kind)
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        jit.isinstance(1, [int])
    with pytest.warns(UserWarning, match="inner type of a container is lost"):
        assert jit.isinstance([], list[int])


def test_freezing_gives_the_module_back_in_eval_mode():
    model = nn.Linear(2, 2)
    for freeze in (jit.freeze, jit.optimize_for_inference):
        with pytest.raises(RuntimeError, match="implemented for modules in eval mode"):
            freeze(model.train())
        assert freeze(jit.script(model.eval())) is model
        with pytest.raises(RuntimeError, match="expects a module as input, got function"):
            freeze(double)


def test_archives_and_text_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="an archive of TorchScript holds a compiled program"):
        jit.save(nn.Linear(2, 2), tmp_path / "model.pt")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="does not exist"):
        jit.load(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="is a directory"):
        jit.load(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(NotImplementedError, match="load its state_dict"):
        jit.load(tmp_path / "model.pt")
    with pytest.raises(NotImplementedError, match="TorchScript is not compiled"):
        jit.CompilationUnit("def f(x):\n    return x\n")


def test_fork_calls_at_once():
    future = jit.fork(double, tt.ones(2))
    assert future.done() and jit.wait(future).tolist() == [2, 2]
    with pytest.raises(ZeroDivisionError):
        jit.fork(lambda: 1 / 0)


def test_futures():
    future = jit.Future()
    seen = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    later, failing = future.then(lambda done: done.value() + 1), future.then(lambda done: 1 / 0)
    with pytest.raises(RuntimeError, match="not completed"):
        future.value()
    waiter = threading.Thread(target=lambda: seen.append(later.wait()))
    waiter.start()
    future.set_result(1)
    waiter.join(60)
    assert seen == [1, 2] and not waiter.is_alive()
    with pytest.raises(RuntimeError, match="error when running the callback: ZeroDivisionError"):
        failing.wait()
    with pytest.raises(RuntimeError, match="mark a completed Future as complete again"):
        future.set_result(2)
    with pytest.raises(AssertionError, match="is of type <class 'str'>, not an Exception"):
        jit.Future().set_exception("error")


def test_names_that_libraries_import():
    from triten import _jit_internal
    from triten.jit.annotations import BroadcastingList2

    def pooled(size: BroadcastingList2[int]) -> None:
        pass

    assert pooled.__annotations__["size"] in (list[int], "BroadcastingList2[int]")
    assert _jit_internal.ignore is jit.ignore and _jit_internal.BroadcastingList3[float] == list[float]
    assert tt.jit.annotate(int, 3) == 3
