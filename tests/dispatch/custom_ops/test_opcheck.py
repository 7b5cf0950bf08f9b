"""`opcheck` passes honest operators and finds those that lie, in each way."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import Tensor
from triten.library import CustomOpDef, Library, OpCheckError, custom_op, opcheck

NS = "t_opcheck"
ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck")


@pytest.fixture
def lib() -> Iterator[Library]:
    with Library(NS, "FRAGMENT") as made:
        yield made


def x_of(*values: float) -> Tensor:
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


def failures(op: Any, *args: Any, **kwargs: Any) -> dict[str, str]:
    results = opcheck(op, args, kwargs, raise_exception=False)
    assert tuple(results) == ALL
    return {name: str(result) for name, result in results.items() if result != "SUCCESS"}


@pytest.fixture
def mul() -> CustomOpDef:
    """Return an operator for x * y by NumPy that satisfies every check."""

    @custom_op(f"{NS}::mul", mutates_args=())
    def mul(x: Tensor, y: float) -> Tensor:
        return tt.from_numpy(x.detach().cpu().numpy() * y).to(x.device)

    mul.register_fake(lambda x, y: tt.empty_like(x))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.y = inputs[1]

    mul.register_autograd(lambda ctx, grad: (grad * ctx.y, None), setup_context=setup)
    return mul


@pytest.mark.parametrize("make", [x_of, lambda *v: tt.tensor(v), lambda *v: tt.tensor([v] * 2).t()])
def test_an_honest_operator(mul: CustomOpDef, make: Callable[..., Tensor], device: str) -> None:
    x = make(1.0, 2.0, 3.0).detach().to(device).requires_grad_()
    assert opcheck(mul, (x, 2.5)) == dict.fromkeys(ALL, "SUCCESS")
    assert opcheck(mul._opoverload, (x,), {"y": 2.0}, test_utils="test_schema") == {"test_schema": "SUCCESS"}
    assert opcheck(tt.ops.t_opcheck.mul, (x, 2.5), test_utils=ALL[:2]) == dict.fromkeys(ALL[:2], "SUCCESS")
    assert (x.current_version(), x.grad) == (0, None)


def test_honest_operators_of_our_own() -> None:
    aten = tt.ops.aten
    x = tt.tensor([[0.5, -1.5], [2.0, 3.0]], dtype=tt.float64, requires_grad=True)
    opcheck(aten.relu.default, (x,))
    opcheck(aten.add_.Tensor, (x, x))
    opcheck(aten.transpose.int, (x, 0, 1))
    opcheck(aten.mm.out, (tt.ones(2, 2), tt.ones(2, 2)), {"out": tt.ones(2, 2)})
    opcheck(aten.cat.default, ([x, x.detach()],))
    opcheck(aten.split.Tensor, (x, 1))
    opcheck(aten.ones.default, ([2],), {"device": "cpu"})
    opcheck(aten.relu.default, (tt.ones(2, 1).expand(2, 3),))


def test_what_is_asked() -> None:
    with pytest.raises(ValueError, match=r"op must be instance of OpOverload.* got function"):
        opcheck(lambda x: x, ())
    with pytest.raises(ValueError, match=r"add has the overloads \['Tensor'"):
        opcheck(tt.ops.aten.add, ())
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        opcheck(tt.ops.aten.relu.default, (tt.ones(1),), test_utils="test_aot_dispatch_dynamic")
    with pytest.raises(ValueError, match="must specify both"):
        opcheck(tt.ops.aten.relu.default, (tt.ones(1),), rtol=1e-3)
    with pytest.raises(RuntimeError, match="is missing value for argument 'self'"):
        opcheck(tt.ops.aten.relu.default, ())


def test_the_first_failure_is_raised(mul: CustomOpDef) -> None:
    mul.register_fake(lambda x, y: x.new_empty(()))
    with pytest.raises(
        OpCheckError, match=r"opcheck\(t_opcheck.mul.default, ...\): test_faketensor failed with"
    ):
        opcheck(mul, (x_of(1.0), 2.0))


def write(x: Tensor) -> None:
    x.numpy()[...] = 7.0


@pytest.mark.parametrize(
    "by", [write, lambda x: x.mul_(1), lambda x: x.resize_(1)], ids=["bytes", "op", "resize"]
)
def test_mutation_that_is_not_declared(by: Callable[[Tensor], Any]) -> None:
    @custom_op(f"{NS}::secret", mutates_args=())
    def secret(x: Tensor, ys: list[Tensor]) -> Tensor:
        by(ys[0])
        return x.clone()

    secret.register_fake(lambda x, ys: tt.empty_like(x))
    x, y = tt.ones(2), tt.ones(2)
    assert failures(secret, x, [y]) == {
        "test_schema": "Argument ys is not defined as mutable but was mutated",
    }
    assert (y.tolist(), y.current_version()) == ([1.0, 1.0], 0)


def test_mutation_whose_version_is_not_counted(lib: Library) -> None:
    def fill(x: Tensor) -> Tensor:
        write(x)
        return x

    lib.define("fill_(Tensor(a!) x) -> Tensor(a!)")
    lib.impl("fill_", fill, "CPU")
    lib.impl("fill_", lambda x: x, "Meta")
    found = failures(tt.ops.t_opcheck.fill_, tt.ones(2))
    assert found == {"test_schema": "Argument x is defined as mutable but its version was not counted up"}


@pytest.mark.parametrize(
    ("schema", "kernel", "reason"),
    [
        ("(Tensor x) -> Tensor", lambda x: x, "Argument x is not defined to alias output but was aliasing"),
        ("(Tensor x) -> Tensor", lambda x: x[1:], "Argument x is not defined to alias output"),
        ("(Tensor(a) x, Tensor y) -> Tensor(a)", lambda x, y: y, "Argument y is not defined to alias output"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1,) * 2, "Outputs 0 and 1 alias unexpectedly"),
        ("(Tensor x) -> Tensor[]", lambda x: [x + 1] * 2, "Outputs 0 and 0 alias unexpectedly"),
        ("(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(2) + 1, "Output 0 is defined to be argument x"),
        ("(Tensor x) -> Tensor", lambda x: 3, "Output 0 is declared to be Tensor but is int"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: x + 1, "declares 2 results, but the operator returned"),
        ("(Tensor x) -> ()", lambda x: x + 1, "declares 0 results, but the operator returned"),
    ],
)
def test_results_that_are_not_as_declared(lib: Library, schema: str, kernel: Any, reason: str) -> None:
    lib.define(f"liar{schema}")
    lib.impl("liar", kernel, "CPU")
    args = [tt.ones(2) for _ in range(schema.count(" x") + schema.count(" y"))]
    with pytest.raises(OpCheckError, match=reason):
        opcheck(tt.ops.t_opcheck.liar, args, test_utils="test_schema")


def test_an_argument_returned_by_a_custom_operator() -> None:
    op = custom_op(f"{NS}::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(OpCheckError, match="must not also be an input to this custom operator"):
        opcheck(op, (tt.ones(1),), test_utils="test_schema")


class Halved(tt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad / 2


def test_a_formula_under_a_backend_key(lib: Library) -> None:
    lib.define("halved(Tensor x) -> Tensor")
    lib.impl("halved", Halved.apply, "CPU")
    lib.impl("halved", lambda x: tt.empty_like(x), "Meta")
    found = failures(tt.ops.t_opcheck.halved, x_of(1.0))
    assert list(found) == ["test_autograd_registration"]
    assert (
        "does not have an autograd kernel defined at an autograd key" in found["test_autograd_registration"]
    )
    assert not failures(tt.ops.t_opcheck.halved, tt.ones(1))
    lib.impl("halved", Halved.apply, "AutogradCPU")
    assert not failures(tt.ops.t_opcheck.halved, x_of(1.0))


def test_a_missing_formula_and_a_missing_fake() -> None:
    op = custom_op(f"{NS}::bare", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    found = failures(op, x_of(1.0))
    assert list(found) == ["test_faketensor", "test_gradcheck"]
    assert "There was no fake impl registered" in found["test_faketensor"]
    assert "no autograd formula was registered" in found["test_gradcheck"]
    assert list(failures(op, tt.ones(1))) == ["test_faketensor"]


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (lambda x, y: x.new_empty((2,)), r"shape \(2,\), expected \(2, 3\)"),
        (lambda x, y: tt.empty_like(x, dtype=tt.float32), "dtype triten.float32, expected triten.float64"),
        (lambda x, y: x.new_empty((3, 2)).t(), r"strides \[1, 2\], expected \[3, 1\]"),
        (lambda x, y: tt.empty(2, 3, dtype=tt.float64), "device cpu, expected meta"),
        (lambda x, y: None, "expected Tensor to be returned by"),
    ],
    ids=["shape", "dtype", "strides", "device", "nothing"],
)
def test_a_fake_kernel_that_lies(mul: CustomOpDef, fake: Any, reason: str) -> None:
    mul.register_fake(fake)
    x = tt.ones(2, 3, dtype=tt.float64)
    with pytest.raises(OpCheckError, match=reason):
        opcheck(mul, (x, 2.0), test_utils="test_faketensor")


def test_fakes_of_lists_and_of_what_is_written(lib: Library) -> None:
    @custom_op(f"{NS}::parts", mutates_args=())
    def parts(x: Tensor) -> list[Tensor]:
        return [t.clone() for t in x.split(1)]

    parts.register_fake(lambda x: [x.new_empty((1,))])
    with pytest.raises(OpCheckError, match="output: the real one has 2 tensors, the fake one 1"):
        opcheck(parts, (tt.ones(2),), test_utils="test_faketensor")
    parts.register_fake(lambda x: [x.new_empty((1,)), x.new_empty((2,))])
    with pytest.raises(OpCheckError, match=r"output\[1\]: the fake kernel gives shape \(2,\)"):
        opcheck(parts, (tt.ones(2),), test_utils="test_faketensor")
    lib.define("grow_(Tensor(a!) x) -> Tensor(a!)")
    lib.impl("grow_", lambda x: x.resize_(5), "CPU")
    lib.impl("grow_", lambda x: x, "Meta")
    with pytest.raises(OpCheckError, match=r"output: the fake kernel gives shape \(2,\), expected \(5,\)"):
        opcheck(tt.ops.t_opcheck.grow_, (tt.ones(2),), test_utils="test_faketensor")


def test_a_formula_that_lies(mul: CustomOpDef) -> None:
    mul.register_autograd(lambda ctx, grad: (grad * 2, None))
    assert list(failures(mul, x_of(1.0), 3.0)) == ["test_gradcheck"]
    assert not failures(mul, x_of(1.0), 2.0)
    assert not failures(mul, x_of(1.0).detach().float().requires_grad_(), 3.0)


def test_a_result_without_history(lib: Library) -> None:
    lib.define("cut(Tensor x) -> Tensor", lambda x: x.detach() * 2)
    assert list(failures(tt.ops.t_opcheck.cut, x_of(1.0))) == ["test_gradcheck"]
    lib.define("level(Tensor x) -> Tensor", lambda x: tt.zeros_like(x))
    assert not failures(tt.ops.t_opcheck.level, x_of(1.0))


def test_tolerances(mul: CustomOpDef) -> None:
    mul.register_autograd(lambda ctx, grad: (grad * 2.02, None))
    assert list(failures(mul, x_of(1.0), 2.0)) == ["test_gradcheck"]
    loose = opcheck(mul, (x_of(1.0), 2.0), test_utils="test_gradcheck", rtol=0.1, atol=0.1)
    assert loose == {"test_gradcheck": "SUCCESS"}


def test_meta_arguments_have_nothing_to_check(mul: CustomOpDef) -> None:
    mul.register_kernel("cpu", lambda x, y: np.nan)
    x = tt.ones(2, device="meta", requires_grad=True)
    assert opcheck(mul, (x, 2.0), test_utils=ALL[:3]) == dict.fromkeys(ALL[:3], "SUCCESS")
