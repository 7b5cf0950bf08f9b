"""Selection of the calls that are measured together, and their operands."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
import triten.nn.functional as F
from triten.perf.planning.heavy_kinds import MAX_FLOPS, kind_of
from triten.perf.planning.kinds import FLOPS, Kind, in_order, order_of, resized
from triten.perf.planning.rates import Curve, _work, curve_of
from triten.perf.planning.recording import Operand, operands_in, record


def meta(*shape: int, dtype: Any = tt.float32, grad: bool = False) -> tt.Tensor:
    return tt.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def kinds(fn: Callable[..., Any], *args: Any) -> list[Kind]:
    found = record(fn, args, {})
    made = [kind_of(call) for call in found.calls.values() if not call.is_free]
    assert all(kind is not None for kind in made)
    return [kind for kind in made if kind is not None]


def name(fn: Callable[..., Any], *args: Any) -> str:
    (kind,) = kinds(fn, *args)
    return kind.name


IMAGES = (8, 16, 28, 28)
SAME: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "sizes": (tt.add, (meta(3, 5), meta(3, 5)), (meta(7, 7, 9), meta(7, 7, 9))),
    "numbers": (lambda a, n: a * n, (meta(3), 2.0), (meta(3), 3.0)),
    "lines of about the same length": (lambda a: F.softmax(a, 1), (meta(9, 60),), (meta(1000, 70),)),
    "reduced images": (lambda a: a.sum((0, 2, 3)), (meta(2, 3, 16, 16),), (meta(4, 5, 17, 15),)),
    "products": (tt.mm, (meta(3, 4), meta(4, 5)), (meta(300, 400), meta(400, 500))),
}
OTHER: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "dtypes": (tt.exp, (meta(3, 5),), (meta(3, 5, dtype=tt.bfloat16),)),
    "a turned operand": (tt.add, (meta(5, 5), meta(5, 5)), (meta(5, 5), meta(5, 5).t())),
    "all turned": (tt.add, (meta(3, 5), meta(3, 5)), (meta(5, 3).t(), meta(5, 3).t())),
    "a turned operand of a reduction": (lambda a: a.sum(1), (meta(64, 64),), (meta(64, 64).t(),)),
    "a row": (tt.add, (meta(5, 5), meta(5, 5)), (meta(5, 5), meta(5))),
    "a column": (tt.add, (meta(5, 5), meta(5)), (meta(5, 5), meta(5, 1))),
    "an expanded operand": (tt.add, (meta(5, 5), meta(5, 5)), (meta(5, 5), meta(5).expand(5, 5))),
    "exponents": (lambda a, n: a**n, (meta(3), 2.0), (meta(3), 2.5)),
    "results of another dtype": (lambda a, d: a.to(d), (meta(3), tt.float64), (meta(3), tt.int8)),
    "rows and columns": (lambda a, d: a.sum(d), (meta(64, 64), 0), (meta(64, 64), 1)),
    "all and some": (lambda a, d: a.sum(d), (meta(64, 64), (0, 1)), (meta(64, 64), (1,))),
    "lines of other lengths": (lambda a: F.softmax(a, 1), (meta(9, 16),), (meta(9, 1024),)),
    "filters": (F.conv2d, (meta(*IMAGES), meta(8, 16, 3, 3)), (meta(*IMAGES), meta(8, 16, 5, 5))),
}


@pytest.mark.parametrize("what", SAME)
def test_calls_of_one_kind(what: str) -> None:
    fn, one, other = SAME[what]
    assert name(fn, *one) == name(fn, *other)


@pytest.mark.parametrize("what", OTHER)
def test_calls_of_two_kinds(what: str) -> None:
    fn, one, other = OTHER[what]
    assert name(fn, *one) != name(fn, *other)


def step(model: Any, x: tt.Tensor) -> None:
    model(x).square().mean().backward()


PROBED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda a, b: tt.where(a > b, a.exp(), b.t().tanh()) + tt.rand(64, 64), (
        meta(64, 64), meta(64, 64))),
    "factories": (lambda: tt.zeros(10, 10) + tt.ones(10).view(10, 1), ()),
    "reductions": (lambda a: a.sum() + a.var(1).max() + a.amax((0, 1)) + a.argmax(1).sum(), (meta(64, 48),)),
    "lines": (lambda a: F.log_softmax(a.cumsum(1).sort(1)[0].topk(5, 0)[0], 0), (meta(64, 48),)),
    "products": (lambda a: tt.baddbmm(a, a, a @ a) + tt.addmm(a[0], a[1], a[2]), (meta(3, 64, 64),)),
    "indices": (lambda a, i: F.embedding(i, a).sum() + a[i].sum() + a.gather(0, i[:, None]).sum(), (
        meta(100, 8), meta(30, dtype=tt.int64))),
    "factorizations": (lambda a: tt.linalg.solve(a, a) @ tt.linalg.cholesky(a), (meta(20, 20, dtype=tt.float64),)),
    "images": (step, (tt.nn.Sequential(
        tt.nn.Conv2d(4, 8, 3, 2, groups=2), tt.nn.BatchNorm2d(8), tt.nn.MaxPool2d(2), tt.nn.GroupNorm(2, 8),
        tt.nn.ConvTranspose2d(8, 4, 2), tt.nn.AvgPool2d(2)), meta(5, 4, 32, 32))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward(), (
        meta(2, 4, 40, 16, grad=True),)),
    "optimisers": (lambda model: (step(model, meta(4, 10)), tt.optim.AdamW(model.parameters()).step()), (
        tt.nn.Linear(10, 20),)),
}  # fmt: skip


@pytest.mark.parametrize("family", PROBED)
def test_every_kind_runs_on_its_probes(family: str) -> None:
    fn, args = PROBED[family]
    for kind in kinds(fn, *args):
        curve = curve_of(kind, 0)
        assert curve.overhead > 0, kind.name
        assert len(curve.points) == min(2, len(kind.sizes)), kind.name


def test_operators_of_other_packages_are_not_called_and_said_to_be_guessed() -> None:
    called = []

    @tt.library.custom_op("planning_test::twice", mutates_args=())
    def twice(x: tt.Tensor) -> tt.Tensor:
        called.append(x.device.type)
        return x + x

    @twice.register_fake
    def _(x: tt.Tensor) -> tt.Tensor:
        return tt.empty_like(x)

    found = tt.perf.plan(lambda x: twice(x), tt.zeros(1000), device="cpu")
    assert called == []
    assert found.seconds > 0
    assert "taken for copies, since no probe is known: planning_test::twice" in str(found)


@pytest.mark.parametrize("channels", [(4, 8), (256, 512)])
def test_probes_are_small_whatever_the_call(channels: tuple[int, int]) -> None:
    source, out = channels
    x, w = meta(64, source, 224, 224, grad=True), meta(out, source, 3, 3, grad=True)
    for kind in kinds(lambda x, w: F.conv2d(x, w, padding=1).sum().backward(), x, w):
        assert kind.name
        largest = kind.probe(kind.sizes[-1])
        elements = sum(math.prod(operand.shape) for operand in operands_in(largest.values()))
        assert elements < 1 << 23, kind.name
        if kind.unit == FLOPS:
            assert _work(kind, largest) <= max(MAX_FLOPS, 2 * 9 * source * out * 64)


def test_a_resized_operand_lies_as_before() -> None:
    turned = Operand((2, 3, 4), (1, 8, 2), tt.float32)
    assert order_of(turned) == [0, 2, 1]
    assert resized(turned, (5, 6, 7)) == in_order((5, 6, 7), [0, 2, 1], tt.float32)
    assert resized(turned, (5, 6, 7)).strides == (1, 35, 5)


def test_a_curve_goes_on_as_it_went_and_never_falls() -> None:
    curve = Curve()
    for work, seconds in ((10, 1.0), (20, 0.5), (30, 4.0)):
        curve.add(work, seconds)
    assert [curve.seconds(work) for work in (0, 10, 20, 25, 30, 40)] == [1.0, 1.0, 1.0, 2.5, 4.0, 7.0]
    assert Curve([(10, 1.0)]).seconds(40) == 4.0
