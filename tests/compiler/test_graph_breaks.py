"""Code that cannot be captured is a graph break: graphs run on both sides, and behavior stays eager's."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triten as tt
from triten.compiler.optimized import OptimizedFunction
from triten.tests.compiler.beside_eager import drawn, same

scale: Any = 2.0
count = 0


def tree_of(compiled: Any) -> Iterator[OptimizedFunction]:
    """Yield a compiled function, its parts and the functions that they call."""
    root = vars(compiled).get("_compiled") or compiled._optimized
    return root.members()


def graphs(compiled: Any) -> int:
    """Count the graphs with operators in a compiled function, its parts and the functions that they call."""
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
    """Object that each call creates."""

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
    """Return a call's result or error, arguments, output, global, and the next random number."""
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


def test_numbers_beside_tensors_are_told_apart() -> None:
    compiled: Any = tt.compile(lambda x, n: x * n + 1, fullgraph=True)
    x = drawn(3)
    for n in (2, 2.0, True, 3, -0.0, 0.0, 2, 2.0, True, -0.0):
        same(compiled(x, n), x * n + 1)
    assert graphs(compiled) == 6
    same(compiled(x, x), x * x + 1)
