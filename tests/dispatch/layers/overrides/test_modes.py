"""Function modes: the calls that they see, their order, and no state left behind."""

import inspect
import threading

import numpy as np
import pytest

import triten as tt
from triten import overrides
from triten._torch_names import TorchDispatchMode, TorchFunctionMode
from triten.dispatch.core.tensor_function import state
from triten.dispatch.layers.overrides import interception
from triten.overrides import BaseTensorFunctionMode, TensorFunctionMode
from triten.utils._python_dispatch import TensorDispatchMode

F = tt.nn.functional


class Log(TensorFunctionMode):
    """Mode that runs each call, and records its name."""

    def __init__(self, seen=None, name=""):
        self.seen, self.name = [] if seen is None else seen, name

    def __tensor_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(self.name + overrides.resolve_name(func).removeprefix("triten."))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    assert state.modes == () and state.disabled == 0 and interception._active == 0
    x = tt.ones(2)
    assert tt.add(x, x).shape == (2,)
    assert tt.add.__code__.co_varnames[:2] == ("input", "other")
    assert not inspect.isfunction(tt.add.__wrapped__)


def test_a_logging_mode_prints_every_public_call(capsys):
    class Print(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            print(overrides.resolve_name(func))
            return func(*args, **(kwargs or {}))

    w = tt.ones(2, 3, requires_grad=True)
    with Print():
        x = tt.tensor([[1.0, 2.0, 3.0]])
        y = (x @ w.T + 1)[0].relu()
        loss = F.cross_entropy(y, tt.tensor(1))
        loss.backward()
        w.grad.sum().item()
        tt.ops.aten.exp.default(x)
        len(x), float(y[0]), 1 - x, x.shape
    assert capsys.readouterr().out.split() == [
        *("triten.tensor", "triten.Tensor.T.__get__", "triten.Tensor.matmul", "triten.Tensor.add"),
        *("triten.Tensor.__getitem__", "triten.Tensor.relu", "triten.tensor"),
        *("triten.nn.functional.cross_entropy", "triten.Tensor.backward"),
        *("triten.Tensor.grad.__get__", "triten.Tensor.sum", "triten.Tensor.item", "aten.exp.default"),
        *("triten.Tensor.__len__", "triten.Tensor.__getitem__", "triten.Tensor.__float__"),
        *("triten.Tensor.__rsub__", "triten.Tensor.shape.__get__"),
    ]


def test_arguments_come_as_the_caller_wrote_them():
    calls = []

    class Arguments(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            calls.append((func, types, args, kwargs))
            return func(*args, **(kwargs or {}))

    a = tt.ones(2, 3)
    with Arguments():
        tt.add(a, other=a)
        tt.add(input=a, other=1, alpha=1)
        a.sum(dim=0, keepdim=True)
        tt.sum(a, 0, False)
        tt.zeros(2, 3, dtype=tt.int32)
        tt.zeros((2, 3))
        a.view(-1)
        F.softmax(a, 0)
        tt.cat([a, a])
        2.0 * a
        a[0, 1:]
    assert [(func, args, kwargs) for func, _, args, kwargs in calls] == [
        (tt.add, (a,), {"other": a}),
        (tt.add, (), {"input": a, "other": 1, "alpha": 1}),
        (tt.Tensor.sum, (a,), {"dim": 0, "keepdim": True}),
        (tt.sum, (a, 0, False), {}),
        (tt.zeros, (2, 3), {"dtype": tt.int32}),
        (tt.zeros, ((2, 3),), {}),
        (tt.Tensor.view, (a, -1), {}),
        (F.softmax, (a, 0), {}),
        (tt.cat, ([a, a],), {}),
        (tt.Tensor.mul, (a, 2.0), {}),
        (tt.Tensor.__getitem__, (a, (0, slice(1, None))), {}),
    ]
    assert all(types == () for _, types, _, _ in calls)


def test_modes_nest_innermost_first_and_composites_are_seen_as_themselves():
    seen = []
    inner, outer = Log(seen, "inner "), Log(seen, "outer ")
    with outer, inner:
        F.cross_entropy(tt.ones(1, 2), tt.tensor([0]))
    calls = ["ones", "tensor", "nn.functional.cross_entropy"]
    assert seen == [f"{mode}{call}" for call in calls for mode in ("inner ", "outer ")]


def test_what_a_handler_calls_goes_to_the_mode_around_it():
    seen = []

    class Doubled(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            return tt.mul(func(*args, **(kwargs or {})), 2)

    with Log(seen), Doubled():
        y = tt.ones(2)
    assert y.tolist() == [2.0, 2.0] and seen == ["ones", "mul"]


def test_a_handler_may_enter_its_mode_again():
    class Twice(TensorFunctionMode):
        depth = 0

        def __tensor_function__(self, func, types, args=(), kwargs=None):
            self.depth += 1
            if self.depth == 1:
                with self:
                    return tt.exp(func(*args, **(kwargs or {})))
            return func(*args, **(kwargs or {}))

    mode = Twice()
    with mode:
        y = tt.zeros(1)
    assert y.tolist() == [1.0] and mode.depth == 3
    seen = []
    log = Log(seen)
    with log, log:
        tt.zeros(1)
    assert seen == ["zeros", "zeros"]


def test_results_may_be_anything():
    class Shapes(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            return ("made", args)

    x = tt.ones(1)
    with Shapes():
        assert tt.ones(2, 3) == ("made", (2, 3))
        assert x.shape == ("made", (x,)) and x + 1 == ("made", (x, 1)) and x[0] == ("made", (x, 0))


class Sub(tt.Tensor):
    seen: list

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Sub.seen.append("sub " + overrides.resolve_name(func).removeprefix("triten."))
        return super().__tensor_function__(func, types, args, kwargs)


def test_modes_come_before_arguments_and_not_implemented_leaves_it_to_them():
    Sub.seen = []
    s = tt.ones(2).as_subclass(Sub)
    with Log(Sub.seen, "outer "), Log(Sub.seen, "mode "):
        y = tt.add(tt.ones(2), s)
        s.item if s.numel() == 1 else None
    assert type(y) is Sub
    assert Sub.seen == [
        *("mode ones", "outer ones", "mode add", "outer add", "sub add"),
        *("mode Tensor.numel", "outer Tensor.numel", "sub Tensor.numel"),
    ]

    class Leaves(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            Sub.seen.append(types)
            return NotImplemented if types else func(*args, **(kwargs or {}))

    Sub.seen.clear()
    with Log(Sub.seen, "outer "), Leaves():
        assert type(s.exp()) is Sub
    # The subclass is asked with all modes active: the call below it meets them, without types.
    assert Sub.seen == [(Sub,), "sub Tensor.exp", (), "outer Tensor.exp"]


def test_a_mode_that_leaves_a_call_to_nobody_is_named():
    class Leaves(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

        def __repr__(self):
            return "<Leaves>"

    x = tt.ones(1)
    with (
        pytest.raises(
            TypeError, match=r"'triten.add'; all .* returned NotImplemented:\n\n  - mode object <Leaves>$"
        ),
        Leaves(),
    ):
        tt.add(x, x)
    with (
        pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'int'"),
        Leaves(),
    ):
        x + 1
    with pytest.raises(TypeError, match=r"no implementation found for .* nor in mode <Leaves>"), Leaves():
        overrides.handle_tensor_function(len, (), x)


def test_switches_turn_modes_off_where_arguments_are_not_enough():
    seen = []
    x = tt.ones(1)
    with Log(seen):
        with tt._C.DisableTensorFunctionSubclass():
            tt.exp(x)
        with tt._C.DisableTensorFunction():
            tt.sin(x)
            assert not overrides.has_tensor_function((x,))
        assert overrides.has_tensor_function((x,))
    assert seen == ["exp"]


def test_an_error_in_a_handler_or_in_the_block_leaves_the_thread_as_it_was():
    class Fails(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("handler")

    seen = []
    with Log(seen):
        with pytest.raises(KeyError, match="handler"), Fails():
            tt.ones(1)
        tt.zeros(1)
        with pytest.raises(TypeError, match=r"add\(\)"):
            tt.add(1, 2, 3, 4, 5)
    assert seen == ["zeros", "add"]
    nothing = type("Nothing", (TensorFunctionMode,), {})
    with pytest.raises(NotImplementedError, match="Nothing defines no __tensor_function__"), nothing():
        tt.ones(1)


@pytest.mark.parametrize(
    ("base", "handler"),
    [
        (TensorFunctionMode, "__tensor_function__"),
        (TensorDispatchMode, "__tensor_dispatch__"),
        (TorchDispatchMode, "__torch_dispatch__"),
    ],
)
@pytest.mark.parametrize("kind", [classmethod, staticmethod])
def test_a_handler_of_the_class_is_refused(base, handler, kind):
    def handle(cls, func, types, args=(), kwargs=None):
        return None

    with pytest.raises(RuntimeError, match=f"{handler}.* (a normal|a plain)"):
        type("Shared", (base,), {handler: kind(handle)})().__enter__()


@pytest.mark.parametrize("base", [TorchDispatchMode, TorchFunctionMode])
def test_push_makes_a_mode_and_warns(base):
    class WithArguments(base):
        def __init__(self, a, *, b):
            super().__init__()
            self.args = a, b

    with pytest.warns(UserWarning, match="can be replaced with just `with Mode"):
        mode = WithArguments.push(1, b=2)
    assert type(mode) is WithArguments and mode.args == (1, 2)


def test_bad_modes_are_refused():
    a, b = Log(), Log()
    a.__enter__()
    b.__enter__()
    with pytest.raises(RuntimeError, match="left before a mode that was entered after it"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="left before"):
        a.__exit__(None, None, None)


def test_a_mode_is_of_its_thread_alone():
    seen, results = [], []
    entered, done = threading.Event(), threading.Event()

    def other():
        entered.wait()
        x = tt.ones(2)
        results.append(((x + x).tolist(), x.shape, F.softmax(x, 0).tolist()))
        with Log(results):
            tt.sin(x)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with Log(seen):
        entered.set()
        done.wait()
        tt.exp(tt.zeros(1))
    thread.join()
    assert seen == ["zeros", "exp"] and results == [([2.0, 2.0], (2,), [0.5, 0.5]), "sin"]


def test_threads_enter_and_leave_at_once():
    failures = []

    def work(number):
        x = tt.ones(3)
        for _ in range(60):
            seen = []
            with Log(seen):
                y = tt.add(x, number).sum().item()
            if (seen, y) != (["add", "Tensor.sum", "Tensor.item"], 3.0 * (1 + number)):
                failures.append((number, seen, y))
            if tt.mul(x, number).sum().item() != 3.0 * number:
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_functions_keep_their_identity_and_signature_while_they_are_exchanged():
    add, signature = tt.add, inspect.signature(tt.add)
    method, kept = tt.Tensor.add, {tt.Tensor.add: 1, tt.add: 2}
    found = []

    class Look(TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            found.append(kept.get(func))
            return func(*args, **(kwargs or {}))

    x = tt.ones(1)
    with Look():
        assert tt.add is add and tt.Tensor.add is method
        assert inspect.signature(tt.add) == signature
        tt.add(x, x), x.add(x), x + x
    assert found == [2, 1, 1] and inspect.signature(tt.add) == signature


def test_function_modes_stand_above_dispatch_modes_and_guards():
    seen = []

    class Below(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append("below " + func.name())
            return func(*args, **(kwargs or {}))

    x, w = tt.ones(1, 2), tt.ones(3, 2)
    with Log(seen, "above "), Below():
        F.linear(x, w)
    with Below(), Log(seen, "above "), tt.inference_mode():
        tt.exp(x)
    assert seen == ["above linear", "below aten::t", "below aten::mm", "above exp", "below aten::exp"]


def test_dispatch_handlers_that_call_public_functions_are_seen_by_the_modes_around_them():
    seen = []

    class Below(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            return tt.sin(*args) if func.name() == "aten::exp" else func(*args, **(kwargs or {}))

    x = tt.ones(1)
    outer = Log(seen)
    with outer, Below(), Log(seen, "inner "):
        np.testing.assert_allclose(tt.exp(x).numpy(), np.sin([1.0]), rtol=1e-6)
    assert seen[:2] == ["inner exp", "exp"]


def test_a_base_mode_changes_nothing(device):
    x = tt.ones(2, 3, device=device, requires_grad=True)
    expected = F.softmax(x * 2, dim=1).sum()
    with BaseTensorFunctionMode():
        found = F.softmax(x * 2, dim=1).sum()
        found.backward()
        assert found.item() == expected.item() and x.grad.shape == x.shape
        assert tt.ones(2, device=device).device.type == device


def test_a_new_mode_costs_what_was_called_in_between():
    with Log():
        pass
    x = tt.ones(1)
    tt.exp(x)
    restored = len(interception._restored)
    assert 0 < restored < 50
    with Log():
        assert interception._restored == []


def test_a_function_is_given_its_code_back_only_while_no_mode_is_active():
    log = Log()
    with log:
        (add,) = [each for each in interception._all if each.function is tt.add]
        add._restore()
        tt.add(1, tt.ones(1))
    assert log.seen == ["ones", "add"]


def test_user_functions_in_backward_and_custom_functions_are_seen_where_pytorch_shows_them():
    seen = []

    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return tt.mul(x, 2)

        @staticmethod
        def backward(ctx, grad):
            return tt.mul(grad, 2)

    x = tt.ones(1, requires_grad=True)
    with Log(seen):
        y = Double.apply(x)
        y.backward()
    assert seen == ["mul", "Tensor.backward"] and x.grad.item() == 2.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: tt.ones(2, 3, 4).T,
        lambda: tt.nn.functional.mse_loss(tt.ones(2), tt.ones(1)),
        lambda: tt.nn.MSELoss()(tt.ones(2), tt.ones(1)),
        lambda: tt.nn.functional.softmax(tt.ones(2)),
        lambda: tt.nn.functional.l1_loss(tt.ones(2), tt.ones(2), reduce=False),
        lambda: tt.nn.functional.dropout2d(tt.ones(2, 2)),
    ],
)
def test_warnings_in_the_first_call_after_a_mode_name_the_line_of_the_caller(call) -> None:
    with Log():
        pass
    with pytest.warns(UserWarning) as caught:
        call()
    assert {each.filename for each in caught} == {__file__}
