"""Modes and tensor subclasses see every operator below autograd, nest, and leave nothing behind."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import triten as tt
from triten.runtime.local_dispatch_key_set import modes
from triten.tests.shared.thread_state import modes_and_keys
from triten.utils import _python_dispatch as dispatch_modes


class Log(tt.TensorDispatchMode):
    def __init__(self, seen, name=""):
        self.seen, self.name = seen, name

    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(self.name + func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_operators_below_autograd_and_composites_as_their_parts(device):
    w = tt.ones(2, 3, device=device).requires_grad_()
    seen = []
    with Log(seen):
        tt.nn.functional.linear(tt.ones(4, 3, device=device), w).relu().sum().backward()
    assert seen[:7] == ["ones", "t", "mm", "relu", "sum", "ones_like", "expand"]
    assert "threshold_backward" in seen and "linear" not in seen
    np.testing.assert_array_equal(w.grad.cpu().numpy(), np.full((2, 3), 4, np.float32))


def test_arguments_come_as_a_caller_writes_them():
    calls = []

    class Arguments(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append((str(func._schema.operator_name), types, args, kwargs))
            return func(*args, **(kwargs or {}))

    a, b = tt.ones(2), tt.ones(2)
    with Arguments():
        tt.add(a, b)
        tt.add(a, b, alpha=2)
        a.sum(0, keepdim=True)
        tt.zeros(2, dtype=tt.int32)
        tt.cat([a, b])
    assert calls == [
        ("aten::add.Tensor", (), (a, b), {}),
        ("aten::add.Tensor", (), (a, b), {"alpha": 2}),
        ("aten::sum.dim_IntList", (), (a, (0,), True), {}),
        ("aten::zeros", (), ((2,),), {"dtype": tt.int32}),
        ("aten::cat", (), ((a, b),), {}),
    ]


def test_modes_nest_innermost_first_and_the_same_mode_may_be_entered_twice():
    seen = []
    inner, outer = Log(seen, "inner "), Log(seen, "outer ")
    with outer, inner:
        tt.ones(1)
    with outer, outer:
        tt.zeros(1)
    assert seen == ["inner ones", "outer ones", "outer zeros", "outer zeros"]


def test_a_mode_may_replace_results_and_enter_itself_again_while_handling():
    class Negated(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            if func is not None and func.name() == "aten::exp":
                with self:
                    return -args[0].sin()
            return func(*args, **(kwargs or {}))

    x = tt.from_numpy(np.float32([1, 2])).requires_grad_()
    with Negated():
        y = x.exp()
    np.testing.assert_allclose(y.detach().numpy(), -np.sin([1, 2]), rtol=1e-6)
    assert y.grad_fn.name() == "ExpBackward0"


def test_an_error_in_a_handler_leaves_the_thread_as_it_was():
    class Fails(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("handler")

    before = modes_and_keys()
    a = tt.ones(2)
    with pytest.raises(KeyError, match="handler"), Fails():
        a.add_(1)
    assert modes_and_keys() == before
    assert a.tolist() == [1.0, 1.0] and a.current_version() == 0
    seen = []
    with Log(seen), pytest.raises(KeyError), Fails():
        a.exp()
    assert seen == [] and modes_and_keys() == before


def test_a_mode_is_of_its_thread_alone():
    seen = []
    with Log(seen):
        thread = threading.Thread(target=lambda: tt.ones(2).exp())
        thread.start()
        thread.join()
    assert seen == []


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (NotImplemented, "no implementation found for 'aten::exp'.*of Answers returned NotImplemented"),
        (3, "aten::exp: __tensor_dispatch__ must return Tensor as the schema has it, got int"),
    ],
)
def test_answers_that_the_schema_does_not_have_are_refused(result, message):
    class Answers(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            return result

    a = tt.ones(2)
    before = modes_and_keys()
    with pytest.raises(TypeError, match=message), Answers():
        a.exp()
    assert modes_and_keys() == before
    with (
        pytest.raises(NotImplementedError, match="Nothing defines no __tensor_dispatch__"),
        type("Nothing", (tt.TensorDispatchMode,), {})(),
    ):
        a.exp()


def test_a_gradient_that_was_not_asked_for_may_be_none() -> None:
    class Through(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = tt.randn(3, 4, requires_grad=True)
    with Through():
        tt.nn.functional.layer_norm(x, (4,)).sum().backward()
    assert x.grad.shape == (3, 4)


def test_modes_are_left_in_the_order_in_which_they_were_entered():
    a, b = Log([]), Log([])
    a.__enter__()
    b.__enter__()
    with pytest.raises(RuntimeError, match="left before a mode that was entered after it"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)
    assert not modes


class Scaled(tt.Tensor):
    """Tensor with a separate scale factor."""

    __tensor_function__ = tt._C._disabled_tensor_function_impl

    @staticmethod
    def __new__(cls, inner, scale):
        made = tt.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner, made.scale = inner, scale
        return made

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        if func.name() == "aten::mul.Tensor" and isinstance(args[1], float):
            return cls(args[0].inner, args[0].scale * args[1])
        return func(*[cls.plain(a) for a in args], **(kwargs or {}))

    @classmethod
    def plain(cls, value):
        if isinstance(value, tuple | list):
            return [cls.plain(v) for v in value]
        return value.inner * value.scale if isinstance(value, cls) else value


def test_a_wrapper_subclass_handles_operators_methods_and_functions(device):
    x = Scaled(tt.ones(2, 3, device=device), 3.0)
    assert (x.shape, x.dtype, x.device.type) == ((2, 3), tt.float32, device)
    doubled = x * 2.0
    assert isinstance(doubled, Scaled) and doubled.scale == 6.0
    total = tt.add(doubled, tt.ones(2, 3, device=device))
    assert type(total) is tt.Tensor
    np.testing.assert_array_equal(total.cpu().numpy(), np.full((2, 3), 7, np.float32))
    assert tt.nn.functional.linear(x, tt.ones(1, 3, device=device)).tolist() == [[9.0], [9.0]]
    assert tt.cat([x, x]).shape == (4, 3)


def test_gradients_flow_through_a_subclass():
    x = Scaled(tt.ones(2), 3.0).requires_grad_()
    w = tt.ones(2, requires_grad=True)
    (x + w * 2.0).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0] and x.grad.tolist() == [1.0, 1.0]


class Base(tt.Tensor):
    __tensor_function__ = tt._C._disabled_tensor_function_impl
    asked: list

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        Base.asked.append((cls.__name__, [t.__name__ for t in types]))
        return NotImplemented


class Derived(Base):
    pass


def test_subclasses_are_asked_before_their_bases_and_plain_subclasses_not_at_all():
    Base.asked = []
    base, derived = tt.ones(2).as_subclass(Base), tt.ones(2).as_subclass(Derived)
    with pytest.raises(
        TypeError, match=r"no implementation found for 'aten::add.Tensor': .* of Base, Derived"
    ):
        base + derived
    assert Base.asked == [("Derived", ["Derived", "Base"]), ("Base", ["Derived", "Base"])]
    plain = type("Plain", (tt.Tensor,), {})
    assert (tt.ones(2).as_subclass(plain) + 1).tolist() == [2.0, 2.0]


def test_a_mode_comes_before_subclasses():
    seen = []
    x = Scaled(tt.ones(2), 3.0)
    with Log(seen):
        x + 1.0
    assert seen[0] == "add.Tensor"


def test_subclasses_share_bytes_and_versions_and_bad_classes_are_refused():
    a = tt.ones(2)
    b = a.as_subclass(type("Plain", (tt.Tensor,), {}))
    b.add_(1)
    assert a.tolist() == [2.0, 2.0] and a.current_version() == 1
    with pytest.raises(TypeError, match="expected a subclass of Tensor, got <class 'int'>"):
        a.as_subclass(int)
    with pytest.raises(TypeError, match="must be a Tensor subclass with __tensor_dispatch__"):
        tt.Tensor._make_wrapper_subclass(tt.Tensor, (2,))


class Whole(tt.Tensor):
    """Wrapper of a tensor that calls operators with it."""

    elem: tt.Tensor

    @staticmethod
    def __new__(cls, elem, **options):
        made = tt.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype, **options)
        made.elem = elem
        return made

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[x.elem if isinstance(x, cls) else x for x in args], **(kwargs or {}))


def test_metadata_of_a_wrapper():
    x = Whole(tt.ones(2, 3), strides=(1, 2), storage_offset=5, layout=tt.strided)
    assert x.stride() == (1, 2) and x.storage_offset() == 5 and x.layout is tt.strided
    assert Whole(tt.ones(1, 2, 2, 2), memory_format=tt.channels_last).stride() == (8, 1, 4, 2)
    with pytest.raises(RuntimeError, match="storage offset without stride"):
        Whole(tt.ones(2), storage_offset=1)
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: other"):
        Whole(tt.ones(2), dispatch_sizes_strides_policy="other")


VIEWS: list[Callable[[tt.Tensor], tt.Tensor]] = [
    lambda x: x.as_strided((2, 2), (3, 1), 1),
    lambda x: x.diagonal(),
    lambda x: x.expand(2, *x.shape),
    lambda x: x.unfold(0, 2, 1),
    lambda x: x.view(tt.int32),
    lambda x: x.view(tt.complex64),
    lambda x: x.select(0, 1),
    lambda x: x[1:, ::2],
    lambda x: x.t().unsqueeze(0),
    lambda x: x.split(x.size(0) // 2)[1],
    lambda x: x.reshape(2, -1),
]


@pytest.mark.parametrize("size", [(4, 4), (4096, 64), (1 << 20, 1 << 18)], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_a_wrapper_below_its_handler_are_those_of_a_tensor(
    view: Callable[[tt.Tensor], tt.Tensor], size: tuple[int, int]
) -> None:
    """Compute the metadata of views, also of a wrapper of a tebibyte."""
    plain = tt.empty(size, device="meta")
    with dispatch_modes._DisableTensorDispatch():
        got = view(Whole(plain))
    expected = view(plain)
    assert (got.shape, got.stride(), got.dtype) == (expected.shape, expected.stride(), expected.dtype)
    assert got.storage_offset() == expected.storage_offset()


def test_no_handler_serves_an_operator_that_a_mode_leaves():
    class Passes(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    plain, whole = tt.ones(2), Whole(tt.ones(2))
    with Passes():
        for x in (plain, whole):
            with pytest.raises(TypeError, match="no implementation found for 'aten::abs'"):
                x.abs()


def test_grad_by_its_private_name():
    p = tt.nn.Parameter(tt.ones(2))
    p._grad = tt.full((2,), 3.0)
    assert p.grad is p._grad and p.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="different size"):
        p._grad = tt.ones(3)


class Wrapped(tt.Tensor):
    """Wrapper of a tensor that records the calls of its handler."""

    seen: ClassVar[list[str]] = []
    inner: tt.Tensor
    __tensor_function__ = tt._C._disabled_tensor_function_impl

    @staticmethod
    def __new__(cls, inner: tt.Tensor) -> Wrapped:
        made = tt.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        return func(*[each.inner if isinstance(each, Wrapped) else each for each in args], **(kwargs or {}))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda x: x.item(), 3),
        (bool, True),
        (int, 3),
        (float, 3.0),
        (complex, 3 + 0j),
        (lambda x: [0, 1, 2, 5][x], 5),
        (lambda x: tt.arange(8)[x], 3),
        (lambda x: tt.full((1,), x).tolist(), [3]),
    ],
)
def test_a_handler_sees_reads_of_an_element(read: Any, expected: Any) -> None:
    Wrapped.seen.clear()
    assert read(Wrapped(tt.tensor(3))) == expected
    assert Wrapped.seen == ["aten._local_scalar_dense.default"]


@pytest.mark.parametrize("name", ["tolist", "numpy"])
def test_bytes_of_a_class_with_a_handler_are_not_read(name: str) -> None:
    with pytest.raises(
        RuntimeError, match=rf"\.{name}\(\) is not supported for tensor subclasses, got Wrapped"
    ):
        getattr(Wrapped(tt.ones(2)), name)()


def test_each_mode_sees_the_read_of_an_element() -> None:
    outer, inner = [], []
    with Log(outer), Log(inner):
        assert tt.tensor(2.5).item() == 2.5 and tt.tensor([[4]], requires_grad=False).item() == 4
        assert tt.tensor([tt.ones(()), 1.0]).shape == (2,)
        with pytest.raises(RuntimeError, match="2 elements cannot be converted"):
            tt.ones(2).item()
    assert outer == inner and inner.count("_local_scalar_dense") == 2


class _Named(tt.TensorDispatchMode):
    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        assert dispatch_modes._get_current_dispatch_mode() is not self
        seen.append(self)
        return func(*args, **(kwargs or {}))


seen: list[tt.TensorDispatchMode] = []


def test_the_stack_of_modes_is_found_and_left():
    outer, inner = _Named(), _Named()
    x = tt.ones(1)
    assert dispatch_modes._get_current_dispatch_mode() is None
    with pytest.raises(RuntimeError, match="no dispatch mode"), dispatch_modes._pop_mode_temporarily():
        pass
    with outer, inner:
        assert dispatch_modes._get_current_dispatch_mode_stack() == [outer, inner]
        assert (
            dispatch_modes._get_current_dispatch_mode() is inner
            and dispatch_modes.is_in_tensor_dispatch_mode()
        )
        with dispatch_modes._pop_mode_temporarily() as left:
            x.neg()
        with dispatch_modes._DisableTensorDispatch():
            x.neg()
    assert left is inner and seen == [outer] and not dispatch_modes.is_in_tensor_dispatch_mode()


def test_wrapper_subclasses_are_transformed():
    class Wrapper(tt.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = tt.Tensor._make_wrapper_subclass(cls, inner.size(), inner.stride(), dtype=inner.dtype)
            made.inner = inner
            return made

        def __tensor_flatten__(self):
            return ["inner"], None

        @classmethod
        def __tensor_unflatten__(cls, tensors, context, sizes, strides):
            return cls(tensors["inner"])

        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(func)

    made = dispatch_modes.transform_subclass(Wrapper(tt.ones(2, 3)), lambda name, inner: inner * 2)
    assert type(made) is Wrapper and made.inner.tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match="must return sizes"):
        dispatch_modes.transform_subclass(Wrapper(tt.ones(2, 3)), lambda name, inner: inner[0])


def test_super_finds_a_handler_that_runs_the_operator():
    class Base(tt.Tensor):
        __tensor_function__ = tt._C._disabled_tensor_function_impl

        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            names.append((cls.__name__, func.name()))
            return super().__tensor_dispatch__(func, types, args, kwargs)

    class Derived(Base):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__tensor_dispatch__(func, types, args, kwargs)

    class Plain(tt.Tensor):
        pass

    names: list[tuple[str, str]] = []
    x = tt.ones(2).as_subclass(Derived)
    assert (x + x).tolist() == [2.0, 2.0] and names == [("Derived", "aten::add.Tensor")]
    assert not hasattr(Plain, "__tensor_dispatch__") and not hasattr(tt.Tensor, "__tensor_dispatch__")


@pytest.mark.parametrize("call", [lambda x: x + 2, lambda x: tt.add(x, 2), lambda x: x.add(x)])
def test_a_handler_may_return_none(call):
    class Nothing(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            return None

    assert call(tt.ones(2).as_subclass(Nothing)) is None


class Slotted(tt.Tensor):
    """Wrapper whose tensor is in a slot, and which calls operators with it and wraps their results."""

    __slots__ = ("elem",)
    __tensor_function__ = tt._C._disabled_tensor_function_impl

    @staticmethod
    def __new__(cls, elem):
        made = tt.Tensor._make_wrapper_subclass(
            cls, elem.size(), dtype=elem.dtype, requires_grad=elem.requires_grad
        )
        made.elem = elem.detach()
        return made

    def __repr__(self):
        return super().__repr__(tensor_contents=f"elem={self.elem}")

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [x.elem if isinstance(x, cls) else x for x in args]
        return cls(func(*plain, **(kwargs or {})))


def test_a_saved_result_keeps_the_slots_of_its_class():
    x = Slotted(tt.tensor([0.0, 1.0], requires_grad=True))
    (slope,) = tt.autograd.grad(x.exp().sum() * 3, x, create_graph=True)
    (curve,) = tt.autograd.grad(slope.sum(), x)
    for found in (slope, curve):
        assert type(found) is Slotted
        np.testing.assert_allclose(found.elem.tolist(), [3.0, 3.0 * np.e], rtol=1e-6)


def test_a_deep_copy_keeps_slots_and_copies_them():
    x = Slotted(tt.tensor([1.0, 2.0]))
    x.note = [3]
    made = copy.deepcopy(x)
    assert type(made) is Slotted and made.elem.tolist() == [1.0, 2.0] and made.note == [3]
    made.elem.zero_()
    assert x.elem.tolist() == [1.0, 2.0] and made.note is not x.note


def test_a_deep_copy_refuses_a_class_whose_clone_is_plain():
    with pytest.raises(RuntimeError, match="cloning returns another instance of the same subclass"):
        copy.deepcopy(Scaled(tt.ones(2), 3.0))


def test_the_text_of_elements_may_be_given():
    assert repr(Slotted(tt.ones(1, requires_grad=True))) == "Slotted(elem=tensor([1.]), requires_grad=True)"
    assert tt.ones(2).to_sparse().__repr__(tensor_contents="two ones") == (
        "tensor(two ones,\n       size=(2,), nnz=2, layout=triten.sparse_coo)"
    )


def test_data_of_a_wrapper_goes_through_its_handler():
    x = Slotted(tt.tensor([1.0, 2.0], requires_grad=True))
    for leaf, values in ((x, [1.0, 2.0]), (tt.nn.Parameter(x), [2.0, 4.0])):
        found = leaf.data
        assert type(found) is Slotted and found.elem.tolist() == values and not found.requires_grad
        found.mul_(2)
        assert leaf.current_version() == 0


class Computed(tt.Tensor):
    """Wrapper whose metadata is `answers`; operators without an answer go to the held tensor."""

    __tensor_function__ = tt._C._disabled_tensor_function_impl

    @staticmethod
    def __new__(cls, held, answers, **options):
        made = tt.Tensor._make_wrapper_subclass(
            cls, held.size(), dtype=held.dtype, device=held.device, **options
        )
        made.held, made.answers, made.asked = held, answers, []
        return made

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        own = next(x for x in args if isinstance(x, cls))
        own.asked.append(str(func))
        if str(func) in own.answers:
            return own.answers[str(func)]
        return func(*[x.held if isinstance(x, cls) else x for x in args], **(kwargs or {}))


ANSWERS = {
    "aten.sym_size.default": (5, 3),
    "aten.sym_stride.default": [4, 2],
    "aten.dim.default": 7,
    "aten.sym_numel.default": 99,
    "aten.is_contiguous.default": False,
    "aten.is_contiguous.memory_format": True,
    "aten.is_strides_like_format.default": True,
    "aten.is_non_overlapping_and_dense.default": False,
    "prim.device.default": tt.device("meta"),
    "prim.layout.default": tt.sparse_csr,
}


def _queries(x):
    aten = tt.ops.aten
    return {
        "aten.sym_size.default": tuple(x.size()),
        "aten.sym_stride.default": list(x.stride()),
        "aten.dim.default": x.dim(),
        "aten.sym_numel.default": x.numel(),
        "aten.is_contiguous.default": x.is_contiguous(),
        "aten.is_contiguous.memory_format": x.is_contiguous(memory_format=tt.channels_last),
        "aten.is_strides_like_format.default": aten.is_strides_like_format(x, tt.channels_last),
        "aten.is_non_overlapping_and_dense.default": aten.is_non_overlapping_and_dense(x),
        "prim.device.default": x.device,
        "prim.layout.default": x.layout,
    }


STRIDES = frozenset(name for name in ANSWERS if "stride" in name or "contiguous" in name or "dense" in name)
SIZES = STRIDES | {"aten.sym_size.default", "aten.dim.default", "aten.sym_numel.default"}


@pytest.mark.parametrize(
    ("options", "computed"),
    [
        ({"dispatch_sizes_strides_policy": "strides"}, STRIDES),
        ({"dispatch_sizes_strides_policy": "sizes"}, SIZES),
        ({"dispatch_device": True}, {"prim.device.default"}),
        ({"dispatch_layout": True}, {"prim.layout.default"}),
        (
            {"dispatch_layout": True, "dispatch_device": True, "dispatch_sizes_strides_policy": "sizes"},
            set(ANSWERS),
        ),
    ],
)
def test_a_class_computes_the_metadata_that_its_tensor_was_made_for(options, computed):
    plain = _queries(tt.ones(2, 3))
    x = Computed(tt.ones(2, 3), ANSWERS, **options)
    assert _queries(x) == {name: ANSWERS[name] if name in computed else plain[name] for name in ANSWERS}
    assert set(x.asked) == computed
    passed_on = Computed(tt.ones(2, 3), {}, **options)
    assert _queries(passed_on) == plain and set(passed_on.asked) == computed


def test_metadata_without_an_answer_is_that_of_creation():
    class Silent(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            return None

    x = tt.Tensor._make_subclass(
        Silent, tt.ones(2, 3), dispatch_sizes_strides_policy="sizes", dispatch_layout=True
    )
    assert (x.shape, x.stride(), x.numel(), x.layout) == ((2, 3), (3, 1), 6, tt.strided)
    assert x.is_contiguous() and x.storage_offset() == 0
    with pytest.raises(RuntimeError, match="dim returned invalid type NoneType, expected int"):
        x.dim()


@pytest.mark.parametrize(
    ("answer", "query", "message"),
    [
        ({"aten.sym_size.default": "x"}, lambda x: x.shape, "sym_size must be a list or a tuple, got str"),
        (
            {"aten.sym_stride.default": 3},
            lambda x: x.stride(),
            "sym_strides must be a list or a tuple, got int",
        ),
        (
            {"aten.is_contiguous.default": 3},
            lambda x: x.is_contiguous(),
            "returned invalid type int, expected bool",
        ),
        (
            {"aten.sym_numel.default": "x"},
            lambda x: x.numel(),
            "numel returned invalid type str, expected int",
        ),
        (
            {"prim.device.default": "meta"},
            lambda x: x.device,
            "device returned invalid type str, expected Device",
        ),
        ({"prim.layout.default": 3}, lambda x: x.layout, "layout returned invalid type int, expected Layout"),
    ],
)
def test_metadata_of_another_type_is_refused(answer, query, message):
    x = Computed(
        tt.ones(2), answer, dispatch_sizes_strides_policy="sizes", dispatch_device=True, dispatch_layout=True
    )
    with pytest.raises(RuntimeError, match=message):
        query(x)


def test_operators_and_views_of_a_tensor_that_computes_its_metadata(device):
    held = tt.arange(6.0, device=device).view(2, 3)
    x = Computed(held, {}, dispatch_sizes_strides_policy="sizes", requires_grad=True)
    assert x.requires_grad and not x.detach().requires_grad
    x.answers["aten.sym_size.default"] = (2, 3)
    assert (x + 1).tolist() == [[1, 2, 3], [4, 5, 6]] and x.t().shape == (3, 2)
    seen = []
    with Log(seen):
        assert x.shape == (2, 3)
    assert seen == ["sym_size"]
    assert tt.ops.aten.size(held) == [2, 3] and tt.ops.aten.stride.int(held, 0) == 3
    assert tt.ops.prim.device(held).type == device and tt.ops.prim.layout(held) is tt.strided


def test_a_subclass_shows_the_metadata_attributes_of_tensor():
    class Plain(tt.Tensor):
        pass

    class Own(tt.Tensor):
        def size(self, dim=None):
            return "own"

    for name in (
        "size",
        "stride",
        "dim",
        "numel",
        "shape",
        "dtype",
        "device",
        "layout",
        "requires_grad",
        "grad",
    ):
        assert getattr(Plain, name) is getattr(tt.Tensor, name)
    assert Own.size is not tt.Tensor.size and tt.ones(2).as_subclass(Own).size() == "own"


def test_a_class_that_handles_operators_opts_out_of_the_default_handler_of_calls():
    class Held(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[x.held if isinstance(x, Held) else x for x in args], **(kwargs or {}))

    class Child(Held):
        pass

    class Both(Held):
        @classmethod
        def __tensor_function__(cls, func, types, args=(), kwargs=None):
            return super().__tensor_function__(func, types, args, kwargs)

    class Mixed(tt.Tensor, metaclass=type(tt.Tensor)):
        pass

    for cls, result in ((Held, tt.Tensor), (Child, tt.Tensor), (Both, tt.Tensor)):
        x = tt.Tensor._make_wrapper_subclass(cls, (2,))
        x.held = tt.ones(2)
        assert type(x + 1) is result and (x + 1).tolist() == [2, 2]
    assert Held.__tensor_function__ is tt._C._disabled_tensor_function_impl and Held.__name__ == "Held"
    assert Mixed.__tensor_function__.__func__ is tt.Tensor.__tensor_function__.__func__


def test_a_subclass_sees_operators_after_its_bytes_are_replaced():
    seen = []

    class Watched(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return super().__tensor_dispatch__(func, types, args, kwargs)

    x = tt.ones(2).as_subclass(Watched)
    x.data = tt.zeros(3)
    seen.clear()
    assert x.abs().shape == (3,) and seen == ["aten::abs"]
    x.set_(tt.zeros(4))
    seen.clear()
    assert x.abs().shape == (4,) and seen == ["aten::abs"]
    plain = tt.ones(2)
    plain.data = x
    seen.clear()
    assert plain.abs().shape == (4,) and seen == []


def test_a_mode_sees_the_calls_of_a_subclass_to_which_it_delegates():
    calls = []

    class Delegates(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(types)
            return NotImplemented if types else func(*args, **(kwargs or {}))

    with Delegates():
        found = Whole(-tt.ones(2)).abs()
    assert [len(types) for types in calls if types] == [1] and calls[-1] == () and found.tolist() == [1, 1]


class Wrapping(tt.Tensor):
    """A wrapper subclass that wraps each result anew, and keeps the operators that it saw with their numbers."""

    seen: ClassVar[list[tuple[Any, ...]]] = []
    held: tt.Tensor

    @staticmethod
    def __new__(cls, held: tt.Tensor) -> Wrapping:
        made = tt.Tensor._make_wrapper_subclass(cls, held.shape, strides=held.stride(), dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((str(func), *(a for a in args if not isinstance(a, tt.Tensor))))
        args, kwargs = tt.utils._pytree.tree_map(
            lambda a: a.held if isinstance(a, Wrapping) else a, (args, kwargs or {})
        )
        return tt.utils._pytree.tree_map(
            lambda a: Wrapping(a) if isinstance(a, tt.Tensor) else a, func(*args, **kwargs)
        )


LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("index", "seen"),
    [
        (0, [("aten.select.int", 0, 0)]),
        (-1, [("aten.select.int", 0, -1)]),
        ((0, 1), [("aten.select.int", 0, 0), ("aten.select.int", 0, 1)]),
        (slice(None), [("aten.slice.Tensor", 0, 0, LAST)]),
        (slice(-2, None), [("aten.slice.Tensor", 0, -2, LAST)]),
        (slice(None, None, 2), [("aten.slice.Tensor", 0, 0, LAST, 2)]),
        ((slice(1, None), 0), [("aten.slice.Tensor", 0, 1, LAST), ("aten.select.int", 1, 0)]),
        ((Ellipsis, None), [("aten.unsqueeze.default", 2)]),
        (Ellipsis, [("aten.alias.default",)]),
    ],
)
def test_a_handler_sees_pytorchs_operators_of_a_subscript(index: Any, seen: list[tuple[Any, ...]]) -> None:
    held = tt.arange(12.0).reshape(4, 3)
    Wrapping.seen.clear()
    assert Wrapping(held)[index].held.tolist() == held[index].tolist()
    assert Wrapping.seen == seen


def test_what_an_in_place_or_out_call_writes_is_its_result() -> None:
    wrapped, plain = Wrapping(tt.ones(2)), tt.zeros(2)
    assert wrapped.add_(1) is wrapped and wrapped.held.tolist() == [2.0, 2.0]
    assert plain.add_(wrapped) is plain and plain.tolist() == [2.0, 2.0]
    assert tt.add(wrapped, wrapped, out=plain) is plain and plain.tolist() == [4.0, 4.0]
    before = plain
    plain += wrapped
    assert plain is before and plain.tolist() == [6.0, 6.0]
    outs = tt.zeros(()), tt.zeros((), dtype=tt.int64)
    values = tt.max(wrapped, 0, out=outs)
    assert values[0] is outs[0] and values[1] is outs[1] and outs[0].item() == 2.0


def test_tensor_split_reads_a_number_of_parts_through_the_handler() -> None:
    x = tt.arange(4.0)
    assert [part.tolist() for part in x.tensor_split(Wrapping(tt.tensor(2)))] == [[0.0, 1.0], [2.0, 3.0]]
    assert Wrapping.seen[-1] == ("aten._local_scalar_dense.default",)
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.tensor_split(Wrapping(tt.tensor([1, 2])))


def test_a_handler_sees_lengths_and_classes_unread() -> None:
    log_probs = tt.zeros(4, 1, 3).log_softmax(-1)
    lengths = Wrapping(tt.tensor([4])), Wrapping(tt.tensor([2]))
    Wrapping.seen.clear()
    loss = tt.nn.functional.ctc_loss(log_probs, tt.tensor([[1, 2]]), *lengths)
    want = tt.nn.functional.ctc_loss(log_probs, tt.tensor([[1, 2]]), (4,), (2,))
    assert loss.held.item() == pytest.approx(want.item())
    names = [name for name, *_ in Wrapping.seen]
    assert names == [
        f"aten.{n}" for n in ("_ctc_loss.Tensor", "clamp_min.default", "div.Tensor", "mean.default")
    ]
    Wrapping.seen.clear()
    encoded = tt.nn.functional.one_hot(Wrapping(tt.tensor([1, 0])), 2)
    assert encoded.held.tolist() == [[0, 1], [1, 0]]
    names = [name for name, *_ in Wrapping.seen]
    assert names == ["aten.unsqueeze.default", "aten.eq.Tensor", "aten._to_copy.default"]
