"""`tt.library`'s functions that name an operator: define, impl, register_*."""

from typing import Any

import pytest

import triten as tt
from triten import Tensor
from triten.dispatch.custom_ops.custom_op import vmap_rules
from triten.library import Library

NS = "t_registration"


@pytest.fixture
def lib() -> Any:
    with Library(NS, "FRAGMENT") as made:
        yield made
    assert NS not in dir(tt.ops)


def test_define_and_impl(lib: Library) -> None:
    tt.library.define(f"{NS}::f", "(Tensor x, int n=2) -> Tensor", lib=lib, tags="pointwise")

    @tt.library.impl(f"{NS}::f", ("cpu", "xpu"), lib=lib)
    def _(x: Tensor, n: int) -> Tensor:
        return x * n

    assert tt.ops.t_registration.f(tt.ones(1)).item() == 2.0
    assert tt.ops.t_registration.f.default.tags == {"pointwise"}
    assert tt.ops.t_registration.f.default.has_kernel_for_dispatch_key(tt.DispatchKey.XPU)
    with pytest.raises(NotImplementedError, match=r"It is available for: \[CPU, XPU\]"):
        tt.ops.t_registration.f(tt.ones(1, device="meta"))
    tt.library.impl(f"{NS}::f", "default", lambda x, n: x, lib=lib)
    assert tt.ops.t_registration.f(tt.ones(1, device="meta")).is_meta


def test_malformed_definitions(lib: Library) -> None:
    with pytest.raises(ValueError, match='of the form "namespace::name"'):
        tt.library.define("f", "(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(ValueError, match=r'expected schema to look like e.g. "'):
        tt.library.define(f"{NS}::f", "f(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(ValueError, match="expected qualname to be str"):
        tt.library.define(3, "(Tensor x) -> Tensor", lib=lib)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        tt.library.impl(f"{NS}::f", "tpu", lambda x: x, lib=lib)


@pytest.mark.parametrize("how", ["name", "overload", "custom"])
def test_each_way_to_name_an_operator(lib: Library, how: str) -> None:
    op: Any
    if how == "custom":
        op = tt.library.custom_op(
            f"{NS}::f", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor", device_types="xpu"
        )
    else:
        tt.library.define(f"{NS}::f", "(Tensor x) -> Tensor", lib=lib)
        op = f"{NS}::f" if how == "name" else tt.ops.t_registration.f.default
    call = tt.ops.t_registration.f

    @tt.library.register_kernel(op, "cpu", lib=lib)
    def kernel(x: Tensor) -> Tensor:
        return x * 3

    @tt.library.register_fake(op, lib=lib)
    def fake(x: Tensor) -> Tensor:
        return tt.empty_like(x)

    rule = tt.library.register_vmap(op, lambda info, in_dims, x: (x, in_dims[0]), lib=lib)
    x = tt.ones(2, requires_grad=True)
    assert call(x).tolist() == [3.0, 3.0]
    assert call(tt.ones(2, device="meta")).shape == (2,)
    tt.library.register_autograd(op, lambda ctx, grad: grad * 3, lib=lib)
    call(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert vmap_rules[f"{NS}::f"] is rule
    if how == "custom":
        from triten.dispatch.custom_ops.custom_op import definitions

        definitions.pop(f"{NS}::f")._close()
        assert f"{NS}::f" not in vmap_rules


def test_rules_end_with_their_library() -> None:
    with Library(NS, "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        tt.library.register_vmap(f"{NS}::f", lambda *_: None, lib=lib)
    assert f"{NS}::f" not in vmap_rules


def test_fakes_take_keyword_only_arguments_by_name(lib: Library) -> None:
    tt.library.define(f"{NS}::f", "(Tensor x, *, int n) -> Tensor", lib=lib)
    tt.library.register_fake(f"{NS}::f", lambda x, *, n: x.new_empty((n,)), lib=lib)
    assert tt.ops.t_registration.f(tt.ones(1, device="meta"), n=4).shape == (4,)


def test_what_needs_no_fake_refuses_one(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor", lambda x: x + 1)
    with pytest.raises(RuntimeError, match="operators do not need a fake impl"):
        tt.library.register_fake(f"{NS}::f", lambda x: x, lib=lib)


def test_what_is_no_operator(lib: Library) -> None:
    with pytest.raises(RuntimeError, match=f"operator {NS}::nope does not exist"):
        tt.library.register_autograd(f"{NS}::nope", lambda ctx, grad: grad, lib=lib)
    with pytest.raises(RuntimeError, match=f"operator {NS}::nope does not exist"):
        tt.library.register_vmap(f"{NS}::nope", lambda *_: None, lib=lib)
    for register in (tt.library.register_kernel, tt.library.register_fake, tt.library.register_autograd):
        with pytest.raises(ValueError, match="got unexpected type for op: function"):
            register(lambda x: x, lambda x: x)  # type: ignore[call-arg, arg-type]
    lib.define("f_(Tensor(a!) x) -> Tensor(a!)")
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        tt.library.register_autograd(f"{NS}::f_", lambda ctx, grad: grad, lib=lib)


@pytest.mark.parametrize(
    "register", ["register_fake", "register_autograd", "register_vmap", "register_kernel"]
)
def test_what_cannot_be_called_is_refused_where_it_is_registered(register):
    @tt.library.custom_op(f"refused_functions::{register}", mutates_args=())
    def doubled(x: tt.Tensor) -> tt.Tensor:
        return x * 2

    before = ("cpu",) if register == "register_kernel" else ()
    with pytest.raises(TypeError, match=f"{register}: expected a function, got 3"):
        getattr(doubled, register)(*before, 3)
    with pytest.raises(
        TypeError, match="register_kernel: expected a device type or a sequence of them, got 3"
    ):
        doubled.register_kernel(3)


@pytest.mark.parametrize("out_dims", [(0, 0), [0]])
def test_a_vmap_rule_of_other_outputs_is_refused(out_dims):
    @tt.library.custom_op(f"refused_rules::of_{len(out_dims)}", mutates_args=())
    def doubled(x: tt.Tensor) -> tt.Tensor:
        return x * 2

    doubled.register_vmap(lambda info, in_dims, x: (x * 2, out_dims))
    with pytest.raises(RuntimeError, match=r"vmap rule of refused_rules::of_\d returned an incompatible"):
        tt.vmap(doubled)(tt.ones(3, 2))
