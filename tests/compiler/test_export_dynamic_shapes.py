"""Exported programs with dynamic shapes are bitwise identical to eager at every size, or raise an error."""

import io
import math
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.compiler.dynamic_shapes.probes import corners
from triten.compiler.dynamic_shapes.size_expressions import SizeExpression, fitted
from triten.export import Dim, ValueRange
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.exported_models import CASES, made


def through_a_file(program: tt.export.ExportedProgram) -> tt.export.ExportedProgram:
    file = io.BytesIO()
    tt.export.save(program, file)
    loaded = tt.export.load(file)
    assert str(loaded) == str(program) and loaded.range_constraints == program.range_constraints
    return loaded


def tokens(*sizes: int, device: str = "cpu") -> tt.Tensor:
    return tt.arange(math.prod(sizes), device=device).view(sizes) % 5


BATCH, LENGTH = Dim("batch"), Dim("length", max=64)
NAMED: dict[str, Any] = {
    "perceptron": ({"input": {0: BATCH}}, [(tt.zeros(0, 6),), *[(drawn(n, 6),) for n in (1, 9, 100)]], [0]),
    "convolutions": (({0: BATCH},), [(drawn(n, 3, 8, 8),) for n in (1, 3, 5)], [1]),
    "transformer": ({"tokens": [BATCH, LENGTH]}, [(tokens(*n),) for n in ((1, 2), (2, 64), (3, 1))], [0, 1]),
}


@pytest.mark.parametrize("name", NAMED)
def test_every_size_gives_the_bits_of_the_module(name: str, device: str) -> None:
    shapes, calls, least = NAMED[name]
    if device == "cuda":
        calls = calls[1:3]
    module = made(name, device)
    program = tt.export.export(module, *CASES[name].arguments(device), dynamic_shapes=shapes)
    assert [each.lower for each in program.range_constraints.values()] == least
    for each in (program, through_a_file(program)) if device == "cpu" else (program,):
        compiled = each.module()
        for args in calls:
            given = [x.to(device) for x in args]
            with tt.no_grad():
                same(compiled(*given), module(*given), f"sizes {[list(x.shape) for x in given]}")


class Sizes(nn.Module):
    """Module that computes numbers from sizes, as arguments and in the result."""

    def forward(self, pair: Any, scale: float = 1.0) -> Any:
        a, b = pair["a"], pair["b"]
        n = a.shape[0]
        rows = a.reshape(2 * n, 2) * scale + tt.full((2,), n)
        return rows, tt.arange(3 * n + 1), n * b.shape[0] + 1, b.t()


def test_numbers_computed_from_sizes() -> None:
    n, m = tt.export.dims("n", "m", min=1, max=100)
    args = ({"a": drawn(3, 4), "b": drawn(6, 2)},)
    program = tt.export.export(
        Sizes(), args, {"scale": 2.0}, dynamic_shapes={"pair": {"a": {0: n}, "b": {0: m}}}
    )
    text = str(program)
    assert "[args][1][0]: 2*n" in text.replace("'", "") and "3*n + 1" in text and "n*m + 1" in text
    module = through_a_file(program).module()
    for sizes in ((1, 1), (3, 6), (7, 100), (100, 2)):
        given = {"a": drawn(sizes[0], 4), "b": drawn(sizes[1], 2)}
        same(module(given, scale=2.0), Sizes()(given, scale=2.0))


class Mutating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", tt.zeros(3))

    def forward(self, x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        self.sum += x.sum(0)
        return x.mul_(2) + y


def test_writes_at_every_size() -> None:
    named = {"x": {0: BATCH}, "y": {0: BATCH}}
    module, eager = (
        tt.export.export(Mutating(), (drawn(2, 3), drawn(2, 3)), dynamic_shapes=named).module(),
        Mutating(),
    )
    for n in (2, 5, 3):
        own, given = (drawn(n, 3), drawn(n, 3, seed=1)), (drawn(n, 3), drawn(n, 3, seed=1))
        same(module(*own), eager(*given))
        same(own, given)
        same(module.sum, eager.sum)


def test_sizes_are_checked_by_name() -> None:
    named = {"x": {0: Dim("batch", min=2, max=8)}, "y": {0: Dim("batch", min=2, max=8)}}
    program = tt.export.export(Mutating(), (drawn(3, 3), drawn(3, 3)), dynamic_shapes=named)
    assert (
        program.range_constraints == {"batch": ValueRange(2, 8)} and 5 in program.range_constraints["batch"]
    )
    module = program.module()
    for args, message in (
        ((drawn(9, 3), drawn(9, 3)), "argument x: dimension 0, 'batch', expected 2 to 8, got 9"),
        ((drawn(4, 3), drawn(5, 3)), "argument y: dimension 0, 'batch', expected 4 as in argument x, got 5"),
        ((drawn(4, 2), drawn(4, 3)), r"argument x: expected shape \[4, 3\], got \[4, 2\]"),
        ((tt.tensor(1.0), drawn(4, 3)), r"argument x: expected a dimension 0, 'batch', got shape \[\]"),
    ):
        with pytest.raises(RuntimeError, match=message):
            module(*args)
    with pytest.raises(TypeError, match="argument x: expected a Tensor, got int"):
        module(1, drawn(4, 3))


class By(nn.Module):
    """Module that applies a function to the number of rows and the tensor."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: tt.Tensor) -> Any:
        return self.function(x.shape[0], x)


def looped(n: int, x: tt.Tensor) -> tt.Tensor:
    for i in range(n):
        x = x + i
    return x


def singled_out(n: int, x: tt.Tensor) -> tt.Tensor:
    if n == 12:
        return x - 1
    return x + 1


REFUSED = {
    "a threshold": lambda n, x: x * 2 if n > 4000 else x + 1,
    "a size singled out": singled_out,
    "whether it is even": lambda n, x: x * 2 if n % 2 else x + 1,
    "a loop": looped,
    "a fraction": lambda n, x: x / math.sqrt(n),
    "a tensor of it": lambda n, x: x + tt.tensor([float(n)]),
    "a word": lambda n, x: {"even" if n % 2 == 0 else "odd": x},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_depends_on_sizes_otherwise_is_refused(what: str) -> None:
    module = By(REFUSED[what])
    with pytest.raises(
        tt.compiler.Unsupported, match=r"dynamic_shapes: at n=\d+ the module does something else"
    ):
        tt.export.export(module, (drawn(10, 3),), dynamic_shapes=({0: Dim("n")},))
    # At the example's size alone it is what it is.
    same(tt.export.export(module, (drawn(10, 3),)).module()(drawn(10, 3)), module(drawn(10, 3)))


def test_a_range_lets_through_what_is_the_same_in_it() -> None:
    module = By(REFUSED["a threshold"])
    program = tt.export.export(module, (drawn(10, 3),), dynamic_shapes=({0: Dim("n", max=4000)},))
    same(program.module()(drawn(77, 3)), module(drawn(77, 3)))
    table = nn.Parameter(drawn(20, 3))

    class Positions(nn.Module):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return x + table[: x.shape[0]]

    with pytest.raises(
        tt.compiler.Unsupported, match=r"at n=\d+ the module .*range of Dim|at n=\d+ the module does"
    ):
        tt.export.export(Positions(), (drawn(10, 3),), dynamic_shapes=({0: Dim("n")},))
    program = tt.export.export(Positions(), (drawn(10, 3),), dynamic_shapes=({0: Dim("n", max=20)},))
    with tt.no_grad():
        same(program.module()(drawn(20, 3)), Positions()(drawn(20, 3)))


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"z": {0: BATCH}}, ValueError, "no argument is named 'z'"),
    ((None, None), ValueError, "a tuple of 1"),
    (({2: BATCH},), ValueError, "has 2 dimensions, got 2"),
    (({0: "batch"},), NotImplementedError, "expected a Dim or None, got 'batch'"),
    (({0: Dim("n", max=5)},), ValueError, "dimension 0 is 10, out of the range of Dim"),
    (({0: Dim("n"), 1: Dim("n")},), ValueError, "has 3 in dimension 1, 'n', and another one 10"),
    (({0: Dim("n"), 1: Dim("n", min=1)},), ValueError, "two ranges of 'n'"),
]


@pytest.mark.parametrize(("shapes", "error", "message"), WRONG, ids=[each[2] for each in WRONG])
def test_wrong_dynamic_shapes(shapes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tt.export.export(nn.ReLU(), (drawn(10, 3),), dynamic_shapes=shapes)


def test_static_sizes_in_dynamic_shapes() -> None:
    for shapes in (None, {}, ({},), ([None, 3],), (None,)):
        program = tt.export.export(nn.ReLU(), (drawn(10, 3),), dynamic_shapes=shapes)
        assert program.range_constraints == {}


def test_wrong_dims() -> None:
    with pytest.raises(ValueError, match="must be an identifier, got 'a b'"):
        Dim("a b")
    with pytest.raises(ValueError, match="expected 0 <= min <= max, got 3 and 2"):
        Dim("n", min=3, max=2)


def test_expressions_are_found_from_two_sizes_of_each_name() -> None:
    points = corners(["a", "b", "c"], [(5, 11), (4, 9), (2, 3)])
    wanted = SizeExpression({("a", "b", "c"): 3, ("b",): -2, (): 7})
    found = fitted(["a", "b", "c"], points, [wanted.value(at) for at in points])
    assert found == wanted and str(wanted) == "3*a*b*c + -2*b + 7"


COMPUTED = {
    "a half": lambda n, x: x[: n // 2],
    "a half of a half": lambda n, x: x[: x[: n // 2].shape[0] // 2] * n,
    "a remainder": lambda n, x: x + tt.arange(n % 3 + 1)[-1],
    "a square": lambda n, x: tt.zeros(n * n),
    "a difference": lambda n, x: x[: n - (n // 3) * 2],
    "a result": lambda n, x: (x, n // 2, -(n // 4)),
    "an integer": lambda n, x: x * int(n),
    "an integer in a loop": lambda n, x: x + sum(i - i for i in range(n)),
}


@pytest.mark.parametrize("what", COMPUTED)
def test_what_is_computed_of_sizes(what: str) -> None:
    module = By(COMPUTED[what])
    program = tt.export.export(module, (drawn(10, 3),), dynamic_shapes=({0: Dim("n", min=2)},))
    loaded = through_a_file(program).module()
    for n in (2, 3, 8, 10, 13, 101):
        same(loaded(drawn(n, 3)), module(drawn(n, 3)), f"{what} at {n}")


def test_a_size_that_no_capture_has_is_noticed() -> None:
    by_constant = By(lambda n, x: x * 2 if n == 777 else x * 3)
    with pytest.raises(tt.compiler.Unsupported, match="at n=777 the module does something else"):
        tt.export.export(by_constant, (drawn(10, 3),), dynamic_shapes=({0: Dim("n")},))
    by_product = By(lambda n, x: x * 2 if n * 3 == 7 * 303 else x * 3)
    program = tt.export.export(by_product, (drawn(10, 3),), dynamic_shapes=({0: Dim("n")},))
    for each in (program.module(), through_a_file(program).module()):
        same(each(drawn(706, 3)), by_product(drawn(706, 3)))
        with pytest.raises(
            RuntimeError, match=r"at n=707 the module does .*since \(n \* 3\) == 2121 is true"
        ):
            each(drawn(707, 3))


def test_what_a_branch_gives_alike_is_no_decision() -> None:
    alike = By(lambda n, x: x * 2 if n > 300 or n == 1 else 2 * x)
    program = tt.export.export(alike, (drawn(10, 3),), dynamic_shapes=({0: Dim("n")},))
    assert program.range_constraints == {"n": ValueRange(0, None)}
    for n in (0, 1, 5, 1000):
        same(program.module()(tt.ones(n, 3)), alike(tt.ones(n, 3)))
