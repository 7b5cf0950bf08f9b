"""Plans change no result, only speed."""

import math
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core import operator_entry, overload_packet
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.overload_packet import clear_plans, packets
from triten.dispatch.core.tensor_function import DisableTensorFunctionSubclass
from triten.library import Library
from triten.runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard

Call = Callable[[], Any]


def ramp(*sizes: int, dtype: Any = None) -> tt.Tensor:
    numel = math.prod(sizes)
    return tt.tensor([i - numel / 3 for i in range(numel)]).view(sizes).to(dtype or tt.float32)


def calls_of(x: tt.Tensor, y: tt.Tensor) -> dict[str, Call]:
    """Return a call of every operator for two-dimensional x, y of one shape."""
    return {
        "add": lambda: x + y,
        "add number": lambda: x + 2,
        "add float": lambda: x + 2.5,
        "radd": lambda: 3 + x,
        "add alpha": lambda: tt.add(x, y, alpha=3),
        "add broadcast": lambda: x + y[0],
        "add_": lambda: x.clone().add_(y),
        "add_ alpha": lambda: x.clone().add_(y, alpha=2),
        "add out": lambda: tt.add(x, y, out=tt.empty_like(x + y)),
        "relu": lambda: x.relu(),
        "relu_": lambda: x.clone().relu_(),
        "sum": lambda: x.sum(),
        "sum dim": lambda: x.sum(1),
        "sum dims": lambda: x.sum((0, 1), keepdim=True),
        "sum keepdim": lambda: x.sum(0, keepdim=True),
        "sum dtype": lambda: x.sum(dtype=tt.float64),
        "mm": lambda: x.mm(y.t()),
        "view": lambda: x.contiguous().view(-1),
        "reshape": lambda: x.t().reshape(-1),
        "permute": lambda: x.permute(1, 0),
        "transpose": lambda: x.transpose(0, 1),
        "t": lambda: x.t(),
        "select": lambda: x.select(1, 0),
        "slice": lambda: x.slice(0, 1),
        "index": lambda: x[0],
        "index slice": lambda: x[:, 1:],
        "squeeze": lambda: x.unsqueeze(1).squeeze(),
        "squeeze dim": lambda: x.unsqueeze(0).squeeze(0),
        "expand": lambda: x.unsqueeze(0).expand(2, -1, -1),
        "as_strided": lambda: x.as_strided((2,), (1,), 1),
        "alias": lambda: x.alias(),
        "detach": lambda: x.detach(),
        "clone": lambda: x.clone(),
        "contiguous": lambda: x.t().contiguous(),
        "to": lambda: x.to(tt.float64),
        "copy_": lambda: tt.zeros_like(x).copy_(y),
        "copy_ broadcast": lambda: tt.zeros_like(x).copy_(y[0]),
        "fill_": lambda: x.clone().fill_(2),
        "zero_": lambda: x.clone().zero_(),
        "zeros": lambda: tt.zeros(2, 3),
        "ones": lambda: tt.ones((2, 3), dtype=tt.int16),
        "full": lambda: tt.full((2,), 7),
        "zeros_like": lambda: tt.zeros_like(x),
        "ones_like": lambda: tt.ones_like(x, dtype=tt.float64),
        "tensor": lambda: tt.tensor([[1, 2], [3, 4]]),
    }


def conv_calls(x: tt.Tensor, w: tt.Tensor) -> dict[str, Call]:
    return {
        "conv2d": lambda: tt.conv2d(x, w),
        "conv2d padding": lambda: tt.conv2d(x, w, padding=1),
        "conv2d stride": lambda: tt.conv2d(x, w, stride=2, padding=1),
    }


def described(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [described(v) for v in value]
    return (value.shape, value.stride(), value.dtype, value.device, value.requires_grad, value.tolist())


def all_calls() -> dict[str, Call]:
    found: dict[str, Call] = {}
    variants = {
        "f32": (ramp(3, 4), ramp(3, 4) + 1),
        "t": (ramp(4, 3).t(), ramp(4, 3).t() + 1),
        "f64": (ramp(3, 4, dtype=tt.float64), ramp(3, 4, dtype=tt.float64)),
        "bf16": (ramp(3, 4, dtype=tt.bfloat16), ramp(3, 4, dtype=tt.bfloat16)),
        "i64": (ramp(3, 4, dtype=tt.int64), ramp(3, 4, dtype=tt.int64)),
        "grad": (ramp(3, 4).requires_grad_(), ramp(3, 4)),
        "mixed": (ramp(3, 4, dtype=tt.float64), ramp(3, 4)),
    }
    for variant, (x, y) in variants.items():
        for name, call in calls_of(x, y).items():
            if variant == "grad" and name == "add out":
                continue
            if variant == "mixed" and name == "mm":
                continue
            found[f"{variant} {name}"] = call
    found |= conv_calls(ramp(1, 2, 5, 5), ramp(3, 2, 3, 3))
    return found


def test_the_same_call_gives_the_same_with_and_without_plans_in_any_order() -> None:
    calls = all_calls()
    clear_plans()
    expected = {}
    for name, call in calls.items():
        clear_plans()
        expected[name] = described(call())
    rng = random.Random(0)
    for _ in range(3):
        order = [name for name in calls for _ in range(2)]
        rng.shuffle(order)
        clear_plans()
        for name in order:
            if rng.random() < 0.02:
                clear_plans()
            assert described(calls[name]()) == expected[name], name


def test_the_slow_path_gives_the_same() -> None:
    """Resolve every call anew under a guard, with the same results."""
    calls = all_calls()
    expected = {name: described(call()) for name, call in calls.items()}
    with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
        for name, call in calls.items():
            for _ in range(2):
                assert described(call()) == expected[name], name


def test_every_result_is_fresh() -> None:
    """Return a new tensor from every call of a plan."""
    x = ramp(2, 3)
    for call in (
        lambda: x + x,
        x.relu,
        x.clone,
        lambda: tt.zeros(2),
        lambda: tt.full((2,), 1.0),
        lambda: x.sum(),
    ):
        first, second = call(), call()
        before = second.tolist()
        first.add_(100.0)
        assert second.tolist() == before
        assert call().tolist() == before


# --- keys


def test_numbers_are_keyed_by_class_and_passed_by_value() -> None:
    x = tt.tensor([1, 2])
    for _ in range(2):
        assert (x + 1).tolist() == [2, 3]
        assert (x + 1).dtype is tt.int64
        assert (x + 1.0).dtype is tt.float32
        assert (x + True).dtype is tt.int64
        assert (x + 2).tolist() == [3, 4]
        assert (x + 1j).dtype is tt.complex64


@pytest.mark.parametrize("order", [(True, 1, 1.0), (1.0, True, 1), (1, 1.0, True)])
def test_true_and_one_and_one_point_zero_are_three_values(order: tuple[Any, ...]) -> None:
    clear_plans()
    flags = tt.tensor([True, False])
    for value in order * 2:
        expected = {bool: tt.bool, int: tt.int64, float: tt.float32}[value.__class__]
        assert tt.full((2,), value).dtype is expected
        assert (flags + value).dtype is expected
        assert tt.tensor(value).dtype is expected


@pytest.mark.parametrize("order", [(1, 1.0, True), (1.0, 1, True), (True, 1.0, 1)])
def test_alpha_at_its_default_value_but_of_another_class(order: tuple[Any, ...]) -> None:
    clear_plans()
    ints = tt.tensor([1, 2])
    for alpha in order * 2:
        if alpha.__class__ is int:
            assert tt.add(ints, ints, alpha=alpha).tolist() == [2, 4]
        else:
            with pytest.raises(RuntimeError, match="alpha"):
                tt.add(ints, ints, alpha=alpha)


def test_negative_zero_is_no_zero() -> None:
    x = tt.tensor([-0.0])
    for _ in range(2):
        assert math.copysign(1, (x + 0.0).item()) == 1
        assert math.copysign(1, (x + -0.0).item()) == -1
        assert math.copysign(1, tt.full((1,), -0.0).item()) == -1
        assert math.copysign(1, tt.full((1,), 0.0).item()) == 1
        assert math.copysign(1, tt.zeros(1).fill_(-0.0).item()) == -1


def test_nan_finds_its_plan() -> None:
    x = tt.ones(2)
    for _ in range(2):
        assert all(math.isnan(v) for v in (x + math.nan).tolist())
    add = packets["add"]
    count = add.count
    for _ in range(50):
        x + math.nan
        x + float("nan")
        tt.full((2,), float("nan"))
    assert add.count == count


def test_large_integers() -> None:
    x = tt.tensor([0], dtype=tt.int64)
    for value in (2**62, -(2**63), 2**63 - 1, 1):
        assert (x + value).item() == value


def test_sizes_given_in_every_way() -> None:
    x = ramp(2, 3)
    for _ in range(2):
        assert (
            x.view(3, 2).shape
            == x.view((3, 2)).shape
            == x.view([3, 2]).shape
            == x.view(tt.Size([3, 2])).shape
        )
        assert tt.zeros(3, 2).shape == tt.zeros([3, 2]).shape == tt.zeros((3, 2)).shape == (3, 2)
        assert x.sum([0]).shape == x.sum((0,)).shape == x.sum(0).shape == (3,)


def test_a_list_of_sizes_changed_after_the_call() -> None:
    sizes = [2, 3]
    assert tt.zeros(sizes).shape == (2, 3)
    sizes[0] = 5
    assert tt.zeros(sizes).shape == (5, 3)


def test_keyword_and_positional_forms_agree() -> None:
    x = ramp(2, 3)
    for _ in range(2):
        assert (
            x.sum(dim=1).tolist()
            == x.sum(1).tolist()
            == tt.sum(x, 1).tolist()
            == tt.sum(input=x, dim=1).tolist()
        )
        assert tt.add(x, other=x).tolist() == (x + x).tolist()
        assert x.transpose(dim0=0, dim1=1).stride() == x.transpose(0, 1).stride()


def test_an_error_is_raised_every_time() -> None:
    for _ in range(3):
        with pytest.raises(RuntimeError, match="must match"):
            tt.ones(2) + tt.ones(3)
        with pytest.raises(TypeError):
            tt.ones(2) + "x"
        with pytest.raises(TypeError):
            tt.relu("x")
        with pytest.raises(RuntimeError):
            tt.ones(2, 3).mm(tt.ones(2, 3))
    assert (tt.ones(2) + tt.ones(2)).tolist() == [2.0, 2.0]


def test_foreign_operands_are_asked() -> None:
    class Foreign:
        def __radd__(self, other: object) -> str:
            return "foreign"

    for _ in range(2):
        assert tt.ones(2) + Foreign() == "foreign"
    with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
        assert tt.ones(2) + Foreign() == "foreign"


def test_numbers_in_place_of_tensors_find_their_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def quantize(scale: float, zero_point: int) -> list[int]:
        return tt._quantize_affine(tt.tensor([1.0, 3.0]), scale, zero_point, tt.quint8).tolist()

    assert quantize(0.5, 1) == [3, 7]
    with monkeypatch.context() as patch:
        patch.setattr(overload_packet.OverloadPacket, "_store", lambda *args: pytest.fail("planned again"))
        assert [quantize(0.5, 1), quantize(0.25, 0)] == [[3, 7], [4, 12]]


# --- bounds


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload_packet, "MAX_PLANS", 50)
    monkeypatch.setattr(operator_entry, "MAX_PLANS", 50)
    clear_plans()
    add, relu = packets["add"], Dispatcher.singleton().find_schema_or_throw("aten::relu")
    for n in range(1, 200):
        x = tt.ones(n)
        assert (x + 1).shape == (n,)
        relu.call(x)
        assert add.count <= 50
        held = sum(len(v) if isinstance(v, dict) else 1 for t in (add.plans, add.scaled) for v in t.values())
        assert held + len(add._made) == add.count <= 50
        assert len(relu._plans) <= 50


def test_the_table_of_a_packets_own_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload_packet, "MAX_PLANS", 50)
    clear_plans()
    add, arange = packets["add"], packets["arange"]
    for n in range(1, 120):
        x = tt.ones(n)
        with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
            assert (x + 1).shape == (n,)
        assert tt.arange(0, n, 1).tolist() == list(range(n))
        assert 0 < len(add._made) == add.count <= 50
        assert 0 < len(arange._made) == arange.count <= 50


class Marked(tt.Tensor):
    """Subclass whose calls are handled."""


def test_each_use_of_a_packets_table_has_its_own_keys() -> None:
    clear_plans()
    x, add = tt.ones(3), packets["add"]
    for _ in range(2):
        x + 1
        with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
            x + 1
        with DisableTensorFunctionSubclass():
            tt.add(x.as_subclass(Marked), 1)
    found = [key[0] for key in add._made]
    assert sorted(map(str, found)) == ["below", "guarded", "kind"]
    clear_plans()
    assert not add._made and add.count == 0


# --- registrations


@pytest.fixture
def override() -> Iterator[Library]:
    with Library("aten", "IMPL", "CPU") as made:
        yield made


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_registration_clears_the_tables(override: Library) -> None:
    x = tt.ones(2)
    x.relu()
    x + x
    assert packets["relu"].plans
    assert packets["add"].plans
    override.impl("relu", lambda x: x)
    assert not packets["relu"].plans
    assert not packets["add"].plans


def test_a_registration_below_autograd_reaches_recorded_calls(override: Library) -> None:
    w = tt.tensor([-1.0]).requires_grad_()
    assert w.relu().item() == 0.0
    override.impl("relu", lambda x: x + 7)
    out = w.relu()
    assert out.item() == 6.0
    assert out.grad_fn.name() == "ReluBackward0"


def test_a_plan_made_during_a_registration_is_not_kept() -> None:
    """Let a registration during planning win over the plan."""
    with Library("t_race", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        inner: list[Library] = []

        def planner(op: Any, keys: int, args: Any) -> Any:
            if not inner:
                inner.append(Library("aten", "IMPL", "CPU"))
                inner[0].impl("relu", lambda x: x + 9)
            return lambda x: x

        from triten.dispatch.core.kernel_function import KernelFunction

        with Library("aten", "IMPL", "CPU") as racing:
            racing.impl("relu", KernelFunction(None, planner=planner))
            x = tt.zeros(1)
            assert x.relu() is x
            assert x.relu().item() == 9.0
            inner[0].close()


def test_a_registration_while_other_threads_call() -> None:
    stop = threading.Event()
    problems: list[object] = []
    x = tt.tensor([-1.0, 2.0])
    w = tt.tensor([-1.0, 2.0]).requires_grad_()
    allowed = ([0.0, 2.0], [99.0, 102.0])

    def work() -> None:
        rng = random.Random(threading.get_ident())
        try:
            while not stop.is_set():
                n = rng.randrange(1, 50)
                if (tt.ones(n) + 1).sum().item() != 2.0 * n:
                    problems.append("add")
                results = (x.relu().tolist(), tt.ops.aten.relu(x).tolist(), w.relu().tolist())
                problems.extend(found for found in results if found not in allowed)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for round_ in range(30):
        with Library("aten", "IMPL", "CPU") as override, Library(f"t_threads{round_}", "DEF") as fresh:
            override.impl("relu", lambda x: x + 100.0)
            fresh.define("f(Tensor x) -> Tensor", lambda x: x + 1)
            assert x.relu().tolist() == [99.0, 102.0]
            assert w.relu().tolist() == [99.0, 102.0]
            assert getattr(tt.ops, f"t_threads{round_}").f(x).tolist() == [0.0, 3.0]
        assert x.relu().tolist() == [0.0, 2.0]
        assert w.relu().tolist() == [0.0, 2.0]
    stop.set()
    for t in threads:
        t.join()
    assert not problems


# --- guards


def test_excluding_autograd_reaches_the_slow_path() -> None:
    w = tt.ones(2).requires_grad_()
    assert (w + 1).requires_grad
    with ExcludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.AutogradCPU)):
        assert not (w + 1).requires_grad
        assert not w.relu().requires_grad
        assert not w.view(1, 2).requires_grad
    assert (w + 1).requires_grad


def test_including_a_key_reaches_its_kernel() -> None:
    seen: list[str] = []
    dispatcher = Dispatcher.singleton()
    with Library("aten", "IMPL", "Tracer") as tracing:

        def traced(keys: tt.DispatchKeySet, x: Any) -> Any:
            seen.append("relu")
            op = dispatcher.find_schema_or_throw("aten::relu")
            return dispatcher.redispatch(op, keys - tt.DispatchKey.Tracer, x)

        tracing.impl("relu", traced, with_keyset=True)
        x = tt.tensor([-1.0])
        assert x.relu().item() == 0.0
        assert not seen
        with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
            assert x.relu().item() == 0.0
            assert tt.relu(x).item() == 0.0
            assert (x + 1).item() == 0.0
        assert seen == ["relu", "relu"]
        x.relu()
        assert seen == ["relu", "relu"]


def test_a_guard_of_another_thread_changes_nothing() -> None:
    calls = all_calls()
    expected = {name: described(call()) for name, call in calls.items()}
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        autograd = tt.DispatchKeySet([tt.DispatchKey.AutogradCPU])
        with ExcludeDispatchKeyGuard(autograd), tt.inference_mode():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    try:
        for name, call in calls.items():
            assert described(call()) == expected[name], name
        w = tt.ones(2).requires_grad_()
        (w + 1).sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]
        assert not (w + 1).is_inference()
    finally:
        leave.set()
        thread.join()


# --- inference mode


def test_every_new_result_in_inference_mode_is_an_inference_tensor() -> None:
    x, y = ramp(3, 4), ramp(3, 4)
    with tt.inference_mode():
        assert tt.is_inference_mode_enabled()
        for name, call in (calls_of(x, y) | conv_calls(ramp(1, 2, 5, 5), ramp(3, 2, 3, 3))).items():
            out = call()
            shares = out.untyped_storage() is x.untyped_storage()
            assert out.is_inference() is not shares, name
        assert tt.from_numpy(np.ones(2)).is_inference()
    assert not tt.is_inference_mode_enabled()


def test_inference_tensors_compute_the_same_and_give_normal_results_outside() -> None:
    x, y = ramp(3, 4), ramp(3, 4)
    with tt.inference_mode():
        u, v = x.clone(), y.clone()
    assert u.is_inference()
    expected = calls_of(x, y)
    for name, call in calls_of(u, v).items():
        if name in ("contiguous", "alias", "detach", "view") or name.startswith(("index", "slice", "select")):
            continue
        out = call()
        assert described(out) == described(expected[name]()), name
        shares = out.untyped_storage() is u.untyped_storage()
        assert out.is_inference() is shares, name


def test_views_and_writes_of_normal_tensors_stay_normal() -> None:
    x = ramp(3, 4)
    with tt.inference_mode():
        for view in (x[0], x.view(-1), x.t(), x.detach(), x.unsqueeze(0)):
            assert not view.is_inference()
            assert view._version_cell is x._version_cell
        assert not x.add_(1).is_inference()
        assert not tt.add(x, x, out=x).is_inference()
    assert x.current_version() == 2


def test_views_of_inference_tensors_are_inference_tensors() -> None:
    with tt.inference_mode():
        x = tt.ones(2, 3)
    assert x[0].is_inference()
    assert x.t().is_inference()
    assert x.view(-1).is_inference()
    assert x.reshape(3, 2).is_inference()


WRITES: list[Callable[[Any], Any]] = [
    lambda x: x.add_(1),
    lambda x: x.relu_(),
    lambda x: x.zero_(),
    lambda x: x.fill_(2),
    lambda x: x.copy_(tt.zeros(2)),
    lambda x: x[0].zero_(),
    lambda x: tt.add(tt.ones(2), 1, out=x),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("grad", [True, False])
def test_writing_to_an_inference_tensor_outside_is_refused(write: Callable[[Any], Any], grad: bool) -> None:
    with tt.inference_mode():
        x = tt.ones(2)
        write(x)
        before = x.tolist()
    for _ in range(2):
        with (
            tt.set_grad_enabled(grad),
            pytest.raises(
                RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"
            ),
        ):
            write(x)
    assert x.tolist() == before
    clone = x.clone()
    write(clone)
    with tt.inference_mode():
        write(x)


def test_an_inference_tensor_is_not_saved_for_backward() -> None:
    with tt.inference_mode():
        x = tt.ones(2, 2)
    w = tt.ones(2, 2).requires_grad_()
    message = "Inference tensors cannot be saved for backward. To work around you can make a clone"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            w.mm(x)
    (w + x).sum().backward()
    assert w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    w.mm(x.clone()).sum().backward()
    with tt.no_grad():
        assert w.mm(x).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_autograd_is_off_in_inference_mode_even_under_enable_grad() -> None:
    w = tt.ones(2).requires_grad_()
    with tt.inference_mode(), tt.enable_grad():
        out = w + 1
        assert (out.requires_grad, out.is_inference()) == (False, True)
    with tt.inference_mode(), tt.inference_mode(False):
        out = w + 1
        assert (out.requires_grad, out.is_inference()) == (True, False)


def test_requires_grad_of_an_inference_tensor() -> None:
    with tt.inference_mode():
        x = tt.ones(2)
        assert tt.ones(2).requires_grad_().requires_grad
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
