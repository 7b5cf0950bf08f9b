"""What cannot be captured splits a function there: what stands around it runs as graphs, and all is as it was."""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triten as tt
from triten.compiler.optimized import OptimizedFunction
from triten.tests.compiler.beside_eager import drawn, same

scale: Any = 2.0
count = 0


def tree_of(compiled: Any) -> Iterator[OptimizedFunction]:
    """A compiled function, its parts, and what they call."""
    root = vars(compiled).get("_compiled") or compiled._optimized
    return root.members()


def graphs(compiled: Any) -> int:
    """The graphs with operators in a compiled function, its parts and what they call."""
    return sum(each.graph_count for each in tree_of(compiled))


def item(x: tt.Tensor) -> Any:
    y = tt.relu(x * 2 + 1)
    s = y.sum().item()
    z = (y + 1) * 3
    return z.exp() * 0.5, s


def item_used(x: tt.Tensor) -> Any:
    y = x * 2
    s = y.sum().item()
    z = y.abs() + 1
    w = z * s
    return w.exp() + z


def printed(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    print("the sum is", y.sum().item())
    return y * 2 + x


def branch(x: tt.Tensor) -> Any:
    y = x * 2
    if y.sum() > 0:
        z = y + 1
    else:
        z = y - 1
        z = z * 2
    return z * y


def not_branch(x: tt.Tensor) -> Any:
    y = x * 2
    if not (y > 0).any():
        return -y
    return y + 1


def elifs(x: tt.Tensor) -> Any:
    y = x + 1
    if y.sum() > 10:
        return y * 2
    elif y.sum() > 0:
        z = y * 3
    elif y.sum() > -1:
        return y
    else:
        raise ValueError("too low")
    return z + x


def early_return(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    if y.sum() > 0:
        return y * 3
    z = y - 5
    return z * z


def while_loop(x: tt.Tensor) -> Any:
    steps = 0
    while x.abs().max() > 1:
        x = x / 2 + 0.01
        steps += 1
    else:
        x = x + 1
    return x * 3, steps


def while_break(x: tt.Tensor) -> Any:
    n = 0
    while True:
        x = x * 0.5 + 0.1
        n += 1
        if x.abs().max() < 1:
            break
        if n > 20:
            return x * 0
    return x + n


def for_loop(x: tt.Tensor) -> Any:
    total = 0.0
    for i in range(6):
        x = tt.relu(x + 1) * 0.5 + i
        if i == 1:
            continue
        total += x.sum().item()
        if total > 40:
            break
    else:
        x = x * 100
    return x * 2 + 1, total


def appended(x: tt.Tensor) -> Any:
    kept = []
    for _ in range(3):
        x = x * 2 + 1
        print(x.sum().item())
        kept.append(x.exp() * 0.1)
    return tt.stack(kept).sum(0) * 2


def maybe_unbound(x: tt.Tensor) -> Any:
    if x.shape[0] > 3:
        a = x + 1
    b = x * 2
    s = b.sum().item()
    if s > 0:
        c = b * 2
    del b
    d = x.exp() + 1
    return a + d, c * d


def comprehension(x: tt.Tensor) -> Any:
    parts = [x * i for i in range(3)]
    total = sum(p.sum().item() for p in parts)
    doubled = {i: (y := p * 2) + y for i, p in enumerate(parts)}
    return doubled, total, y + 1


def with_blocks(x: tt.Tensor) -> Any:
    y = x * 2
    with tt.no_grad():
        z = y * 3
        print(z.sum().item())
        z = z + y.exp()
    w = z * y
    with tt.autocast("cpu", dtype=tt.bfloat16):
        v = w[None] @ y[:, None]
        print(v.dtype, v.sum().item() > 0)
        v = v @ v
    return w.tanh() + 1, v


def suppressed(x: tt.Tensor) -> Any:
    y = x * 1
    with contextlib.suppress(ValueError):
        y = x * 2 + 1
        if y.sum() > 0:
            y = y * 3
            raise ValueError("positive")
        y = y * 5
    return y + 1


def tried(x: tt.Tensor) -> Any:
    y = x + 0
    try:
        y = x * 2 + 1
        if y.sum() > 0:
            raise KeyError("positive")
        z = y * 5
    except KeyError as error:
        z = y * 7 + len(error.args)
        print(z.sum().item())
    else:
        z = z + 1
    finally:
        y = y.exp() + 1
    return z * y


def written(x: tt.Tensor) -> Any:
    y = x.clone()
    view = y[1:]
    y.mul_(2).add_(1)
    print(y.sum().item())
    view.mul_(3)
    x.add_(1)
    print(view.sum().item())
    return y + 1, view * x[1:]


def random_numbers(x: tt.Tensor) -> Any:
    y = x + tt.rand(4)
    print(y.sum().item())
    z = y * tt.randn(4)
    if z.sum() > 0:
        z = z + tt.rand(4)
    return tt.nn.functional.dropout(z, 0.5)


def globals_written(x: tt.Tensor) -> Any:
    global count
    y = x * scale + 1
    count += 1
    z = y * 2 + count
    print(z.sum().item())
    return z.exp() + count


def nested_functions(x: tt.Tensor) -> Any:
    y = x * 2

    def inner(t: tt.Tensor) -> tt.Tensor:
        return t * y + scale

    z = inner(y) + 1
    print(z.sum().item())
    w = inner(z) * 2
    return w + (lambda t: t * z)(w)


def rebound_closures(x: tt.Tensor) -> Any:
    def inner(t: tt.Tensor) -> tt.Tensor:
        return t * y

    y = x * 2
    a = inner(x)
    print(a.sum().item())
    y = y + a
    return inner(a) + 1


def matched(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    match (y.sum().item() > 0, y):
        case (True, t):
            z = t * 3 + 1
        case (False, _):
            z = y - 1
    return z.exp()


def numpy_inside(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    a = y.numpy() * 2
    return tt.from_numpy(a) + y * 3


def data_sized(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    found = y[y > 0]
    z = y.exp() + 1
    return found * 2, z, tt.nonzero(z > 1)


def arguments(x: tt.Tensor, *rest: Any, by: float = 2.0, **more: Any) -> Any:
    y = x * by + len(rest)
    print(y.sum().item())
    for each in rest:
        y = y + each
    return y * more.get("last", 3) + by


def objects(x: tt.Tensor) -> Any:
    size = x.shape
    dtype = x.dtype
    kind = tt.relu
    made = object()
    y = kind(x * 2)
    print(y.sum().item())
    z = tt.zeros(size, dtype=dtype) + y
    return kind(z - 1), made is not None, isinstance(size, tuple)


def attributes(x: tt.Tensor) -> Any:
    y = x * 2 + 1
    y.tag = "tagged"  # type: ignore[attr-defined]
    print(y.sum().item())
    return y * 2, y.tag  # type: ignore[attr-defined]


class Box:
    """An object that is made in each call."""

    def __init__(self, value: Any) -> None:
        self.value = value


def made_objects(x: tt.Tensor) -> Any:
    box = Box(x * 2)
    print(box.value.sum().item())
    box.value = box.value + 1
    return box.value * x, box.value


def same_list(x: tt.Tensor) -> Any:
    a = [x * 2]
    b = a
    print(a[0].sum().item())
    b.append(x)
    y = tt.stack(a).sum(0) * 2
    if a is b:
        y = y + 1
    return y


def iterators(x: tt.Tensor) -> Any:
    y = x * 2
    it = iter([y, y + 1, y + 2])
    z = next(it) + 1
    print(z.sum().item())
    w = next(it) * z
    return w + next(it)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        item, item_used, printed, branch, not_branch, elifs, early_return, while_loop, while_break, for_loop, appended,
        maybe_unbound, comprehension, with_blocks, suppressed, tried, written, random_numbers, globals_written,
        nested_functions, matched, data_sized, arguments, objects, attributes, made_objects,
    )
}  # fmt: skip


def outcome(
    function: Callable[..., Any], given: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> tuple[Any, ...]:
    """What a call gives: its result or error, arguments, output, global, and the next random number."""
    global count
    count = 0
    tt.manual_seed(3)
    try:
        result = function(*given)
    except Exception as error:
        result = type(error).__name__, str(error)
    return result, given, capsys.readouterr().out, count, tt.rand(1)


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_split_function_does_what_it_did(name: str, grad: bool, capsys: pytest.CaptureFixture[str]) -> None:
    f = FUNCTIONS[name]
    compiled = tt.compile(f)
    for call in range(5):
        sign = -1 if call == 1 else 1
        given, own = ((drawn(4, seed=call, grad=grad).detach().abs() * sign,) for _ in range(2))
        if grad:
            given, own = ((x[0].requires_grad_() * 1,) for x in (given, own))
        expected = outcome(f, given, capsys)
        found = outcome(compiled, own, capsys)
        same(found, expected, f"{name} call {call}")
    assert graphs(compiled) >= 2, "what stands around the break is captured"


@pytest.mark.parametrize(
    "name", ["item", "item_used", "branch", "for_loop", "while_break", "tried", "with_blocks"]
)
def test_gradients_flow_through_parts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    f = FUNCTIONS[name]
    compiled = tt.compile(f)
    for call in range(4):
        given, own = (drawn(4, seed=call, grad=True) for _ in range(2))
        for function, x in ((f, given), (compiled, own)):
            result = function(x)
            (result[0] if isinstance(result, tuple) else result).sum().backward()
        same(own.grad, given.grad, f"{name} call {call}")


class Inner(tt.nn.Module):
    """A module that looks at data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tt.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        h = tt.relu(self.linear(x)) * 2
        if h.sum() > 1e9:
            raise ValueError("too large")
        self.calls += 1
        return self.linear(h) + self.calls


class Middle(tt.nn.Module):
    """A module between."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.norm = tt.nn.LayerNorm(4)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = self.inner(self.norm(x) * 1.5)
        return self.norm(x).tanh()


class Outer(tt.nn.Module):
    """A module whose parts look at data two levels down."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = tt.nn.ModuleList([Middle(), Middle()])
        self.register_buffer("seen", tt.zeros(()))
        self.__scale = 3.0

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        for block in self.blocks:
            x = block(x) + x
        self.seen += 1
        self.last = float(x.detach().sum())
        return x.exp() * self.__scale


class Derived(Outer):
    """A module that calls the class that it is derived from."""

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        y = super().forward(x * 0.5)
        self.mean = y.mean().item()
        return super().forward(y.tanh()) * 2 + __class__.__name__.count("e")


@pytest.mark.parametrize("kind", [Outer, Derived])
def test_modules_that_break_two_levels_down(kind: type[Outer]) -> None:
    tt.manual_seed(0)
    eager, own = kind(), kind()
    own.load_state_dict(eager.state_dict())
    compiled = tt.compile(own)
    for call in range(4):
        given, mine = (drawn(3, 4, seed=call, grad=True) for _ in range(2))
        expected, found = eager(given), compiled(mine)
        same(found, expected, f"call {call}")
        expected.sum().backward()
        found.sum().backward()
        same(mine.grad, given.grad)
        same([p.grad for p in own.parameters()], [p.grad for p in eager.parameters()])
        assert own.blocks[1].inner.calls == eager.blocks[1].inner.calls
        same((own.seen, own.last), (eager.seen, eager.last))
    assert graphs(compiled) >= 8
    names = {each.name for each in tree_of(compiled)}
    assert {"Middle", "Inner"} <= names, "modules that break are compiled themselves"


def test_a_training_loop() -> None:
    def train(model: Any, optimizer: Any, data: Any) -> list[float]:
        losses = []
        for x, y in data:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def run(function: Callable[..., list[float]]) -> list[list[float]]:
        tt.manual_seed(0)
        model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 1))
        optimizer = tt.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = [(drawn(5, 4, seed=i), drawn(5, 1, seed=i + 9)) for i in range(3)]
        return [function(model, optimizer, data) for _ in range(4)]

    compiled = tt.compile(train)
    assert run(compiled) == run(train)
    assert graphs(compiled) >= 2


def fails_after(x: tt.Tensor) -> Any:
    y = x * 2
    print(y.sum().item())
    z = y + 1
    z = fails_within(z)
    return z


def fails_within(z: tt.Tensor) -> Any:
    w = z * 2
    if w.sum() > 0:
        v = w + 1
        raise ValueError(f"the sum is {v.sum().item()}")
    return z


def test_tracebacks_are_the_program_s(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tt.compile(fails_after)
    first, second = (f.__code__.co_firstlineno for f in (fails_after, fails_within))
    for _ in range(5):
        with pytest.raises(ValueError, match=r"^the sum is 45\.0$") as caught:
            compiled(tt.ones(3) * 3)
        trace = traceback.extract_tb(caught.value.__traceback__)
        places = [(each.name, each.lineno) for each in trace if each.name.startswith("fails")]
        assert places == [("fails_after", first + 4), ("fails_within", second + 4)]
    assert capsys.readouterr().out.count("18.0") == 5


def test_errors_before_and_after_the_break() -> None:
    def f(x: tt.Tensor, where: str) -> tt.Tensor:
        y = x * 2 + (tt.ones(7) if where == "before" else 1)
        s = y.sum().item()
        if where == "at":
            raise KeyError(s)
        z = y + (tt.ones(9) if where == "after" else s)
        return z * 2

    compiled = tt.compile(f)
    for where in ("", "before", "at", "after") * 4:
        x = drawn(4)
        try:
            expected: Any = f(x, where)
        except (RuntimeError, KeyError) as error:
            with pytest.raises(type(error)) as caught:
                compiled(x, where)
            assert str(caught.value) == str(error)
        else:
            same(compiled(x, where), expected)


@pytest.mark.parametrize(
    "f",
    [
        rebound_closures,
        numpy_inside,
        iterators,
        same_list,
        lambda x: (x * 2 + 1) * (x.exp() + 1).sum().item(),
    ],
)
def test_other_functions_are_right_too(f: Callable[..., Any]) -> None:
    compiled = tt.compile(f)
    for call in range(4):
        same(compiled(drawn(4, seed=call)), f(drawn(4, seed=call)))


def test_a_whole_graph_that_is_asked_for_is_not_split() -> None:
    compiled = tt.compile(item, fullgraph=True)
    for _ in range(2):
        line = item.__code__.co_firstlineno + 2
        with pytest.raises(
            tt.compiler.Unsupported, match=rf"test_graph_breaks.py:{line}: s = y.sum\(\).item"
        ):
            compiled(drawn(4))
    assert graphs(compiled) == 0


def test_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = tt.compiler.explain(branch, tt.ones(4))
    assert (found.graph_count, found.graph_break_count) == (3, 1)
    assert "test_graph_breaks.py" in found.break_reasons[0] and "if y.sum() > 0:" in found.break_reasons[0]
    assert found.op_count == 5
    assert "Graph 3: 1 steps" in str(found) and "Graph breaks: 1" in str(found)
    whole = tt.compiler.explain(lambda x: x.exp() + 1, tt.ones(4))
    assert (whole.graph_count, whole.graph_break_count) == (1, 0)
    capsys.readouterr()


def test_parts_have_limits_of_their_own() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        y = x * 2 + 1
        return y.exp() * 0.5 + (y > 0)[:1].sum().item()

    compiled = tt.compile(f, recompile_limit=2)
    with pytest.warns(UserWarning, match="f has 2 graphs, which is recompile_limit"):
        for n in range(3, 7):
            same(compiled(drawn(n)), f(drawn(n)))
    counts = [each.graph_count for each in tree_of(compiled)]
    assert counts[0] == 0 and max(counts) == 2


def test_numbers_that_are_read_do_not_make_a_graph_each() -> None:
    compiled = tt.compile(item_used)
    for call in range(12):
        same(compiled(drawn(4, seed=call)), item_used(drawn(4, seed=call)))
    before = graphs(compiled)
    assert before <= 8
    for call in range(20, 30):
        compiled(drawn(4, seed=call))
    assert graphs(compiled) == before


def test_forgotten_parts_are_made_anew() -> None:
    compiled = tt.compile(branch)
    for _ in range(2):
        same(compiled(tt.ones(3)), branch(tt.ones(3)))
        assert graphs(compiled) == 3
        tt.compiler.reset()
        assert graphs(compiled) == 0


@pytest.mark.parametrize("change", ["global", "defaults", "code"])
def test_what_a_split_function_reads_may_change(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: tt.Tensor, by: float = 2.0) -> tt.Tensor:
        y = x * by + scale
        s = y.sum().item()
        return y.exp() * scale + (s > 0)

    def other(x: tt.Tensor, by: float = 2.0) -> tt.Tensor:
        return x - 7

    compiled = tt.compile(f)
    for _ in range(4):
        same(compiled(drawn(4)), f(drawn(4)))
    if change == "global":
        monkeypatch.setitem(globals(), "scale", 5.0)
    elif change == "defaults":
        f.__defaults__ = (9.0,)
    else:
        f.__code__ = other.__code__
    for _ in range(2):
        same(compiled(drawn(4)), f(drawn(4)))


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_devices(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        y = tt.relu(x * 2 + 1) * 3
        print(tuple(y.shape), y.device.type)
        z = (y + 1) * y
        return z.sum(0) * 2

    compiled = tt.compile(f)
    for call in range(3):
        given, own = (drawn(3, 4, seed=call, device=device, grad=True) for _ in range(2))
        expected, found = f(given), compiled(own)
        assert (found.shape, found.device, found.requires_grad) == (expected.shape, expected.device, True)
        expected.sum().backward()
        found.sum().backward()
        if device != "meta":
            same(found, expected)
            same(own.grad, given.grad)
    assert capsys.readouterr().out == f"(3, 4) {device}\n" * 6
    assert graphs(compiled) == 2


@pytest.mark.parametrize("name", ["item", "branch", "while_break", "written"])
def test_on_cuda(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    f = FUNCTIONS[name]
    compiled = tt.compile(f)
    for call in range(2):
        given, own = ((drawn(4, seed=call, device="cuda"),) for _ in range(2))
        same(outcome(compiled, own, capsys), outcome(f, given, capsys), name)
    kernels = [s for each in tree_of(compiled) for g in each.graphs() for s in g.schedules if s is not None]
    assert any(schedule.kernels for schedule in kernels)
