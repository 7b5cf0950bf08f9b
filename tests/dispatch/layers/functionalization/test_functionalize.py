"""A functionalized program has the results, effects and gradients of the program, and no operator that writes."""

import threading

import numpy as np
import pytest

import triten as tt
from triten.func import functionalize, make_graph
from triten.runtime.local_dispatch_key_set import local, modes

REMOVE = ("mutations", "mutations_and_views")


@pytest.fixture(params=REMOVE)
def remove(request):
    return request.param


@pytest.fixture(autouse=True)
def nothing_stays():
    before = (list(modes), local.included, local.excluded)
    yield
    assert (list(modes), local.included, local.excluded) == before


def rand(*shape, device="cpu", grad=False):
    values = np.random.default_rng(sum(shape)).random(shape, np.float32) + 0.1
    made = tt.from_numpy(values).to(device)
    return made.requires_grad_() if grad else made


def operators(f, *args):
    graph = make_graph(f)(*args).graph
    graph.lint()
    return [n.target for n in graph.nodes if hasattr(n.target, "_schema")]


def writes(f, *args):
    return [t.name() for t in operators(f, *args) if t._schema.is_mutable]


def views(f, *args):
    return [
        t.name()
        for t in operators(f, *args)
        if not t._schema.is_mutable and any(r.alias_info for r in t._schema.returns)
    ]


def chains_of_views(x, w):
    y = x.clone()
    y[0].add_(w)
    y.t()[1].mul_(2)
    z = y.view(-1)[::2]
    z.zero_()
    y.diagonal().fill_(5)
    return y, z, y[1:].sum()


def aliases_see_each_other(x, w):
    y = x * 1
    rows, columns, flat = y.unbind(0), y.split(1, 1), y.reshape(-1)
    flat[2] = 7
    rows[1].neg_()
    columns[0].add_(flat[:2].view(2, 1))
    return [*rows, *columns, flat]


def writes_to_arguments(x, w):
    x.mul_(2)
    x[:, 1:].add_(w[1:])
    w.sub_(1)
    return x


def loops(x, w):
    total = tt.zeros_like(w)
    for i in range(x.shape[0]):
        total += x[i]
        x[i] = total
    return total


def indexing(x, w):
    y = x.clone()
    y[tt.tensor([0, 1]), tt.tensor([1, 2])] = w[:2]
    y[y > 0.9] = 0
    y[..., None].squeeze(-1)[0, 0] = 3
    return y


def dtypes_and_strides(x, w):
    y = x.t().contiguous().t()
    y.copy_(x.double())
    z = tt.empty(3, 2).t()
    z.copy_(y)
    n = tt.zeros(2, 3, dtype=tt.int64)
    n.copy_(z * 3)
    n.ge_(2)
    columns = tt.zeros_like(x.t())
    columns.masked_fill_((x > 0.5).t().contiguous(), 2)
    turned = x.t() * 2
    return y, z, n, y.as_strided((2, 2), (1, 2)), z.exp(), columns.exp(), turned.as_strided((3,), (1,))


def out_forms(x, w):
    buffer = tt.zeros_like(x)
    tt.add(x, w, out=buffer)
    values, places = tt.empty(0), tt.empty(0, dtype=tt.int64)
    tt.max(buffer, 0, out=(values, places))
    tt.exp(x, out=buffer[:])
    precise = tt.zeros((), dtype=tt.float64)
    tt.sum(tt.cat([x, 1e8 * x, -1e8 * x]), out=precise)
    return buffer, values, places, precise


def batch_norm(x, w):
    mean, var = x.mean(0), x.var(0)
    w.mul_(0.9).add_(mean * 0.1)
    return (x - mean) / (var + 1e-5).sqrt()


def sizes_from_data(x, w):
    y = x.clone().t()
    y[y > 0.9] = 2
    y[y < 0.5] = w[: int((y < 0.5).sum())].clone()[:1]
    return y[y > 0.6], y.nonzero(), tt.masked_select(y, y < 1)


def random(x, w):
    y = tt.empty_like(x).uniform_()
    y[0].normal_()
    return y, tt.nn.functional.dropout(x, 0.5), tt.rand(2).exponential_()


PROGRAMS = [
    chains_of_views,
    aliases_see_each_other,
    writes_to_arguments,
    loops,
    indexing,
    dtypes_and_strides,
    out_forms,
    batch_norm,
    random,
]
READS = [sizes_from_data]


def outcome(f, device="cpu"):
    x, w = rand(2, 3, device=device), rand(3, device=device)
    with tt.random.fork_rng():
        tt.manual_seed(0)
        result = f(x, w)
    found = [*(result if isinstance(result, tuple | list) else (result,)), x, w]
    assert all(type(t) is tt.Tensor for t in found)
    return found


@pytest.mark.parametrize("f", [*PROGRAMS, *READS], ids=lambda f: f.__name__)
def test_results_and_effects_are_the_programs(f, remove):
    expected = outcome(f)
    actual = outcome(functionalize(f, remove=remove))
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype) and a.tolist() == e.tolist()
        if remove == "mutations":
            assert a.stride() == e.stride()
    for a, e in zip(actual[-2:], expected[-2:], strict=True):
        assert a.current_version() == e.current_version()


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_no_operator_writes_but_the_last_copies(f, remove):
    left = writes(functionalize(f, remove=remove), rand(2, 3), rand(3))
    effects = {"writes_to_arguments": 2, "loops": 1, "batch_norm": 1}.get(f.__name__, 0)
    assert left == ["aten::copy_"] * effects
    if remove == "mutations_and_views":
        assert views(functionalize(f, remove=remove), rand(2, 3), rand(3)) == []


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_functional_graph_computes_the_program(f, remove):
    graph = make_graph(functionalize(f, remove=remove), check=True)(rand(2, 3), rand(3))
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    graph.recompile()
    for a, e in zip(outcome(graph), outcome(f), strict=True):
        assert a.tolist() == e.tolist()


def test_programs_on_other_devices(remove):
    def f(x, w):
        y = x.clone()
        y[0].mul_(w)
        y.view(-1)[1:3].zero_()
        x.add_(y)
        return y.t()

    for a, e in zip(outcome(functionalize(f, remove=remove), "cuda"), outcome(f, "cuda"), strict=True):
        assert a.device == e.device and a.tolist() == e.tolist()
    x, w = tt.ones(2, 3, device="meta"), tt.ones(3, device="meta")
    assert functionalize(f, remove=remove)(x, w).shape == (3, 2)
    assert writes(functionalize(f, remove=remove), x, w) == ["aten::copy_"]


def test_fake_recordings_of_functionalized_programs(remove):
    for f in (chains_of_views, writes_to_arguments, out_forms):
        x, w = rand(2, 3), rand(3)
        real = make_graph(functionalize(f, remove=remove))(rand(2, 3), rand(3))
        fake = make_graph(functionalize(f, remove=remove), "fake")(x, w)
        assert str(fake.graph) == str(real.graph)
        assert x.tolist() == rand(2, 3).tolist()


def test_an_argument_is_returned_as_itself_and_views_of_it_share_its_memory():
    def f(x):
        x.add_(1)
        return x, x[0], x.detach()

    x = tt.zeros(2, 2)
    same, row, alias = functionalize(f)(x)
    assert same is x and alias is not x
    row.fill_(5)
    alias[1].fill_(7)
    assert x.tolist() == [[5.0, 5.0], [7.0, 7.0]]
    *_, row, _ = functionalize(f, remove="mutations_and_views")(x)
    row.fill_(0)
    assert x.tolist() == [[6.0, 6.0], [8.0, 8.0]]


def test_results_that_share_memory_still_do():
    def f(x):
        y = x + 1
        row = y[0]
        row.mul_(2)
        return y, row

    y, row = functionalize(f)(tt.zeros(2, 2))
    assert row.tolist() == [2.0, 2.0]
    row.zero_()
    assert y.tolist() == [[0.0, 0.0], [1.0, 1.0]] and y.current_version() == row.current_version() == 2
    _, row = functionalize(f, remove="mutations_and_views")(tt.zeros(2, 2))
    assert not row._is_view()
    copied, source = functionalize(lambda x: (x.new_zeros(2).copy_(x), x))(tt.ones(2))
    copied.zero_()
    assert source.tolist() == [1.0, 1.0]


def test_arguments_that_share_memory_share_values():
    def f(row, x, part):
        row.add_(1)
        x.mul_(2)
        part.sub_(1)
        return row + part[0]

    for run in (f, *(functionalize(f, remove=r) for r in REMOVE)):
        x = tt.ones(3, 2)
        assert run(x[1], x, x[1:]).tolist() == [6.0, 6.0]
        assert x.tolist() == [[2.0, 2.0], [3.0, 3.0], [1.0, 1.0]]


def test_a_closed_over_view_of_an_argument_sees_what_is_written():
    x = tt.zeros(2, 2)
    row = x[1]

    def f(x):
        x.add_(1)
        return row * 3

    assert functionalize(f)(x).tolist() == [3.0, 3.0]


def test_parts_of_one_memory_without_common_elements_are_apart():
    whole = tt.from_numpy(np.zeros((2, 2), np.float32))
    a, b = whole[0], whole[1]

    def f(a, b):
        a.add_(1)
        b.add_(a * 2)

    functionalize(f)(a, b)
    assert whole.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    with pytest.raises(RuntimeError, match=r"two tensors from outside share memory, and .* is no view of"):
        functionalize(lambda a, b: a.add_(b))(whole.view(-1)[:3], whole.view(-1)[1:])


def nested_views(x, w):
    y = x * w
    y[0].mul_(w)
    y.t()[2].add_(x[:, 0])
    v = y.view(-1)
    v[1:3].exp_()
    return y.sum() + v[0]


def gradient_inside(x, w):
    return tt.autograd.grad(nested_views(x, w), (x, w), create_graph=True)


def gradients(run):
    x, w = rand(2, 3, grad=True), rand(3, grad=True)
    out = run(x, w)
    out.backward()
    return out.tolist(), x.grad.tolist(), w.grad.tolist()


def test_gradients_flow_through(remove):
    assert gradients(functionalize(nested_views, remove=remove)) == gradients(nested_views)


def test_gradients_are_taken_inside_and_differentiated_outside(remove):
    x, w = rand(2, 3, grad=True), rand(3, grad=True)
    expected = gradient_inside(x, w)
    actual = functionalize(gradient_inside, remove=remove)(x, w)
    for a, e in zip(actual, expected, strict=True):
        assert type(a) is tt.Tensor and a.tolist() == e.tolist()
        (second,) = tt.autograd.grad(a.sum(), w, retain_graph=True)
        assert second.tolist() == tt.autograd.grad(e.sum(), w, retain_graph=True)[0].tolist()
    assert writes(functionalize(gradient_inside, remove=remove), x, w) == []
    if remove == "mutations_and_views":
        assert views(functionalize(gradient_inside, remove=remove), x, w) == []


def test_gradcheck_of_a_functionalized_program(remove):
    x, w = rand(2, 3).double().requires_grad_(), rand(3).double().requires_grad_()
    assert tt.autograd.gradcheck(functionalize(nested_views, remove=remove), (x, w))


def test_backward_inside_accumulates_outside(remove):
    held = rand(3, grad=True)

    def f(x, w):
        (x * w * held).sum().backward()
        return w.grad * 2

    x, w = rand(2, 3), rand(3, grad=True)
    first = functionalize(f, remove=remove)(x, w)
    grad = w.grad
    expected = (x * held).sum(0)
    assert type(grad) is tt.Tensor and grad.tolist() == pytest.approx(expected.tolist())
    assert first.tolist() == pytest.approx((expected * 2).tolist())
    assert type(held.grad) is tt.Tensor and held.grad.tolist() == pytest.approx((x * w).sum(0).tolist())
    held.grad = None
    functionalize(f, remove=remove)(x, w)
    assert w.grad is grad and grad.tolist() == pytest.approx((expected * 2).tolist())


def test_an_input_written_under_autograd_has_its_new_history():
    def f(x, w):
        x.mul_(w)
        x[0].add_(w)

    results = []
    for run in (f, *(functionalize(f, remove=r) for r in REMOVE)):
        x, w = rand(2, 3), rand(3, grad=True)
        run(x, w)
        assert x.requires_grad and x.grad_fn is not None
        (grad,) = tt.autograd.grad((x * x).sum(), w)
        results.append((x.tolist(), grad.tolist(), x.current_version()))
    assert results[0] == results[1] == results[2]


def test_what_autograd_refuses_is_refused():
    leaf = rand(3, grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        functionalize(lambda x: x.add_(1))(leaf)

    def saved_then_written(x):
        y = x.exp()
        z = y.exp()
        y.add_(1)
        return z

    z = functionalize(saved_then_written)(leaf)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    assert (leaf + 1).tolist() == (rand(3) + 1).tolist()


def test_inference_and_no_grad(remove):
    def f(x):
        y = x.clone()
        y[0].add_(1)
        return y

    leaf = rand(2, 2, grad=True)
    with tt.no_grad():
        assert not functionalize(f, remove=remove)(leaf).requires_grad
    with tt.inference_mode():
        made = functionalize(f, remove=remove)(tt.zeros(2, 2))
        assert made.is_inference() and made.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_values_may_be_read(remove):
    def f(x):
        x.add_(1)
        if x.sum() > 3:
            x[0].fill_(x[1].item() * 2)
        return x.tolist(), repr(x), len(x), [v.item() for v in x]

    results = []
    for run in (f, functionalize(f, remove=remove)):
        x = tt.tensor([1.0, 2.0])
        results.append((run(x), x.tolist()))
    assert results[0] == results[1]
    with pytest.raises(RuntimeError, match=r"numpy\(\) inside functionalize"):
        functionalize(lambda x: x.numpy(), remove=remove)(tt.ones(2))
    with pytest.raises(RuntimeError, match=r"untyped_storage\(\) inside functionalize"):
        functionalize(lambda x: x.untyped_storage(), remove=remove)(tt.ones(2))
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_graph(functionalize(f, remove=remove))(tt.ones(2))


def test_calls_nest(remove):
    def outer(x, w):
        y = x + 1
        functionalize(writes_to_arguments, remove=remove)(y, w)
        y[0].zero_()
        return y

    def plain(x, w):
        y = x + 1
        writes_to_arguments(y, w)
        y[0].zero_()
        return y

    for a, e in zip(outcome(functionalize(outer, remove=remove)), outcome(plain), strict=True):
        assert a.tolist() == e.tolist()
    assert writes(functionalize(outer, remove=remove), rand(2, 3), rand(3)) == ["aten::copy_"]
    twice = functionalize(functionalize(chains_of_views, remove=remove), remove=remove)
    for a, e in zip(outcome(twice), outcome(chains_of_views), strict=True):
        assert a.tolist() == e.tolist()


def test_nested_arguments_and_results(remove):
    def f(pair, *, named):
        pair[0]["x"].add_(named[0])
        return {"sum": (pair[0]["x"].sum(), pair[1]), "none": None}

    x, n = tt.zeros(2), tt.ones(2)
    made = functionalize(f, remove=remove)(({"x": x}, 3), named=[n])
    assert made["sum"][0].item() == 2.0 and made["sum"][1] == 3 and made["none"] is None
    assert x.tolist() == [1.0, 1.0]


def test_an_error_undoes_everything(remove):
    kept = []

    def f(x, w):
        y = x.mul_(w)
        (y * 1).sum().backward()
        kept.append(y[0])
        raise KeyError("inside")

    x, w = rand(2, 3), rand(3, grad=True)
    before = x.tolist()
    with pytest.raises(KeyError, match="inside"):
        functionalize(f, remove=remove)(x, w)
    assert x.tolist() == before and x.current_version() == 0 and not x.requires_grad
    assert w.grad is None and type(kept[0]) is tt.Tensor
    assert kept[0].tolist() == pytest.approx((rand(2, 3)[0] * rand(3)).tolist())
    assert (x + 1).shape == (2, 3)


def test_what_escapes_is_a_plain_tensor(remove):
    kept = []

    def f(x):
        y = x.clone()
        kept.extend([y, y[0], x])
        y.add_(1)

    x = tt.zeros(2, 2)
    functionalize(f, remove=remove)(x)
    assert [type(t) for t in kept] == [tt.Tensor] * 3
    assert [t.tolist() for t in kept] == [[[1.0, 1.0]] * 2, [1.0, 1.0], [[0.0, 0.0]] * 2]
    kept[0].zero_()


def test_a_handle_in_another_thread_is_refused():
    failures = []

    def f(x):
        def other():
            try:
                x + 1
            except RuntimeError as error:
                failures.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    functionalize(f)(tt.ones(2))
    assert (
        "got a functional tensor outside of the functionalize() call, or the thread, that made it"
        in failures[0]
    )


def test_calls_in_several_threads(remove):
    results = []

    def run(n):
        x = tt.zeros(n, 2)
        y = functionalize(lambda x: (x[0].add_(n), x * 2)[1], remove=remove)(x)
        results.append((n, x[0].tolist() == [n, n], y[0].tolist() == [2 * n, 2 * n]))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, True, True) for n in range(1, 9)]


def test_writes_to_closed_over_tensors_are_refused(remove):
    held = tt.zeros(2)
    message = r"aten::add_.Tensor writes to a tensor that the function closes over"
    for f in (lambda x: held.add_(x), lambda x: held[0].add_(1), lambda x: held.t().add_(x)):
        with pytest.raises(RuntimeError, match=message):
            functionalize(f, remove=remove)(tt.ones(2))
    assert held.tolist() == [0.0, 0.0]
    assert functionalize(lambda x: x + held[0], remove=remove)(tt.ones(2)).tolist() == [1.0, 1.0]


def test_what_a_write_refuses_is_refused_with_its_own_message(remove):
    cases = [
        (lambda x: x.to(tt.int64).add_(0.5), RuntimeError, "result type Float can't be cast"),
        (lambda x: x.add_(tt.ones(3, 2)), RuntimeError, "doesn't match the broadcast shape"),
        (lambda x: x.clone()[:, None].expand(2, 5).add_(1), RuntimeError, "single memory location"),
        (lambda x: x.view(3), RuntimeError, "invalid for input of size 2"),
        (lambda x: x.select(3, 0), IndexError, "Dimension out of range"),
    ]
    for f, kind, message in cases:
        with pytest.raises(kind, match=message):
            f(tt.ones(2))
        with pytest.raises(kind, match=message):
            functionalize(f, remove=remove)(tt.ones(2))


def test_operators_of_ones_own():
    with tt.library.Library("functional", "DEF") as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.define("bump_(Tensor(a!) x) -> Tensor(a!)")
        lib.define("fill_both(Tensor(a!) x, Tensor(b!) y) -> ()")
        lib.define("half(Tensor x) -> Tensor")
        lib.define("half_(Tensor(a!) x) -> Tensor(a!)")
        explicit = "CompositeExplicitAutograd"
        lib.impl("twice", lambda x: x * 2, explicit)
        lib.impl("bump_", lambda x: x.add_(1), explicit)
        lib.impl("fill_both", lambda x, y: None, explicit)
        lib.impl("half", lambda x: x / 2, explicit)
        lib.impl("half_", lambda x: x.div_(2), explicit)
        ops = tt.ops.functional

        def f(x):
            y = ops.twice(x)
            return ops.half_(y[0]), y

        assert functionalize(f)(tt.ones(2, 2))[1].tolist() == [[1.0, 1.0], [2.0, 2.0]]
        assert [t.name() for t in operators(functionalize(f), tt.ones(2, 2))][:3] == [
            "functional::twice",
            "aten::select.int",
            "functional::half",
        ]
        # Without a functional form of its own, an operator has a derived one.
        x = tt.ones(2)
        assert functionalize(lambda x: ops.bump_(x))(x).tolist() == [2.0, 2.0]
        assert x.tolist() == [2.0, 2.0]
        assert [
            t.name() for t in operators(functionalize(lambda x: ops.fill_both(x, x.clone())), tt.ones(2))
        ] == [
            "aten::clone",
            "functional::fill_both_functional",
            "aten::copy_",
        ]


def test_bad_options_are_refused():
    with pytest.raises(
        ValueError, match="Valid options for remove are 'mutations', 'mutations_and_views', got 'all'"
    ):
        functionalize(abs, remove="all")
    with pytest.raises(TypeError, match="func must be callable, got int"):
        functionalize(3)


def test_results_agree_with_pytorch(remove):
    torch = pytest.importorskip("torch")

    def f(x):
        y = x.clone()
        y[0].add_(1)
        y.view(-1)[1::2].mul_(3)
        x.t()[0].sub_(y[:, 0])
        return y, y.diagonal()

    values = np.arange(4, dtype=np.float32).reshape(2, 2)
    x, t = tt.from_numpy(values.copy()), torch.from_numpy(values.copy())
    ours = functionalize(f, remove=remove)(x)
    theirs = torch.func.functionalize(f, remove=remove)(t)
    for a, b in zip((*ours, x), (*theirs, t), strict=True):
        assert a.tolist() == b.tolist()


def _written(x):
    y = x.clone()
    y[1:].mul_(2)
    return y.mul_(x).sin()


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda x: tt.func.jvp(f, (x,), (tt.ones(3),))[1],
        lambda f: lambda x: tt.func.jvp(lambda x: tt.func.jvp(f, (x,), (x,))[1], (x,), (x,))[1],
        lambda f: tt.func.grad(lambda x: tt.func.jvp(f, (x,), (x,))[1].sum()),
        lambda f: tt.func.hessian(lambda x: f(x).sum()),
        tt.func.jacfwd,
        tt.func.jacrev,
    ],
)
def test_derivatives_of_a_functionalized_function(transform, remove):
    x = tt.tensor([0.1, 0.2, 0.3])
    functionalized = tt.func.functionalize(_written, remove=remove)
    assert tt.allclose(transform(functionalized)(x), transform(_written)(x))


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize(
    "mapped",
    [
        _written,
        lambda x: tt.func.jvp(_written, (x,), (tt.ones(3),))[1],
        tt.func.grad(lambda x: _written(x).sum()),
        tt.func.hessian(lambda x: _written(x).sum()),
        tt.vmap(lambda x: x.clone().mul_(2)),
        lambda x: x.unbind()[0] + tt.ones(2),
    ],
)
def test_a_functionalized_vmap(mapped, remove):
    x = tt.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    expected = tt.vmap(mapped)(x)
    assert tt.allclose(tt.func.functionalize(tt.vmap(mapped), remove=remove)(x), expected)


def test_writes_to_inputs_of_a_functionalized_function_reach_their_tangents():
    def program(x):
        y, zero = x * 1, tt.zeros(3)
        made = tt.func.functionalize(lambda y, z: (y.mul_(y), z.add_(y), y + 1)[2])(y, zero)
        return y, zero, made

    x = tt.tensor([0.1, 0.2, 0.3])
    _, moved = tt.func.jvp(program, (x,), (tt.ones(3),))
    for tangent in moved:
        assert tt.allclose(tangent, 2 * x)
    with tt.autograd.forward_ad.dual_level():
        direction = tt.ones(3)
        dual = tt.autograd.forward_ad.make_dual(x, direction)
        tt.func.functionalize(lambda y: y * 2)(dual)
        assert tt.autograd.forward_ad.unpack_dual(dual).tangent is direction
