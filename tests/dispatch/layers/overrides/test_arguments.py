"""Arguments that override public calls: duck arrays, tensor subclasses, precedence, and the switches."""

import copy
import threading
import warnings
from typing import ClassVar

import numpy as np
import pytest

import triten as tt
from triten import overrides
from triten._C import DisableTensorFunction, DisableTensorFunctionSubclass
from triten.dispatch.core.tensor_function import state

F = tt.nn.functional


class Diagonal:
    """Diagonal matrix of n equal numbers that is no tensor; a table has its overrides, as in NEP 18."""

    table: ClassVar = {}

    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        if func not in cls.table or not all(issubclass(t, Diagonal | tt.Tensor) for t in types):
            return NotImplemented
        return cls.table[func](*args, **(kwargs or {}))

    def dense(self):
        return tt.tensor(np.eye(self.n, dtype=np.float32) * self.value)


def implements(*functions):
    def register(implementation):
        for function in functions:
            Diagonal.table[function] = implementation
        return implementation

    return register


@implements(tt.mean, tt.Tensor.mean)
def mean(input):
    return input.value / input.n


@implements(tt.add, tt.Tensor.add)
def add(input, other, *, alpha=1):
    if isinstance(input, Diagonal) and isinstance(other, Diagonal):
        return Diagonal(input.n, input.value + alpha * other.value)
    dense = [each.dense() if isinstance(each, Diagonal) else each for each in (input, other)]
    return tt.add(*dense, alpha=alpha)


@implements(tt.cat)
def cat(tensors, dim=0):
    return tt.cat([each.dense() if isinstance(each, Diagonal) else each for each in tensors], dim)


@implements(F.softmax)
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return F.softmax(input.dense(), dim=dim, dtype=dtype)


def test_a_duck_array_is_taken_by_functions_methods_operators_and_lists():
    d, x = Diagonal(2, 3.0), tt.ones(2, 2)
    assert tt.mean(d) == 1.5
    assert tt.add(d, Diagonal(2, 1.0), alpha=2).value == 5.0
    for total in (tt.add(x, d), x.add(d), x + d, d + x):
        assert type(total) is tt.Tensor and total.tolist() == [[4.0, 1.0], [1.0, 4.0]]
    assert tt.add(x, d, alpha=2).tolist() == [[7.0, 1.0], [1.0, 7.0]]
    assert tt.cat([x, d]).shape == tt.cat((d, d)).shape == (4, 2)
    assert tt.cat([d, x], dim=1).shape == (2, 4)
    np.testing.assert_allclose(F.softmax(d, dim=1).sum(1).numpy(), 1.0, rtol=1e-6)


def test_what_a_duck_array_does_not_handle_is_refused_by_name():
    d, x = Diagonal(2, 3.0), tt.ones(2, 2)
    asked = r"\n\n  - tensor subclass <class '.*Diagonal'>"
    with pytest.raises(
        TypeError, match=f"Multiple dispatch failed for 'triten.exp'; all {'__tensor_function__'}"
    ):
        tt.exp(d)
    with pytest.raises(TypeError, match=f"'triten.Tensor.mul'.*NotImplemented:{asked}"):
        x.mul(d)
    with pytest.raises(TypeError, match=r"'triten.Tensor.__getitem__'"):
        x[d]
    with pytest.raises(
        TypeError,
        match=r"no implementation found for 'triten.nn.functional.mse_loss' on types that implement "
        r"__tensor_function__: \[<class '.*Diagonal'>\]$",
    ):
        F.mse_loss(d, x)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*: 'Tensor' and 'Diagonal'"):
        x * d
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*\* or pow\(\): 'Diagonal'"):
        d**x
    with pytest.raises(TypeError, match=r"'<' not supported between instances of 'Tensor' and 'Diagonal'"):
        assert x < d


class Recorder:
    """Override of every call, which records its arguments."""

    calls: ClassVar = []

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Recorder.calls.append((func, types, args, kwargs))
        return "taken"


@pytest.mark.parametrize("guard", [None, tt.inference_mode], ids=["plain", "inference"])
def test_handlers_get_the_public_callable_and_the_arguments(guard):
    x, r = tt.ones(2), Recorder()
    Recorder.calls.clear()

    def call():
        assert tt.add(x, r, alpha=2) == "taken"
        assert x.add(r) == "taken"
        assert x + r == "taken"
        assert tt.add(x, x, out=r) == "taken"
        assert tt.add(x, x, alpha=r) == "taken"
        assert tt.where(r, 1.0, 2.0) == "taken"
        assert tt.full((2,), r) == "taken"
        assert tt.sum(r) == "taken"
        assert tt.max(x, r) == "taken"
        assert tt.ops.aten.add.Tensor(x, r) == "taken"
        assert tt.ops.aten.add(x, r) == "taken"
        x[0] = r

    if guard is None:
        call()
    else:
        with guard():
            call()
    funcs = [func for func, _, _, _ in Recorder.calls]
    assert funcs == [
        tt.add,
        tt.Tensor.add,
        tt.Tensor.add,
        tt.add,
        tt.add,
        tt.where,
        tt.full,
        tt.sum,
        tt.max,
        tt.ops.aten.add.Tensor,
        tt.ops.aten.add,
        tt.Tensor.__setitem__,
    ]
    assert [args for _, _, args, _ in Recorder.calls][:5] == [(x, r), (x, r), (x, r), (x, x), (x, x)]
    assert [kwargs for _, _, _, kwargs in Recorder.calls][:5] == [
        {"alpha": 2},
        {},
        {},
        {"out": r},
        {"alpha": r},
    ]
    assert all(types == (Recorder,) for _, types, _, _ in Recorder.calls)
    assert x.tolist() == [1.0, 1.0]


def test_numbers_that_take_over_are_no_numbers():
    class Quantity(float):
        __tensor_function__ = Recorder.__tensor_function__

    assert tt.ones(2) + Quantity(1.0) == "taken" and tt.mul(tt.ones(2), Quantity(2.0)) == "taken"
    assert (tt.ones(2) + 1.0).tolist() == [2.0, 2.0]


class Metres(tt.Tensor):
    """Tensor with a unit: sums keep it, exp raises an error."""

    seen: ClassVar = []

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Metres.seen.append(overrides.resolve_name(func))
        if func in (tt.exp, tt.Tensor.exp):
            raise TypeError("exp of metres")
        return super().__tensor_function__(func, types, args, kwargs)


class Seconds(tt.Tensor):
    pass


def metres(*values, **options):
    return tt.tensor(values, **options).as_subclass(Metres)


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
def test_results_are_of_the_subclass_whatever_gave_them(device):
    x = tt.ones(2, 3, device=device)
    m = x.as_subclass(Metres)
    for result in (
        *(m + m, 1 + m, m - x, x - m, tt.add(x, m), x.add(m), m.sum(), m.T, m[0], m[:, 1:], m.view(3, 2)),
        *(m.detach(), m.to(tt.float64), m.clone(), tt.cat([x, m]), F.softmax(m, dim=0), m.data, -m, m == x),
        *(tt.zeros_like(m), x[tt.zeros(2, dtype=tt.int64, device=device).as_subclass(Metres)]),
    ):
        assert type(result) is Metres, result
    values, indices = m.max(dim=0)
    assert type(values) is type(indices) is Metres and m.max(dim=0).values.shape == (3,)
    assert all(type(each) is Metres for each in tt.split(m, 1)) and type(tt.split(m, 1)) is type(
        tt.split(x, 1)
    )
    assert (m.shape, m.ndim, m.dtype, m.device.type) == ((2, 3), 2, tt.float32, device)
    with pytest.raises(TypeError, match="exp of metres"):
        m.exp()
    with pytest.raises(TypeError, match="exp of metres"):
        tt.exp(m)


def test_plans_of_plain_tensors_are_none_of_a_subclass_nor_the_reverse():
    x, m = tt.ones(3), tt.ones(3).as_subclass(Metres)
    calls = [
        lambda a: a + 1,
        lambda a: tt.add(a, 1),
        lambda a: tt.add(x, a),
        lambda a: x.add(a, alpha=2),
        lambda a: x - a,
        lambda a: a.sum(),
        lambda a: tt.sum(a),
        lambda a: tt.amax(a),
        lambda a: tt.std(a),
        lambda a: tt.cat([x, a]),
        lambda a: tt.stack([a, a]),
        lambda a: tt.where(a > 0, a, x),
        lambda a: tt.add(x, a, out=tt.empty(3)),
        lambda a: a[1:],
        lambda a: a.expand(2, 3),
    ]
    for call in calls:
        for _ in range(3):
            assert type(call(x)) is tt.Tensor
            with DisableTensorFunctionSubclass():
                plain = call(m)
                assert type(plain) is tt.Tensor and plain._spec is call(x)._spec
                np.testing.assert_array_equal(plain.numpy(), call(x).numpy())
            Metres.seen.clear()
            assert Metres.seen == [] and call(m) is not None and Metres.seen


def test_in_place_operators_return_the_tensor_itself_and_keep_its_class():
    m = metres(1.0, 2.0)
    same = m
    m += 1
    assert m is same and m.add_(1) is m and m.tolist() == [3.0, 4.0]
    m[0] = 7
    assert tt.Tensor.resize_(m, 1).tolist() == [7.0]
    assert type(m) is Metres and type(m + 1) is Metres
    x = tt.zeros(2)
    x += metres(1.0, 2.0)
    assert type(x) is Metres and x.tolist() == [1.0, 2.0]


def test_two_units_that_know_nothing_of_each_other_do_not_add():
    m, s = metres(1.0), tt.ones(1).as_subclass(Seconds)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Metres' and 'Seconds'"):
        m + s
    with pytest.raises(
        TypeError, match=r"(?s)'triten.cat'.*Metres'>\n  - tensor subclass <class '.*Seconds'>"
    ):
        tt.cat([m, s])


class Kilometres(Metres):
    pass


class Order:
    """Classes that record when they are asked, and return NotImplemented."""

    asked: ClassVar = []

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Order.asked.append(cls.__name__)
        return NotImplemented


class A(Order):
    pass


class B(A):
    pass


class C(Order):
    pass


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((A, C), ["A", "C"]),
        ((C, A), ["C", "A"]),
        ((A, B), ["B", "A"]),
        ((A, C, B), ["B", "A", "C"]),
        ((C, A, A, B), ["C", "B", "A"]),
    ],
)
def test_handlers_are_asked_from_left_to_right_and_subclasses_first(arguments, expected):
    Order.asked.clear()
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'triten.stack'") as failure:
        tt.stack([cls() for cls in arguments])
    assert Order.asked == expected
    assert [
        line[-len(n) - 2 : -2] for line, n in zip(str(failure.value).split("\n")[2:], expected, strict=True)
    ] == (expected)


def test_types_are_the_classes_that_take_part_once_each():
    Recorder.calls.clear()
    tt.stack([tt.ones(1), Recorder(), Recorder(), metres(1.0)])
    assert Recorder.calls[-1][1] == (Recorder, Metres)


def test_a_subclass_of_a_subclass_gives_results_of_its_own():
    k = tt.ones(1).as_subclass(Kilometres)
    assert type(k + metres(1.0)) is type(metres(1.0) + k) is Kilometres
    assert type(tt.cat([metres(1.0), k])) is Kilometres


def test_methods_of_subclasses_and_mixins_come_first_and_super_asks():
    class Mixin:
        def item(self):
            return ("mixin", super().item())

    class Both(Mixin, Metres):
        def sum(self):
            return ("own", super().sum().tolist())

    class Diamond(Kilometres, Both):
        pass

    for cls in (Both, Diamond):
        x = tt.ones(1).as_subclass(cls)
        Metres.seen.clear()
        assert x.item() == ("mixin", 1.0) and x.sum() == ("own", 1.0)
        assert Metres.seen == ["triten.Tensor.item", "triten.Tensor.sum", "triten.Tensor.tolist"]
        assert type(x * 2) is cls
    assert tt.Tensor.item(tt.ones(1)) == 1.0 and hash(metres(1.0)) != hash(metres(1.0))


def test_a_disabled_class_is_a_plain_one():
    class Parameter(tt.Tensor):
        __tensor_function__ = tt._C._disabled_tensor_function_impl

    class Derived(Parameter):
        pass

    for cls in (Parameter, Derived):
        p = tt.ones(2).as_subclass(cls)
        assert type(p + 1) is type(p.T) is type(tt.cat([p, p])) is tt.Tensor
        assert p._spec is tt.ones(2)._spec and "OverriddenAttributes" not in str(cls.__mro__)
        assert not overrides.has_tensor_function((p,))
    assert type(tt.ones(2).as_subclass(Parameter) + metres(1.0)) is Metres


def test_operands_come_in_the_order_in_which_they_stand():
    calls = []

    class Operands(tt.Tensor):
        @classmethod
        def __tensor_function__(cls, func, types, args=(), kwargs=None):
            calls.append((func, [type(a).__name__ for a in args]))
            return super().__tensor_function__(func, types, args, kwargs)

    x, m = tt.ones(2), tt.full((2,), 3.0).as_subclass(Operands)
    assert [(x - m).tolist(), (m - x).tolist(), (1 - m).tolist()] == [[-2.0, -2.0], [2.0, 2.0], [-2.0, -2.0]]
    with tt.inference_mode():
        assert type(x / m) is type(2**m) is type(x @ m) is Operands
    named = [call for call in calls if call[0] is not tt.Tensor.tolist]
    assert named == [
        (tt.Tensor.sub, ["Tensor", "Operands"]),
        (tt.Tensor.sub, ["Operands", "Tensor"]),
        (tt.Tensor.__rsub__, ["Operands", "int"]),
        (tt.Tensor.div, ["Tensor", "Operands"]),
        (tt.Tensor.__rpow__, ["Operands", "int"]),
        (tt.Tensor.matmul, ["Tensor", "Operands"]),
    ]


def test_properties_are_set_and_deleted_through_handlers():
    m = metres(1.0)
    Metres.seen.clear()
    m.requires_grad = True
    (m * m).backward()
    first = m.grad
    assert m.grad is first and type(first) is tt.Tensor and first.tolist() == [2.0]
    m.grad = None
    del m.grad
    assert Metres.seen == [
        "triten.Tensor.requires_grad.__set__",
        "triten.Tensor.mul",
        "triten.Tensor.backward",
        *["triten.Tensor.grad.__get__"] * 2,
        "triten.Tensor.grad.__set__",
        "triten.Tensor.grad.__delete__",
    ]


def test_gradients_flow_through_subclasses_and_their_conversion():
    w = tt.ones(2, requires_grad=True)
    m = w.as_subclass(Metres)
    assert type(m) is Metres and m.grad_fn.name() == "AliasBackward0"
    (m * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0] and type(w.grad) is tt.Tensor
    leaf = tt.Tensor._make_subclass(Metres, tt.ones(2), True)
    assert leaf.is_leaf and leaf.requires_grad
    assert tt.autograd.grad((leaf * leaf).sum(), leaf)[0].tolist() == [2.0, 2.0]


def test_backward_asks_nobody_on_its_way():
    m = metres(1.0, 2.0, requires_grad=True)
    with DisableTensorFunctionSubclass():
        loss = (m * m).exp().sum()
    assert type(loss) is tt.Tensor
    Metres.seen.clear()
    loss.backward()
    assert Metres.seen == []


def test_conversions_of_python_go_through_handlers():
    m = metres(2.0)
    assert (float(m), int(m), bool(m), len(m), m.tolist(), 2.0 in m) == (2.0, 2, True, 1, [2.0], True)
    assert repr(m) == "Metres([2.])" and f"{m[0]:.1f}" == "2.0"
    assert [type(each) for each in m] == [Metres]
    assert type(copy.deepcopy(m)) is Metres and type(reversed(m)) is Metres
    np.testing.assert_array_equal(np.asarray(m), np.float32([2]))


def test_switches_nest_and_exceptions_put_them_back():
    m = metres(1.0)
    with DisableTensorFunctionSubclass():
        with DisableTensorFunction():
            assert type(m + 1) is tt.Tensor and not overrides.has_tensor_function((m,))
        with DisableTensorFunctionSubclass():
            assert type(m.T) is tt.Tensor
        assert type(m + 1) is tt.Tensor
        with pytest.raises(TypeError, match=r"add\(\): argument 'other'.*must be (Tensor|Number)"):
            tt.add(m, Recorder())
    assert state.disabled == 0 and type(m + 1) is Metres
    with pytest.raises(KeyError), DisableTensorFunction():
        raise KeyError
    assert state.disabled == 0

    def elsewhere():
        kinds.append(type(m + 1))

    kinds: ClassVar = []
    with DisableTensorFunction():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert kinds == [Metres]


def test_an_exception_of_a_handler_reaches_the_caller():
    class Fails:
        @classmethod
        def __tensor_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError(func.__name__)

    for call in (
        lambda: tt.exp(Fails()),
        lambda: tt.ones(1).exp_().mul(Fails()),
        lambda: tt.ones(1) + Fails(),
    ):
        with pytest.raises(KeyError, match=r"exp|mul|add"):
            call()


def test_a_handler_that_is_a_plain_method_is_deprecated():
    class Old:
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            return self

    old = Old()
    with pytest.warns(DeprecationWarning, match="`__tensor_function__` as a plain method is deprecated"):
        assert tt.exp(old) is old
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tt.exp(Recorder()) == "taken"


def test_functions_of_ones_own_take_part():
    @overrides.wrap_tensor_function(lambda a, b=None: (a, b))
    def double(a, b=None):
        return a + a

    def half(a):
        if overrides.has_tensor_function_unary(a):
            return overrides.handle_tensor_function(half, (a,), a)
        return a / 2

    Recorder.calls.clear()
    r = Recorder()
    assert double(3) == 6 and half(4) == 2.0
    assert double(1, b=r) == half(r) == "taken"
    assert [(f, a, k) for f, _, a, k in Recorder.calls] == [(double, (1,), {"b": r}), (half, (r,), {})]
    with pytest.raises(
        TypeError, match=r"no implementation found for '.*half' on types.*: \[<class '.*\.A'>\]"
    ):
        half(A())
    assert overrides.has_tensor_function_variadic(1, r) and not overrides.has_tensor_function_variadic(1, 2)


def test_handlers_of_grad_receive_tuples():
    Recorder.calls.clear()
    r = Recorder()
    assert tt.autograd.grad(r, [r], grad_outputs=None) == "taken"
    ((func, _, args, kwargs),) = Recorder.calls
    assert func is tt.autograd.grad and args == ((r,), (r,))
    assert kwargs["grad_outputs"] is None and kwargs["create_graph"] is False


def test_distributions_broadcast_what_is_like_a_tensor():
    Recorder.calls.clear()
    r = Recorder()
    assert tt.distributions.utils.broadcast_all(1.0, r) == tuple("taken")
    ((func, _, args, _),) = Recorder.calls
    assert func is tt.broadcast_tensors and args[1] is r and args[0].tolist() == 1.0


def test_what_is_like_a_tensor():
    assert [overrides.is_tensor_like(v) for v in (tt.ones(1), metres(1.0), Recorder(), 6, None)] == [
        *(True, True, True),
        *(False, False),
    ]
    assert overrides.is_tensor_method_or_property(tt.Tensor.shape.__get__)


def test_marks_of_subclasses_change_no_keys():
    x, m = tt.ones(2), metres(1.0, 1.0)
    with DisableTensorFunctionSubclass():
        assert m.key_set() == x.key_set() and m._spec.call_keys == x._spec.call_keys
    assert m._spec is not x._spec and m._spec.differentiable.detached is m._spec


def test_redispatch_skips_the_handlers_of_one_function():
    names: list[str] = []

    class Logged(tt.Tensor):
        @classmethod
        def __tensor_function__(cls, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    class LogMode(overrides.TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if overrides.has_tensor_function((a, b)):
            return overrides.handle_tensor_function(scaled, (a, b), a, b)
        return a * b + 1

    a, b = tt.tensor(3.0), tt.tensor(4.0)
    result = scaled(a.as_subclass(Logged), b)
    assert result == 13 and type(result) is tt.Tensor and names == ["scaled", "mul"]
    names.clear()
    with LogMode():
        assert overrides.has_tensor_function((a,))
        result = scaled(a, b)
    assert result == 13 and names == ["scaled", "mul", "add"]
    assert state.skips_check is False


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_dispatch_handler_differentiates_in_a_reentrant_block(reentrant: bool):
    from contextlib import nullcontext

    class Derive(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name() == "aten::sin":
                with overrides.enable_reentrant_dispatch() if reentrant else nullcontext(), tt.enable_grad():
                    x = args[0].detach().requires_grad_()
                    recorded.append(func(x).grad_fn is not None)
            return func(*args, **(kwargs or {}))

    recorded: list[bool] = []
    with Derive():
        y = tt.tensor(0.0, requires_grad=True).sin()
    assert recorded == [reentrant] and y.grad_fn is not None
