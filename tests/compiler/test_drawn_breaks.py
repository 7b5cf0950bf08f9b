"""Randomized programs with graph breaks at random places do the same compiled and eagerly.

A program is the text of a function of three tensors: assignments, loops, conditions on data, try blocks,
early returns, deleted variables, writes, output, effects on lists. It may end in an error, which the test
compares, too.
"""

import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.shared.comparison import close

HELPER = """
def helper(x, log):
    y = x.tanh() * 2
    if y.sum() > 0:
        log.append(y.sum().item())
        return y + 1
    return y - x
"""


class Writer:
    """Generator of a randomized program's text."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0

    def program(self) -> str:
        self.lines = ["def program(a, b, c, log):", "    n = 0"]
        self.block(1, False, self.draw.randint(5, 9))
        self.lines.append("    return a, b, c, n")
        return HELPER + "\n".join(self.lines) + "\n"

    def variable(self) -> str:
        return self.draw.choice("aaabbc")

    def value(self) -> str:
        a, b = self.variable(), self.variable()
        if self.draw.random() < 0.02:
            return f"(lambda t: t * 0.5 + {b})({a})"
        return self.draw.choice(
            (
                f"({a} * 2 + {b}).tanh()", f"{a}.sin() - {b} * n", f"tt.relu({a}) * {b}.tanh()", f"({a} + 1).tanh()",
                f"[{a} * i for i in (1, 2)][1] + {b}", f"{a}.clone()", f"{a}", f"helper({a}, log) * 0.5",
                f"{a}.tanh() * {b}.sum().tanh().item()", f"{a} if {b}.sum() > 0 else {b} * 2", f"{a}[[1, 0, 3, 2]]",
                f"{a} + tt.rand(4)",
            )
        )  # fmt: skip

    def condition(self) -> str:
        a, b = self.variable(), self.variable()
        return self.draw.choice(
            (
                f"{a}.sum() > {b}.sum()",
                f"not ({a} > 0.5).any()",
                f"{a}.mean().item() < 0.1",
                "n > 1",
                f"({a}.sum() > 0 or n)",
            )
        )

    def block(self, depth: int, in_loop: bool, count: int | None = None) -> None:
        for _ in range(count or self.draw.randint(1, 3)):
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        indent, a = "    " * depth, self.variable()
        kinds = ["value"] * 8 + ["print", "append", "read", "count", "write", "delete"]
        if depth < 4:
            kinds += ["if", "if", "for", "while", "try", "with", "return"]
        if in_loop:
            kinds += ["break", "continue"]
        kind = self.draw.choice(kinds)
        add = self.lines.append
        if kind == "value":
            add(f"{indent}{a} = {self.value()}")
        elif kind == "print":
            add(f"{indent}print('{a}', ({a} * 2).sum().item(), n)")
        elif kind == "append":
            add(f"{indent}log.append(({a} + 1).sum().item())")
        elif kind == "read":
            add(f"{indent}s = {a}.sum().item()")
            add(f"{indent}{a} = {a} * (s > 0) + {self.variable()}")
        elif kind == "count":
            add(f"{indent}n += {self.draw.choice((1, 2))}")
        elif kind == "write":
            add(f"{indent}{a} = {a}.clone()")
            add(f"{indent}d = {a}[1:]")
            add(f"{indent}d.mul_(0.5)")
        elif kind == "delete":
            add(f"{indent}del {a}" if self.draw.random() < 0.3 else f"{indent}n = n * 1")
        elif kind == "if":
            add(f"{indent}if {self.condition()}:")
            self.block(depth + 1, in_loop)
            if self.draw.random() < 0.5:
                add(f"{indent}else:")
                self.block(depth + 1, in_loop)
        elif kind in ("for", "while"):
            self.loop(kind, depth)
        elif kind == "try":
            self.attempt(depth, in_loop)
        elif kind == "with":
            manager = self.draw.choice(
                ("tt.no_grad()", "contextlib.suppress(ValueError)", "tt.enable_grad()")
            )
            add(f"{indent}with {manager}:")
            self.block(depth + 1, in_loop)
            if self.draw.random() < 0.5:
                add(f"{indent}    if {self.condition()}: raise ValueError('within')")
        elif kind == "return":
            add(f"{indent}if {self.condition()}:")
            add(f"{indent}    return {self.value()}, n")
        else:
            add(f"{indent}if {self.condition()}: {kind}")

    def loop(self, kind: str, depth: int) -> None:
        indent = "    " * depth
        self.labels += 1
        name = f"k{self.labels}"
        if kind == "for":
            self.lines.append(f"{indent}for {name} in range({self.draw.randint(1, 3)}):")
        else:
            self.lines += [f"{indent}{name} = 0", f"{indent}while {name} < 3 and {self.condition()}:"]
            self.lines.append(f"{indent}    {name} += 1")
        self.block(depth + 1, True)
        if self.draw.random() < 0.3:
            self.lines.append(f"{indent}else:")
            self.block(depth + 1, False)

    def attempt(self, depth: int, in_loop: bool) -> None:
        indent = "    " * depth
        self.lines.append(f"{indent}try:")
        self.block(depth + 1, in_loop)
        self.lines.append(f"{indent}    if {self.condition()}: raise ValueError('attempt')")
        self.block(depth + 1, in_loop)
        if self.draw.random() < 0.8:
            self.lines.append(f"{indent}except ValueError as error:")
            self.block(depth + 1, in_loop)
            self.lines.append(f"{indent}    log.append(str(error))")
        else:
            self.lines += [f"{indent}finally:", f"{indent}    n += 1"]
            self.block(depth + 1, False)


def made(text: str, name: str) -> Callable[..., Any]:
    """Return the function of a source text, and register its lines for tracebacks."""
    import contextlib

    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"tt": tt, "contextlib": contextlib, "__name__": "drawn"}
    exec(compile(text, name, "exec"), names)
    function: Callable[..., Any] = names["program"]
    return function


def outcome(function: Callable[..., Any], seed: int, grad: bool, capsys: Any) -> tuple[Any, Any]:
    """Return the result or error of a call, its effects, its output, the next random number and the
    gradients.
    """
    tt.manual_seed(seed)
    given = [drawn(4, seed=seed + i, grad=grad) for i in range(3)]
    log: list[Any] = []
    gradients: Any = None
    try:
        result = function(*[x * 1 for x in given], log)
        wanted = [r.sum() for r in result if isinstance(r, tt.Tensor) and r.requires_grad]
        if wanted:
            found = tt.autograd.grad(sum(wanted), given, allow_unused=True)
            # Through a graph of several results, the gradient of what none of the wanted ones reads is zero, not None.
            gradients = [tt.zeros(4) if each is None else each for each in found]
    except Exception as error:
        result = type(error).__name__, str(error)
    return (result, log, capsys.readouterr().out, tt.rand(1), tt.is_grad_enabled()), gradients


def compare(seed: int, capsys: Any) -> int:
    """Run a program both ways. Returns how many graphs it has."""
    text = Writer(seed).program()
    function = made(text, f"<drawn program {seed}>")
    compiled: Any = tt.compile(function)
    for call in range(4):
        expected, wanted = outcome(function, seed + call, bool(seed % 2), capsys)
        found, gradients = outcome(compiled, seed + call, bool(seed % 2), capsys)
        note = f"program {seed}, call {call}\n{text}"
        same(found, expected, note)
        assert (gradients is None) == (wanted is None), note
        for mine, theirs in zip(gradients or (), wanted or (), strict=True):
            close(mine, theirs, 1e-5, 1e-5 * theirs.abs().max().item(), note)
    return sum(each.graph_count for each in compiled._optimized.members())


@pytest.mark.filterwarnings("ignore:compile. .* has 8 graphs")
@pytest.mark.parametrize("first", range(0, 20, 5))
def test_on_the_cpu(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    counts = [compare(seed, capsys) for seed in range(first, first + 5)]
    assert sum(map(bool, counts)) >= 3, "most programs have graphs"


@pytest.mark.parametrize("seed", [1298, 1407])
def test_names_of_errors_that_are_taken_away_within(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    compare(seed, capsys)
