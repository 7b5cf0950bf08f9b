"""A function that cannot be captured runs eagerly, with its own results and errors and with its effects once
a call.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

calls = 0


def item(x: tt.Tensor) -> Any:
    return x * x.sum().item()


def condition(x: tt.Tensor) -> Any:
    if x.sum() > 0:
        return x + 1
    return x - 1


def loop(x: tt.Tensor) -> Any:
    while x.abs().max() > 1:
        x = x / 2
    return x


def array(x: tt.Tensor) -> Any:
    return tt.from_numpy(x.numpy() * 2) + x


def elements(x: tt.Tensor) -> Any:
    return x.tolist(), float(x[0]), list(map(int, x))


def size_of_data(x: tt.Tensor) -> Any:
    return x[x > 0] * 2, x.nonzero(), x.unique()


def text(x: tt.Tensor) -> Any:
    return x * len(f"{x}")


def opaque(x: tt.Tensor) -> Any:
    return [x * 2, np.float32(3)]


READERS: dict[str, Callable[[tt.Tensor], Any]] = {
    f.__name__: f for f in (item, condition, loop, array, elements, size_of_data, text, opaque)
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", READERS)
def test_functions_that_read_values(name: str, sign: int) -> None:
    f = READERS[name]
    compiled = tt.compile(f)
    for call in range(4):
        x = drawn(4, seed=call).abs() * sign
        same(compiled(x), f(x), name)
    assert graphs(compiled) == 0


class Held(tt.nn.Module):
    """Module that reads the value of a buffer, after a write if `writes` is set."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes
        self.register_buffer("count", tt.tensor(3.0))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        if self.writes:
            self.count.add_(1)
        return x * float(self.count)


@pytest.mark.parametrize("writes", [True, False])
def test_the_value_of_a_tensor_that_the_function_holds(writes: bool) -> None:
    module, eager = Held(writes), Held(writes)
    compiled = tt.compile(module)
    for call in range(4):
        for each in (module, eager):
            each.count.add_(call)
        same(compiled(drawn(4)), eager(drawn(4)))
    assert graphs(compiled) == 0
    with pytest.raises(tt.compiler.Unsupported, match="reads the value of a tensor that it holds"):
        tt.compile(module, fullgraph=True)(drawn(4))


@pytest.mark.parametrize("name", READERS)
def test_fullgraph_refuses_them_and_names_the_line(name: str) -> None:
    compiled = tt.compile(READERS[name], fullgraph=True)
    for _ in range(2):
        with pytest.raises(tt.compiler.Unsupported, match=f"^{name} cannot be captured: ") as caught:
            compiled(drawn(4))
    if name not in ("text", "opaque"):
        assert f"{__file__}:{READERS[name].__code__.co_firstlineno + (name != 'size_of_data' or 1)}: " in str(
            caught.value
        )


class Counter:
    """Object whose attributes a function changes."""

    def __init__(self) -> None:
        self.count, self.seen, self.by_name = 0, [0], {"calls": 0}
        self.last: Any = None

    def __call__(self, x: tt.Tensor) -> tt.Tensor:
        self.count += 1
        self.seen.append(self.count)
        self.by_name["calls"] += 1
        self.by_name[f"call {self.count}"] = self.count
        self.last = x * self.count
        return self.last + 1


@pytest.mark.parametrize("form", ["object", "closure", "argument", "method"])
def test_effects_on_objects_happen_once_a_call(form: str) -> None:
    counter = Counter()
    given = tt.compile(lambda x, c: c(x))
    compiled: Any = {
        "object": lambda: tt.compile(counter),
        "closure": lambda: tt.compile(lambda x: counter(x)),
        "argument": lambda: lambda x: given(x, counter),
        "method": lambda: tt.compile(counter.__call__),
    }[form]()
    for call in range(1, 6):
        same(compiled(tt.ones(2)), tt.ones(2) * call + 1)
        assert counter.count == counter.by_name["calls"] == counter.by_name[f"call {call}"] == call
        assert counter.seen == list(range(call + 1))
        same(counter.last, tt.ones(2) * call)


def test_effects_on_globals_closures_and_lists_that_are_arguments() -> None:
    total, logged = 0, []

    def f(x: tt.Tensor, log: list[Any]) -> tt.Tensor:
        global calls
        nonlocal total
        calls += 1
        total += 1
        logged.append(total)
        return x + total

    compiled = tt.compile(f)
    before = calls
    for call in range(1, 5):
        same(compiled(tt.ones(2), []), tt.ones(2) + call)
        assert (calls - before, total, logged) == (call, call, list(range(1, call + 1)))


def test_buffers_that_are_replaced() -> None:
    class Running(tt.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", tt.zeros(2))

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            self.mean = self.mean * 0.5 + x * 0.5
            return x - self.mean

    eager, own = Running(), Running()
    compiled = tt.compile(own)
    for call in range(4):
        same(compiled(drawn(2, seed=call)), eager(drawn(2, seed=call)))
        same(own.mean, eager.mean)


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        print("called with", tuple(x.shape))
        return x + 1

    compiled = tt.compile(f)
    for call in range(1, 6):
        compiled(tt.ones(2))
        assert capsys.readouterr().out == "called with (2,)\n", f"call {call}"


@pytest.mark.parametrize(
    "draw", [random.random, lambda: np.random.rand(), lambda: np.random.normal(size=2).sum()]
)
def test_random_numbers_of_others_are_drawn_anew_each_call(draw: Callable[[], float]) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return x + float(draw())

    def run(function: Callable[[tt.Tensor], tt.Tensor]) -> list[Any]:
        random.seed(3)
        np.random.seed(3)
        return [function(tt.zeros(2)).tolist() for _ in range(5)]

    assert run(tt.compile(f)) == run(f)


def test_backward_inside() -> None:
    def made() -> tuple[tt.nn.Linear, Any]:
        tt.manual_seed(0)
        layer = tt.nn.Linear(3, 1)

        def step(x: tt.Tensor) -> tt.Tensor:
            loss = layer(x).exp().sum()
            loss.backward()
            return loss.detach()

        return layer, step

    (given, eager), (own, step) = made(), made()
    compiled = tt.compile(step)
    for call in range(4):
        same(compiled(drawn(2, 3, seed=call)), eager(drawn(2, 3, seed=call)))
        same([p.grad for p in own.parameters()], [p.grad for p in given.parameters()])


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_what_is_made_inside(create_graph: bool) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        y = x.detach().requires_grad_()
        (grad,) = tt.autograd.grad((y**3).sum(), y, create_graph=create_graph)
        return grad * 2

    compiled = tt.compile(f)
    for _ in range(3):
        same(compiled(drawn(3)), f(drawn(3)))


def test_subclasses_of_tensors_and_modes_run_eagerly() -> None:
    class Tagged(tt.Tensor):
        """Tensor subclass."""

    compiled = tt.compile(lambda x: x * 2)
    tagged = drawn(3).as_subclass(Tagged)
    assert type(compiled(tagged)) is Tagged
    same(tt.func.vmap(compiled)(drawn(3, 4)), drawn(3, 4) * 2)
    assert graphs(compiled) == 0
    same(tt.func.grad(lambda x: compiled(x).sum())(drawn(3)), tt.ones(3) * 2)
    same(tt.func.jvp(compiled, (drawn(3),), (tt.ones(3),)), (drawn(3) * 2, tt.ones(3) * 2))


def test_a_whole_graph_is_asked_for_in_every_call() -> None:
    compiled = tt.compile(lambda x: x * x.sum().item(), fullgraph=True)
    for _ in range(5):
        with pytest.raises(tt.compiler.Unsupported, match="cannot be captured"):
            compiled(tt.ones(3))
