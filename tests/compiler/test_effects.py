"""Effects beside results happen once in each call of a compiled function, captured or not."""

import collections
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional

CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], int]]] = {
    "set": (set, lambda o: o.add(len(o)), len),
    "deque": (collections.deque, lambda o: o.append(1), len),
    "bytearray": (bytearray, lambda o: o.append(1), len),
    "array": (lambda: np.zeros(1), lambda o: o.__iadd__(1), lambda o: int(o[0])),
    "list": (list, lambda o: o.append(1), len),
    "dict": (dict, lambda o: o.update({len(o): 1}), len),
}


@pytest.mark.parametrize("where", ["closure", "argument"])
@pytest.mark.parametrize("kind", CHANGES)
def test_containers_change_once_a_call(kind: str, where: str) -> None:
    make, change, count = CHANGES[kind]
    held = make()

    def f(x: tt.Tensor, o: Any) -> tt.Tensor:
        change(held if where == "closure" else o)
        return x + 1

    compiled = tt.compile(f)
    for call in range(1, 6):
        same(compiled(tt.ones(2), None if where == "closure" else held), tt.ones(2) + 1)
        assert count(held) == call


def test_slots_that_were_empty() -> None:
    class Cached:
        __slots__ = ("value",)

    cached = Cached()

    def f(x: tt.Tensor) -> tt.Tensor:
        if not hasattr(cached, "value"):
            cached.value = 3
        return x * cached.value

    same(tt.compile(f)(tt.ones(2)), tt.ones(2) * 3)
    assert cached.value == 3


@pytest.mark.parametrize("form", ["stdout", "warnings"])
def test_output(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        if form == "stdout":
            sys.stdout.write("once\n")
        else:
            warnings.warn("once", stacklevel=1)
        return x + 1

    compiled = tt.compile(f)
    for _ in range(4):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compiled(tt.ones(2))
        assert capsys.readouterr().out.count("once") + len(said) == 1


def by_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def by_timer(work: Callable[[], object]) -> None:
    timer = threading.Timer(0, work)
    timer.start()
    timer.join()


def by_executor(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)


def by_map(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.map(lambda _: work(), range(1))


def by_pool(work: Callable[[], object]) -> None:
    with ThreadPool(1) as pool:
        pool.apply(work)


@pytest.mark.parametrize("run", [by_thread, by_timer, by_executor, by_map, by_pool], ids=lambda f: f.__name__)
def test_threads_of_a_program_run_in_each_call(run: Callable[[Callable[[], object]], None]) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        total = tt.zeros_like(x)
        run(lambda: total.add_(x))
        return total * 2

    compiled = tt.compile(f)
    for _ in range(3):
        same(compiled(tt.ones(3)), tt.ones(3) * 2)
    with pytest.raises(tt.compiler.Unsupported, match="runs code in another thread"):
        tt.compile(f, fullgraph=True)(tt.ones(3))


def test_a_program_that_catches_a_refusal_is_not_captured() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        try:
            return x * x.sum().item()
        except Exception:
            return x * 0

    compiled = tt.compile(f)
    for _ in range(2):
        same(compiled(tt.ones(3)), tt.ones(3) * 3)


def test_gradients_of_arguments_and_of_parameters_are_set() -> None:
    layer = tt.nn.Linear(3, 1)

    def step(w: tt.Tensor) -> tt.Tensor:
        loss = layer(w).exp().sum()
        loss.backward()
        return loss.detach()

    compiled = tt.compile(step)
    given, own = drawn(3, grad=True), drawn(3, grad=True)
    for _ in range(3):
        layer.zero_grad()
        expected, gradient = step(given), layer.weight.grad
        layer.zero_grad()
        same(compiled(own), expected)
        same([own.grad, layer.weight.grad], [given.grad, gradient])


def test_hooks_of_parameters_run_once() -> None:
    layer, ran = tt.nn.Linear(3, 2), []
    compiled = tt.compile(layer)
    layer.weight.register_hook(lambda grad: ran.append("hook") or grad * 2)
    for call in range(1, 3):
        layer.zero_grad()
        result = compiled(tt.ones(2, 3))
        assert len(ran) == call - 1
        result.sum().backward()
        assert len(ran) == call
        same(layer.weight.grad, tt.full((2, 3), 4.0))


def test_parameters_that_are_written_to_still_require_gradients() -> None:
    parameters = [tt.nn.Parameter(tt.ones(3)) for _ in range(2)]
    eager, own = (tt.optim.SGD([p], 0.1, momentum=0.9) for p in parameters)
    step = tt.compile(own.step)
    for _ in range(3):
        for p in parameters:
            p.grad = None
            (p * p).sum().backward()
        eager.step()
        step()
        same(parameters[1].detach(), parameters[0].detach())
        assert parameters[1].requires_grad


def test_a_detached_argument_is_not_the_argument() -> None:
    x = drawn(3, grad=True)
    _, detached = tt.compile(lambda x: (x * 2, x.detach()))(x)
    assert not detached.requires_grad and detached.data_ptr() == x.data_ptr()


SETTERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "requires_grad": (lambda x: x.requires_grad_(), lambda x: x.requires_grad),
    "data": (lambda x: setattr(x, "data", tt.zeros(3)), lambda x: bool((x == 0).all())),
    "attribute": (lambda x: setattr(x, "tag", 1), lambda x: hasattr(x, "tag")),
    "grad mode": (lambda x: tt.set_grad_enabled(False), lambda x: not tt.is_grad_enabled()),
}


@pytest.mark.parametrize("name", SETTERS)
def test_what_is_set_of_an_argument_or_a_thread(name: str) -> None:
    change, is_changed = SETTERS[name]

    def f(x: tt.Tensor) -> tt.Tensor:
        change(x)
        return x * 2

    compiled = tt.compile(f)
    try:
        for _ in range(4):
            tt.set_grad_enabled(True)
            x = tt.ones(3)
            compiled(x)
            assert is_changed(x)
    finally:
        tt.set_grad_enabled(True)


def seeded(x: tt.Tensor) -> tt.Tensor:
    tt.manual_seed(3)
    return x + tt.rand(3)


def forked(x: tt.Tensor) -> tt.Tensor:
    with tt.random.fork_rng(devices=[]):
        tt.manual_seed(1)
        inside = tt.rand(3)
    return x + inside + tt.rand(3)


def own_generator(x: tt.Tensor) -> tt.Tensor:
    return x + tt.rand(3, generator=tt.Generator().manual_seed(1)) + tt.randint(5, (3,))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("f", [seeded, forked, own_generator])
def test_random_numbers_and_seeds(f: Callable[[tt.Tensor], tt.Tensor], grad: bool) -> None:
    agree(f, lambda: (drawn(3, grad=grad),), calls=4, fullgraph=False)


@pytest.mark.parametrize("where", ["argument", "closure"])
def test_a_generator_is_advanced_once_a_call(where: str) -> None:
    given, own = tt.Generator().manual_seed(3), tt.Generator().manual_seed(3)
    compiled = tt.compile(lambda x, g: x + tt.rand(3, generator=own if g is None else g))
    for _ in range(4):
        found = compiled(tt.ones(3), own if where == "argument" else None)
        same(found, tt.ones(3) + tt.rand(3, generator=given))
        same(own.get_state(), given.get_state())


def test_inference_mode_inside() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        with tt.inference_mode():
            return x * 2

    compiled = tt.compile(f)
    for _ in range(2):
        same(compiled(drawn(3)), f(drawn(3)))


@tt.library.custom_op("compiler_tests::scaled", mutates_args=())
def scaled(x: tt.Tensor, by: float) -> tt.Tensor:
    """Scale a tensor by NumPy in a custom operator."""
    return tt.from_numpy(x.numpy() * by)


@scaled.register_fake
def _(x: tt.Tensor, by: float) -> tt.Tensor:
    return tt.empty_like(x)


def test_a_custom_operator_is_captured() -> None:
    agree(lambda x: tt.relu(scaled(x + 1, 0.5)) * 2, lambda: (drawn(3),))


def test_tensors_made_of_numbers_are_made_anew_each_call() -> None:
    def f(x: tt.Tensor) -> Any:
        made = tt.tensor([1.0, 2.0, 3.0])
        made.add_(x)
        return made, x * tt.tensor(2.5), x[[0, 2]]

    agree(f, lambda: (drawn(3),), calls=3)


def test_arguments_are_not_kept_alive() -> None:
    class Settings:
        by = 2

    settings = Settings()
    dies = weakref.ref(settings)
    compiled = tt.compile(lambda x, o: x * o.by)
    same(compiled(tt.ones(2), settings), tt.ones(2) * 2)
    del settings
    gc.collect()
    assert dies() is None


HELD_CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "gradient": (lambda m: setattr(m.weight, "grad", None), lambda m: m.weight.grad is None),
    "zero_grad": (lambda m: m.zero_grad(), lambda m: m.weight.grad is None),
    "requires_grad": (lambda m: m.weight.requires_grad_(False), lambda m: not m.weight.requires_grad),
    "data": (lambda m: setattr(m.weight, "data", tt.zeros(2, 3)), lambda m: bool((m.weight == 0).all())),
    "new attribute": (lambda m: setattr(m, "calls", getattr(m, "calls", 0) + 1), lambda m: m.calls == 1),
}


@pytest.mark.parametrize("name", HELD_CHANGES)
def test_what_is_set_of_a_module_that_the_function_holds(name: str) -> None:
    change, is_changed = HELD_CHANGES[name]
    layer = tt.nn.Linear(3, 2)

    def f(x: tt.Tensor) -> tt.Tensor:
        change(layer)
        return x * 2

    compiled = tt.compile(f)
    for call in range(5):
        layer.weight.requires_grad_(True)
        layer.weight.data = tt.ones(2, 3)
        layer.weight.grad = None if call == 0 else tt.ones(2, 3)
        vars(layer).pop("calls", None)
        same(compiled(tt.ones(2)), tt.ones(2) * 2)
        assert is_changed(layer), f"call {call}"


def _in_context(x: Any, context: Any) -> tuple[Any, Any]:
    with context:
        inside = x * 2
    return inside, x * 3


def _in_context_with_a_break(x: Any, context: Any) -> tuple[Any, Any]:
    with context:
        inside = x * 2
        tt._dynamo.graph_break()
        inside = inside * 2
    return inside, x * 3


def _entered_before(mode: bool) -> Any:
    context = tt.set_grad_enabled(mode)
    tt.set_grad_enabled(True)
    return context


@pytest.mark.parametrize("function", [_in_context, _in_context_with_a_break])
@pytest.mark.parametrize(
    "context",
    [
        lambda: tt.set_grad_enabled(False),
        lambda: _entered_before(False),
        tt.no_grad,
        tt.inference_mode,
    ],
)
def test_a_grad_mode_context_among_the_arguments_or_held(function, context) -> None:
    x = tt.ones(2, requires_grad=True)
    compiled = tt.compile(function)
    held = context()
    closure = tt.compile(lambda x: function(x, held))
    tt.set_grad_enabled(True)
    try:
        for _ in range(2):
            for inside, outside in (compiled(x, context()), closure(x)):
                assert not inside.requires_grad
                assert outside.requires_grad
            assert tt.is_grad_enabled()
    finally:
        tt.set_grad_enabled(True)
