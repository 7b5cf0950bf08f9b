"""Parts of functions: nested graph breaks, tracebacks, limits, changes, devices, and counts."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.test_graph_breaks import (
    FUNCTIONS,
    branch,
    graphs,
    item,
    item_used,
    iterators,
    numpy_inside,
    outcome,
    rebound_closures,
    same_list,
    tree_of,
)

scale: Any = 2.0


class Inner(tt.nn.Module):
    """Module with data-dependent control flow."""

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
    """Module that wraps `Inner`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.norm = tt.nn.LayerNorm(4)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = self.inner(self.norm(x) * 1.5)
        return self.norm(x).tanh()


class Outer(tt.nn.Module):
    """Module with graph breaks two levels down."""

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
    """Module that calls its base class."""

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
        # Products of a few rows may differ by where these lie in memory.
        tt.testing.assert_close(found, expected, msg=lambda text, call=call: f"call {call}: {text}")
        expected.sum().backward()
        found.sum().backward()
        tt.testing.assert_close(mine.grad, given.grad)
        tt.testing.assert_close([p.grad for p in own.parameters()], [p.grad for p in eager.parameters()])
        assert own.blocks[1].inner.calls == eager.blocks[1].inner.calls
        same(own.seen, eager.seen)
        assert own.last == pytest.approx(eager.last, rel=1e-5)
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

    compiled = tt.compile(f, recompile_limit=2, dynamic=False)
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
