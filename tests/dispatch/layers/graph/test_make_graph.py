"""`make_graph` records what a function computes, as operators below autograd, and the graph computes the same."""

import threading

import numpy as np
import pytest

import triten as tt
from triten.dispatch.layers.graph.make_graph import TracedTensor
from triten.func import functionalize, make_graph
from triten.tests.shared.thread_state import modes_and_keys

MODES = ("real", "fake")


def called(traced):
    return [
        str(n.target._schema.operator_name).removeprefix("aten::")
        for n in traced.graph.nodes
        if hasattr(n.target, "_schema")
    ]


@pytest.fixture(autouse=True)
def nothing_stays():
    before = modes_and_keys()
    yield
    assert modes_and_keys() == before


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def rand(*shape, device="cpu", grad=False):
    values = np.random.default_rng(sum(shape)).random(shape, np.float32)
    made = tt.from_numpy(values).to(device)
    return made.requires_grad_() if grad else made


def linear(x, w):
    return {"y": tt.nn.functional.linear(x, w).relu()}


def gradient(x, w):
    y = tt.nn.functional.linear(x, w).relu()
    return tt.autograd.grad(y.pow(2).sum(), w)


def backward(x, w):
    w = w.detach().requires_grad_()
    (x @ w.t()).exp().sum().backward()
    return w.grad


def double_backward(x, w):
    (g,) = tt.autograd.grad((x @ w.t()).sin().sum(), w, create_graph=True)
    return tt.autograd.grad(g.pow(2).sum(), w)


def several(x, w):
    values, places = x.max(1)
    return [values, (places, x.unbind(0)), x.topk(2) if hasattr(x, "topk") else w.split(1)]


def in_place(x, w):
    y = x.clone()
    y[0].mul_(2)
    y.t()[1].zero_()
    x.add_(y)
    return y, x


def out(x, w):
    made = tt.empty(0, dtype=x.dtype, device=x.device)
    tt.add(x, x, out=made)
    values, places = made.new_empty(3), made.new_empty(3, dtype=tt.int64)
    tt.max(made, 0, out=(values, places))
    return made, values, places


def factories(x, w):
    a = tt.zeros(3, device=x.device) + tt.arange(3, device=x.device)
    return (
        a,
        tt.tensor([1.0, 2.0, 3.0], device=x.device) * a,
        tt.full((2,), 7, device=x.device),
        x.new_ones(2),
    )


def random(x, w):
    y = x.clone().uniform_()
    return tt.rand(3, device=x.device), tt.nn.functional.dropout(x, 0.5), y.bernoulli_(0.5)


def shapes(x, w):
    rows = x[:, 1:].reshape(-1)
    return rows.view(2, -1).permute(1, 0).unsqueeze(0).expand(3, -1, -1), x[
        tt.tensor([0, 1, 0], device=x.device)
    ]


def resized(x, w):
    alias, own = x.detach(), x.clone()
    return alias, x.resize_(2), own.detach(), own.resize_(3, 1)


@pytest.mark.parametrize(
    "f",
    [linear, gradient, backward, double_backward, several, in_place, out, factories, random, shapes, resized],
    ids=lambda f: f.__name__,
)
def test_the_graph_computes_what_the_function_does(f, mode, device):
    x, w = rand(4, 3, device=device), rand(2, 3, device=device, grad=True)
    x_before = x.tolist()
    traced = make_graph(f, mode, check=True)(x, w)
    traced.graph.lint()
    if mode == "fake":
        assert x.tolist() == x_before and x.current_version() == 0 and w.grad is None
    assert not any(type(t) is not tt.Tensor for t in (x, w))
    # On other values than those of the recording.
    a, b = rand(4, 3, device=device) * 2 - 1, rand(4, 3, device=device) * 2 - 1
    tt.manual_seed(1)
    expected = f(a, w)
    tt.manual_seed(1)
    got = traced(b, w)
    compare(got, expected)
    assert a.tolist() == b.tolist()


def compare(got, expected):
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        got, expected = list(got.values()), list(expected.values())
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            compare(g, e)
        return
    assert (got.shape, got.stride(), got.dtype, got.device) == (
        expected.shape,
        expected.stride(),
        expected.dtype,
        expected.device,
    )
    assert got.tolist() == expected.tolist() and type(got) is tt.Tensor


def test_fake_and_real_recordings_are_the_same_program(device):
    x, w = rand(4, 3, device=device), rand(2, 3, device=device, grad=True)
    for f in (linear, gradient, several, out, factories, shapes):
        real, fake = (make_graph(f, m)(x, w) for m in MODES)
        assert str(real.graph) == str(fake.graph)


def test_a_fake_recording_needs_no_values_and_no_memory():
    x = tt.empty(1 << 40, 1 << 10, device="meta")
    traced = make_graph(lambda x: (x + 1).sum(0), "fake")(x)
    assert called(traced) == ["add.Tensor", "sum.dim_IntList"]
    seen = []

    def f(x, y):
        seen.extend([x.device.type, (x @ y).device.type, x.to("cpu").device.type, x.shape, x.stride()])
        return x.cpu() + 1

    make_graph(f, "fake")(tt.ones(2, 3, device="cuda"), tt.ones(3, 2, device="cuda"))
    assert seen == ["cuda", "cuda", "cpu", (2, 3), (3, 1)]


def test_fake_tensors_on_two_devices_are_refused_as_real_ones_are():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        make_graph(lambda x, y: x + y, "fake")(tt.ones(2, device="cuda"), tt.ones(2))
    make_graph(lambda x, y: x + y, "fake")(tt.ones(2, device="cuda"), tt.tensor(1.0))


def test_autograd_is_seen_from_below_and_composites_as_their_parts():
    traced = make_graph(gradient)(rand(4, 3), rand(2, 3, grad=True))
    assert called(traced)[:5] == ["t", "mm", "relu", "pow.Tensor_Scalar", "sum"]
    assert "ones_like" in called(traced) and "threshold_backward" in called(traced)
    assert not traced.graph.constants


def test_inputs_are_named_by_parameter_and_place_and_numbers_are_fixed():
    def f(x, pair, *rest, scale=1.0, **more):
        return (x + pair[0]["a"] + rest[0] + more["z"]) * scale

    one = tt.ones(2)
    traced = make_graph(f)(one, ({"a": one.clone()}, 3), one.clone(), scale=2.0, z=one.clone())
    inputs = [n.name for n in traced.graph.nodes if n.op == "placeholder"]
    assert inputs == ["x", "pair_0", "rest_0", "z"]
    again = traced(one, ({"a": one}, 3), one, scale=2.0, z=one)
    assert again.tolist() == [8.0, 8.0]
    with pytest.raises(
        ValueError, match=r"input 'scale' was 2.0 when recorded, which is fixed in the graph; got 3.0"
    ):
        traced(one, ({"a": one}, 3), one, scale=3.0, z=one)
    with pytest.raises(ValueError, match=r"input 'pair_1' was 3 when recorded.*got True"):
        traced(one, ({"a": one}, True), one, scale=2.0, z=one)
    with pytest.raises(TypeError, match="recorded on arguments of the structure"):
        traced(one, one)
    with pytest.raises(TypeError, match="input 'x' must be a Tensor, got int"):
        traced(1, ({"a": one}, 3), one, scale=2.0, z=one)
    with pytest.raises(TypeError, match=r"input 'scale' was 2.0 when recorded, got a tensor"):
        traced(one, ({"a": one}, 3), one, scale=one, z=one)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: tt.ones(3, 2), r"input 'x': this graph was recorded for shape \[2, 3\], got \[3, 2\]"),
        (lambda: tt.ones(3, 2).t(), r"recorded for strides \[3, 1\], got \[1, 2\]"),
        (lambda: tt.ones(2, 3, dtype=tt.float64), "recorded for dtype triten.float32, got triten.float64"),
        (lambda: tt.ones(2, 3, device="meta"), "recorded for device cpu, got meta"),
    ],
)
def test_inputs_of_other_metadata_are_refused(other, message):
    traced = make_graph(lambda x: x.exp())(tt.ones(2, 3))
    with pytest.raises(RuntimeError, match=message):
        traced(other())


def test_closed_over_tensors_are_constants_and_the_same_objects(mode):
    w = tt.ones(2)
    traced = make_graph(lambda x: x * w + w, mode)(tt.ones(2))
    assert list(traced.graph.constants) == ["_tensor_constant0"]
    assert traced.graph.constants["_tensor_constant0"] is w
    w.fill_(5)
    assert traced(tt.ones(2)).tolist() == [10.0, 10.0]


def test_a_write_to_a_constant_is_one_at_each_run_and_data_of_the_program_is_new_each_time(mode):
    count = tt.zeros(1)

    def f(x):
        count.add_(1)
        total = tt.tensor([0.0, 0.0])
        total += x
        return total

    traced = make_graph(f, mode)(tt.ones(2))
    assert count.item() == (1 if mode == "real" else 0)
    count.zero_()
    assert [traced(tt.ones(2)).tolist() for _ in range(3)] == [[1.0, 1.0]] * 3
    assert count.item() == 3


READS = [
    lambda x: x.sum().item(),
    lambda x: bool(x.sum() > 0),
    lambda x: float(x.sum()),
    lambda x: x.tolist(),
    lambda x: x.numpy(),
    lambda x: np.asarray(x + 1),
    lambda x: [1, 2, 3][x.sum().to(tt.int64)],
    lambda x: f"{x.sum():.2f}",
    lambda x: tt.rand(1).item(),
    lambda x: tt.zeros(2).add_(x)[0].item(),
    lambda x: x.narrow(0, (x[0] * 0).to(tt.int64), 1),
    lambda x: x.detach().clone().requires_grad_().exp().detach()[0].item(),
    lambda x: 3.0 in x,
]


@pytest.mark.parametrize("read", READS, ids=range(len(READS)))
def test_reading_a_value_that_depends_on_the_inputs_is_refused(read, mode):
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_graph(read, mode)(tt.ones(2))
    assert not isinstance(read(tt.ones(2)), BaseException)


def test_reading_may_be_allowed_and_values_known_beforehand_may_be_read():
    three = tt.tensor(3.0)

    def f(x):
        t = tt.zeros(2)
        t.add_(three)
        return x * t[0].item() + tt.tensor(2.0).item()

    assert make_graph(f)(tt.ones(2))(tt.ones(2)).tolist() == [5.0, 5.0]
    traced = make_graph(lambda x: x * x[0].item(), _error_on_data_dependent_ops=False)(tt.tensor([2.0, 3.0]))
    assert traced(tt.tensor([10.0, 10.0])).tolist() == [20.0, 20.0]
    with pytest.raises(RuntimeError, match="trying to get value"):
        make_graph(f, "fake")(tt.ones(2))


def test_tensors_can_be_printed_while_they_are_recorded(mode):
    shown = []
    make_graph(lambda x: shown.append(repr(x + 1)), mode)(tt.ones(2))
    kind = "TracedTensor" if mode == "real" else "FakeTensor"
    assert shown == [f"{kind}(float32[2], device='cpu')"]


def test_what_leaves_the_function_is_plain_again():
    kept = []

    def f(x):
        y = x.requires_grad_().exp()
        kept.extend([x, y, y.detach()])
        return y.sum()

    x = tt.ones(2)
    make_graph(f)(x)
    assert [type(t) for t in kept] == [tt.Tensor] * 3 and not isinstance(x, TracedTensor)
    assert kept[2].tolist() == pytest.approx([np.e, np.e])
    kept[1].sum().backward()
    assert kept[0].grad.tolist() == pytest.approx([np.e, np.e])


def test_what_happens_to_inputs_is_what_the_function_does():
    def f(x, w):
        x.mul_(w)
        x[0].exp_()
        (w * 2).sum().backward()
        return x

    results = []
    for run in (f, make_graph(f)):
        x, w = rand(2, 3), rand(3, grad=True)
        run(x, w)
        grads = tt.autograd.grad(x.sum(), w)
        results.append((x.tolist(), x.requires_grad, x.current_version(), w.grad.tolist(), grads[0].tolist()))
    assert results[0] == results[1]


def test_the_same_tensor_twice_is_two_inputs():
    def f(a, b):
        return a.exp() - b

    x = tt.ones(2)
    traced = make_graph(f)(x, x)
    assert traced(tt.zeros(2), tt.ones(2)).tolist() == [0.0, 0.0]
    assert traced(tt.zeros(2), tt.zeros(2)).tolist() == [1.0, 1.0]


def test_a_closed_over_view_of_an_input_is_refused():
    x = tt.ones(2, 3)
    row = x[0]
    with pytest.raises(RuntimeError, match=r"closes over a tensor .* that shares memory with its input"):
        make_graph(lambda x: x + row)(x)
    whole = tt.from_numpy(np.ones((2, 3), np.float32))
    apart = whole[1]
    make_graph(lambda x: x + apart)(whole[0])


def test_recordings_nest_and_both_see_the_operators():
    inner = []

    def f(x):
        inner.append(make_graph(lambda y: y.exp().add_(1))(x))
        return inner[0](x) * 2

    outer = make_graph(f)(tt.zeros(2))
    assert called(inner[0]) == ["exp", "add_.Tensor"]
    assert called(outer) == ["exp", "add_.Tensor", "exp", "add_.Tensor", "mul.Tensor"]
    assert outer(tt.zeros(2)).tolist() == [4.0, 4.0] and inner[0](tt.zeros(2)).tolist() == [2.0, 2.0]


def test_an_outer_mode_sees_what_is_recorded_and_a_fake_recording_is_hidden_from_it():
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    x = tt.zeros(2)
    with Log():
        assert called(make_graph(lambda x: x.exp())(x)) == ["exp"]
    assert seen == ["aten::exp"]
    with Log():
        assert called(make_graph(lambda x: x.exp(), "fake")(x)) == ["exp"]
    assert seen == ["aten::exp"]


def test_an_inner_mode_that_replaces_calls_is_recorded_as_what_it_calls():
    class AsSin(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0].sin() if func.name() == "aten::exp" else func(*args, **(kwargs or {}))

    def f(x):
        with AsSin():
            return x.exp()

    assert called(make_graph(f)(tt.zeros(2))) == ["sin"]


@pytest.mark.parametrize("tracing_mode", MODES)
def test_an_error_leaves_nothing_behind(tracing_mode):
    before = modes_and_keys()
    x = tt.ones(2, requires_grad=True)
    kept = []

    def f(x):
        kept.append(x * 2)
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        make_graph(f, tracing_mode)(x)
    assert modes_and_keys() == before and type(x) is tt.Tensor and x.grad is None
    if tracing_mode == "real":
        assert type(kept[0]) is tt.Tensor and kept[0].tolist() == [2.0, 2.0]
    assert (x + 1).tolist() == [2.0, 2.0]


def test_a_fake_tensor_that_escaped_is_refused():
    kept = []
    make_graph(lambda x: kept.append(x + 1), "fake")(tt.ones(2))
    with pytest.raises(RuntimeError, match=r"aten::add.Tensor got a fake tensor, which stood for an input"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="tensors hold no elements"):
        kept[0].tolist()
    with pytest.raises(RuntimeError, match="a fake tensor of another recording reached this one"):
        make_graph(lambda x: x + kept[0], "fake")(tt.ones(2))


def test_a_recording_is_of_its_thread_alone():
    def f(x):
        thread = threading.Thread(target=lambda: tt.ones(2).exp())
        thread.start()
        thread.join()
        return x.sin()

    assert called(make_graph(f)(tt.ones(2))) == ["sin"]
    results = []

    def record(n):
        traced = make_graph(lambda x: x.exp() * n)(tt.zeros(n))
        results.append((n, called(traced), traced(tt.zeros(n)).tolist()))

    threads = [threading.Thread(target=record, args=(n,)) for n in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, ["exp", "mul.Tensor"], [float(n)] * n) for n in range(1, 6)]


def test_check_finds_a_program_that_the_graph_does_not_hold():
    calls = []

    def f(x):
        calls.append(None)
        return x * len(calls)

    with pytest.raises(RuntimeError, match=r"make_graph\(check=True\): the values of output 0 differ"):
        make_graph(f, check=True)(tt.ones(2))
    with pytest.raises(RuntimeError, match="the values of input 0 differ"):
        make_graph(lambda x: x._data.__iadd__(1) is None or 0, check=True)(tt.ones(2))
    with pytest.raises(RuntimeError, match="output has the structure"):
        make_graph(lambda x: [x] * calls.__len__() if calls.append(None) is None else x, check=True)(
            tt.ones(2)
        )


def test_check_leaves_arguments_generators_and_constants_as_one_call_does():
    count = tt.zeros(1)

    def f(x):
        count.add_(1)
        return x.add_(1) + tt.rand(2) + count

    tt.manual_seed(0)
    x = tt.zeros(2)
    make_graph(f, check=True)(x)
    after = tt.rand(2).tolist()
    assert x.tolist() == [1.0, 1.0] and count.item() == 1
    tt.manual_seed(0)
    tt.rand(2)
    assert tt.rand(2).tolist() == after


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="tracing_mode must be one of 'real', 'fake', got 'symbolic'"):
        make_graph(abs, "symbolic")
    with pytest.raises(TypeError, match="f must be callable, got int"):
        make_graph(3)
    with pytest.raises(RuntimeError, match=r"use make_graph\(functionalize\(f\)\)"):
        functionalize(make_graph(lambda x: x + 1))(tt.ones(2))


def test_a_kernel_at_the_tracer_key_decides_how_its_operator_is_recorded():
    calls = []

    def sigmoid(x):
        calls.append(x)
        return 1 / (1 + (-x).exp())

    with tt.library.Library("aten", "IMPL") as lib:
        lib.impl("sigmoid", sigmoid, "Tracer")
        assert tt.sigmoid(tt.zeros(1)).tolist() == [0.5] and not calls
        traced = make_graph(lambda x: tt.sigmoid(x))(tt.zeros(1))
        nested = make_graph(lambda x: make_graph(lambda y: tt.sigmoid(y))(x)(x))(tt.zeros(1))
    assert called(traced) == ["neg", "exp", "add.Tensor", "reciprocal", "mul.Tensor"]
    assert len(calls) == 2 and called(nested) == called(traced) * 2
    assert called(make_graph(lambda x: tt.sigmoid(x))(tt.zeros(1))) == ["sigmoid"]


def test_a_kernel_at_the_tracer_key_is_called_once_for_a_recorded_call():
    calls = []
    exp = tt.ops.aten.exp.default

    def traced_exp(key_set, x):
        calls.append(x)
        return exp.redispatch(key_set.remove(tt.DispatchKey.Tracer), x)

    with tt.library.Library("aten", "IMPL") as lib:
        lib.impl("exp", traced_exp, "Tracer", with_keyset=True)
        assert called(make_graph(lambda x: x.exp())(tt.zeros(1))) == ["exp"]
        assert len(calls) == 1


def test_a_leaf_still_gets_its_gradients_afterwards(mode):
    x, w = rand(3, grad=True), rand(3, grad=True)
    make_graph(lambda x: (x * w * 2).sum().backward(), mode)(x)
    if mode == "fake":
        assert x.grad is None and w.grad is None
    else:
        assert w.grad.tolist() == (x * 2).tolist()
    x.grad = None
    make_graph(lambda x: x * 2, mode)(x)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_what_autograd_refuses_is_refused_while_recording(mode):
    def written_after_saving(x):
        y = x.exp()
        y.add_(1)
        return tt.autograd.grad(y.sum(), x)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        make_graph(written_after_saving, mode)(rand(3, grad=True))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        make_graph(lambda x: x.add_(1), mode)(rand(3, grad=True))


def test_defaults_of_dtype_and_device_are_those_of_the_recording():
    traced = make_graph(lambda x: x + tt.ones(2))(tt.ones(2, dtype=tt.float16))
    tt.set_default_dtype(tt.float64)
    try:
        assert traced(tt.ones(2, dtype=tt.float16)).dtype is tt.float32
    finally:
        tt.set_default_dtype(tt.float32)


def test_a_write_that_returns_nothing_makes_a_value_depend_on_the_inputs():
    def put(x, y):
        x.copy_(y)

    with tt.library.Library("graphs", "DEF") as lib:
        lib.define("put(Tensor(a!) x, Tensor y) -> ()")
        lib.impl("put", put, "CompositeExplicitAutograd")

        def f(x):
            y = tt.zeros(2)
            tt.ops.graphs.put(y[:1], x[:1])
            return y[0].item()

        with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
            make_graph(f)(tt.ones(2))


def test_operators_of_ones_own_are_recorded_by_name():
    with tt.library.Library("graphs", "DEF") as lib:
        lib.define("split_sum(Tensor x, int n) -> (Tensor[], Tensor)")
        lib.impl("split_sum", lambda x, n: (list(x.split(n)), x.sum()), "CompositeExplicitAutograd")

        def f(x):
            parts, total = tt.ops.graphs.split_sum(x, 2)
            return parts[1] * total

        traced = make_graph(f, check=True)(tt.ones(4))
        assert str(traced.graph) == (
            "graph(%x : float32[4]):\n"
            "    %split_sum : ((float32[2], float32[2]), float32[]) = graphs.split_sum(%x, 2)\n"
            "    %getitem : (float32[2], float32[2]) = %split_sum[0]\n"
            "    %getitem_1 : float32[2] = %getitem[1]\n"
            "    %getitem_2 : float32[] = %split_sum[1]\n"
            "    %mul : float32[2] = aten.mul.Tensor(%getitem_1, %getitem_2)\n"
            "    return [%mul]"
        )


def test_a_tensor_subclass_is_recorded_by_the_operators_on_it():
    class Doubled(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.as_subclass(tt.Tensor) if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {})) * 2

    x = tt.ones(2).as_subclass(Doubled)
    traced = make_graph(lambda x: x + 1)(x)
    assert called(traced) == ["add.Tensor"] and traced(x).as_subclass(tt.Tensor).tolist() == [4.0, 4.0]
    assert traced(tt.ones(2)).tolist() == [2.0, 2.0]
