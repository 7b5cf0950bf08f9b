"""Rules for an operator and a class that handles operators, and operators by former and other names."""

import pytest

import triten as tt
from triten.library import Library, register_tensor_dispatch
from triten.utils._python_dispatch import TensorDispatchMode


class Mode(TensorDispatchMode):
    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 2


class Inner(Mode):
    pass


def test_a_rule_stands_in_for_a_mode_until_its_library_closes():
    x = tt.ones(2)
    library = Library("aten", "FRAGMENT")
    seen = []

    @register_tensor_dispatch("aten::neg", Mode, lib=library)
    def rule(mode, func, types, args, kwargs):
        seen.append((type(mode), func is tt.ops.aten.neg.default, args[0] is x, kwargs))
        return func(*args) * 10

    with Mode():
        assert x.neg().tolist() == [-10.0, -10.0] and x.abs().tolist() == [2.0, 2.0]
    with Inner():
        assert x.neg().tolist() == [-2.0, -2.0]
    assert seen == [(Mode, True, True, {})]
    library.close()
    with Mode():
        assert x.neg().tolist() == [-2.0, -2.0]


def test_a_rule_for_a_subclass():
    class Wrapped(tt.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = tt.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            return Wrapped(func(*(each.inner for each in args)))

    with Library("aten", "FRAGMENT") as library:
        register_tensor_dispatch(
            tt.ops.aten.neg.default,
            Wrapped,
            lambda cls, func, types, args, kwargs: cls(args[0].inner + 5),
            lib=library,
        )
        x = Wrapped(tt.ones(2))
        assert tt.neg(x).inner.tolist() == [6.0, 6.0] and tt.abs(x).inner.tolist() == [1.0, 1.0]
    assert tt.neg(x).inner.tolist() == [-1.0, -1.0]


def test_rules_that_cannot_be():
    with pytest.raises(RuntimeError, match="operator aten::nothing does not exist"):
        register_tensor_dispatch("aten::nothing", Mode, print)
    with pytest.raises(ValueError, match="handles no operators: it has no __tensor_dispatch__"):
        register_tensor_dispatch("aten::neg", int, print)
    with pytest.raises(ValueError, match="got unexpected type for op: int"):
        register_tensor_dispatch(3, Mode, print)


def test_a_fake_kernel_by_its_former_name():
    tt.library.define("former_names::first", "(Tensor x) -> Tensor")
    with pytest.warns(FutureWarning, match="register_fake"):

        @tt.library.impl_abstract("former_names::first")
        def _(x):
            return x.new_empty(x.shape[1:])

    assert tt.ops.former_names.first(tt.ones(2, 3, device="meta")).shape == (3,)
