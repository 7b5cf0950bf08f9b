"""`custom_op`: definition, kernels by device, fake kernels, aliasing of results, mutated arguments."""

import logging
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import Tensor
from triten.library import custom_op

ALIAS = re.escape("(1) must not also be an input to this custom operator and (2) may not alias any inputs")


def double(x: Tensor) -> Tensor:
    return x * 2


def test_a_function_becomes_an_operator() -> None:
    op = custom_op("t_custom::double", double, mutates_args=())
    assert op(tt.ones(2)).tolist() == [2.0, 2.0]
    assert op(x=tt.ones(1)).tolist() == [2.0]
    assert repr(op) == "<CustomOpDef(t_custom::double)>"
    assert str(tt.ops.t_custom.double.default._schema) == "t_custom::double(Tensor x) -> Tensor"
    assert tt.ops.t_custom.double(tt.ones(1)).tolist() == [2.0]
    with pytest.raises(
        RuntimeError, match="value of type 'Tensor' for argument 'x' but instead found type 'str'"
    ):
        op("x")


def test_arguments_come_as_hinted() -> None:
    seen: list[Any] = []

    @custom_op("t_custom::hints", mutates_args=())
    def hints(
        xs: list[Tensor],
        y: Tensor | None,
        sizes: Sequence[int],
        scale: float,
        *,
        flag: bool = True,
        dtype: tt.dtype = tt.float32,
        device: tt.device | None = None,
        name: str = "n",
        number: int | float | bool = 2,
    ) -> tuple[Tensor, int]:
        seen.append((xs, y, sizes, scale, flag, dtype, device, name, number))
        return xs[0] * scale, len(sizes)

    a = tt.ones(2)
    out, count = hints([a, a], None, (3, 4), 2, device="cpu", number=2.5)
    assert (out.tolist(), count) == ([2.0, 2.0], 2)
    assert seen[0] == ([a, a], None, [3, 4], 2.0, True, tt.float32, tt.device("cpu"), "n", 2.5)
    assert type(seen[0][3]) is float


def test_a_schema_instead_of_hints() -> None:
    def scaled(x, factor=3):  # type: ignore[no-untyped-def]
        return x * factor

    op = custom_op("t_custom::scaled", scaled, mutates_args=(), schema="(Tensor x, int factor=3) -> Tensor")
    assert (op(tt.ones(1)).item(), op(tt.ones(1), 4).item()) == (3.0, 4.0)
    with pytest.raises(ValueError, match=r"the op mutates \['x'\], which is different"):
        custom_op(
            "t_custom::scaled", scaled, mutates_args=(), schema="(Tensor(a!) x, int factor=3) -> Tensor"
        )
    assert op(tt.ones(1)).item() == 3.0


@pytest.mark.parametrize("name", ["noname", "a::b::c", "::f", "a::"])
def test_a_malformed_name(name: str) -> None:
    with pytest.raises(ValueError, match='of the form "namespace::name"'):
        custom_op(name, double, mutates_args=())


def test_keyword_only_tensors_are_refused() -> None:
    def keyword(x: Tensor, *, y: Tensor) -> Tensor:
        return x + y

    with pytest.raises(NotImplementedError, match="custom_op with kwarg-only Tensor args"):
        custom_op("t_custom::keyword", keyword, mutates_args=())
    assert "t_custom" not in dir(tt.ops)


def test_a_second_definition_replaces_the_first() -> None:
    custom_op("t_custom::f", double, mutates_args=())
    assert tt.ops.t_custom.f(tt.ones(1)).item() == 2.0

    @custom_op("t_custom::f", mutates_args=())
    def tripled(x: Tensor, y: int) -> Tensor:
        return x * 3

    assert tt.ops.t_custom.f(tt.ones(1), 0).item() == 3.0
    assert tt.ops.t_custom.f.overloads() == ["default"]


def test_kernels_by_device() -> None:
    op = custom_op("t_custom::f", double, mutates_args=(), device_types="cuda")
    with pytest.raises(
        NotImplementedError, match=r"'CPU' backend. Devices with a kernel: cuda. .*register_kernel"
    ):
        op(tt.ones(1))

    @op.register_kernel(["cpu", "xpu"])
    def _(x: Tensor) -> Tensor:
        return x * 5

    assert op(tt.ones(1)).item() == 5.0
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        op.register_kernel("gpu", double)


def test_the_default_kernel_serves_what_has_none_of_its_own() -> None:
    op = custom_op("t_custom::f", double, mutates_args=(), device_types="cuda")
    op.register_kernel(None, lambda x: x * 7)
    assert op(tt.ones(1)).item() == 7.0


def test_factories_go_by_their_device() -> None:
    @custom_op("t_custom::made", mutates_args=(), device_types="cpu")
    def made(n: int, device: tt.device) -> Tensor:
        return tt.ones(n, device=device)

    made.register_fake(lambda n, device: tt.empty(n, device="meta"))
    assert made(2, "cpu").tolist() == [1.0, 1.0]
    assert made(2, device="meta").is_meta
    with pytest.raises(NotImplementedError, match="Devices with a kernel: cpu"):
        made(2, "xla")

    def homeless(n: int) -> Tensor:
        return tt.ones(n)

    with pytest.raises(ValueError, match=r"required to have a `device: triten.device` argument"):
        custom_op("t_custom::homeless", homeless, mutates_args=(), device_types="cpu")
    assert custom_op("t_custom::homeless", homeless, mutates_args=())(1).item() == 1.0


def test_a_kernel_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    op = custom_op("t_custom::f", double, mutates_args=())
    op.register_kernel("cpu", lambda x: x * 9)
    x = tt.ones(1)
    with op.set_kernel_enabled("cpu", False):
        assert op(x).item() == 2.0
        with op.set_kernel_enabled("cpu", True):
            assert op(x).item() == 9.0
        assert op(x).item() == 2.0
    assert op(x).item() == 9.0
    assert not caplog.records
    with caplog.at_level(logging.WARNING), op.set_kernel_enabled("xpu", False):
        assert "no kernel was registered for this device type" in caplog.text
    with caplog.at_level(logging.WARNING), op.set_kernel_enabled("cpu", True):
        assert "already enabled" in caplog.text


def test_meta_needs_a_fake_kernel() -> None:
    op = custom_op("t_custom::f", double, mutates_args=())
    x = tt.ones(2, 3, device="meta")
    with pytest.raises(
        NotImplementedError, match=r"no fake impl .*<CustomOpDef\(t_custom::f\)>.*double.register_fake"
    ):
        op(x)
    op.register_fake(lambda x: tt.empty_like(x))
    assert op(x).shape == (2, 3)

    @op.register_fake
    def _(x: Tensor) -> Tensor:
        tt.library.get_ctx()
        return x.clone()

    assert tt.library.get_ctx() is None
    with pytest.raises(
        RuntimeError, match="t_custom::f: You're trying to run this operator with meta Tensors"
    ):
        op(x)
    assert tt.library.get_ctx() is None


@pytest.mark.parametrize(
    "returned",
    [lambda x: x, lambda x: x[1:], lambda x: x.detach(), lambda x: tt.from_numpy(x.numpy()[1:])],
    ids=["itself", "a view", "detached", "through NumPy"],
)
def test_results_may_not_alias_arguments(returned: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return returned(x)

    op = custom_op("t_custom::f", f, mutates_args=())
    with pytest.raises(RuntimeError, match=ALIAS):
        op(tt.ones(3))
    w = tt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=ALIAS):
        op(w)


def test_results_may_not_alias_each_other() -> None:
    @custom_op("t_custom::pair", mutates_args=())
    def pair(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        return y, y[:1]

    @custom_op("t_custom::parts", mutates_args=())
    def parts(x: Tensor) -> list[Tensor]:
        return list(x.clone().split(1))

    for op in (pair, parts):
        with pytest.raises(RuntimeError, match="or other returns"):
            op(tt.ones(2))


@pytest.mark.parametrize(
    ("hint", "returned", "words"),
    [
        (Tensor, 3, "expected Tensor to be returned by .*got int"),
        (None, 3, "expected None to be returned by .*got int"),
        (tuple[Tensor, Tensor], (1,), "expected 2 values to be returned by .*got 1 values"),
        (int, 2.5, "expected SymInt to be returned by .*got float"),
        (list[Tensor], None, r"expected Tensor\[\] to be returned by .*got NoneType"),
    ],
    ids=str,
)
def test_results_of_another_type(hint: Any, returned: Any, words: str) -> None:
    def f(x: Tensor) -> Any:
        return returned

    f.__annotations__["return"] = hint
    op = custom_op("t_custom::f", f, mutates_args=())
    with pytest.raises(RuntimeError, match=f"t_custom::f .with implementation in .*{words}"):
        op(tt.ones(1))


def test_mutation_counts_versions_up() -> None:
    @custom_op("t_custom::fill", mutates_args={"x", "ys"})
    def fill(x: Tensor, ys: list[Tensor], z: Tensor) -> None:
        for each in (x, *ys):
            each.numpy()[...] = z.numpy()

    x, y, z = tt.zeros(2), tt.zeros(2), tt.ones(2)
    view = x[:1]
    assert fill(x, [y], z) is None
    assert [t.tolist() for t in (x, y)] == [[1.0, 1.0]] * 2
    assert [t.current_version() for t in (x, view, y, z)] == [1, 1, 1, 0]
    w = tt.ones(2, requires_grad=True)
    saved = w * x
    fill(x, [y], z)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    meta = tt.ones(2, device="meta")
    fill(meta, [], meta)
    assert meta.current_version() == 1


def test_in_place_and_out_forms() -> None:
    def add_(x: Tensor, y: Tensor) -> Tensor:
        return x.add_(y)

    def sin(x: Tensor, *, out: Tensor) -> Tensor:
        np.sin(x.numpy(), out=out.numpy())
        return out

    inplace = custom_op("t_custom::add_", add_, mutates_args={"x"}, tags="inplace")
    x = tt.ones(2)
    assert inplace(x, tt.ones(2)) is x
    assert x.tolist() == [2.0, 2.0]
    meta = tt.ones(2, device="meta")
    assert inplace(meta, meta) is meta
    out_form = custom_op("t_custom::sin", sin, mutates_args={"out"}, tags=["out"])
    assert str(out_form._schema) == "t_custom::sin(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"
    out = tt.zeros(2)
    assert out_form(tt.zeros(2), out=out) is out
    assert out.current_version() == 1
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        out_form(tt.zeros(2, requires_grad=True), out=out)
    liar = custom_op(
        "t_custom::add_", lambda x, y: x + y, mutates_args={"x"}, schema=str(inplace._schema)[14:]
    )
    with pytest.raises(RuntimeError, match="An in-place operator must return its argument 'x'"):
        liar(tt.ones(1), tt.ones(1))


def test_views_that_the_schema_declares() -> None:
    op = custom_op(
        "t_custom::flat", lambda x: x.view(-1), mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)"
    )
    x = tt.zeros(2, 2)
    op(x)[0] = 1.0
    assert x[0, 0].item() == 1.0
