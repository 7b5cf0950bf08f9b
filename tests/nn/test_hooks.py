"""Hooks around a module's call and around its backward."""

import pytest

import triten as tt

nn = tt.nn


class Affine(nn.Module):
    def forward(self, x, scale=2.0):
        return x * scale


def test_forward_hooks_see_and_replace():
    m, seen = Affine(), []
    first = m.register_forward_pre_hook(lambda m, args: seen.append(("pre", len(args))))
    m.register_forward_pre_hook(lambda m, args: args[0] + 1)
    m.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": 10.0}), with_kwargs=True)
    m.register_forward_hook(lambda m, args, out: seen.append(("post", args[0].item(), out.item())))
    m.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["scale"], with_kwargs=True)
    m.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    assert m(tt.tensor(1.0), scale=3.0).item() == 30.0
    assert seen == [("pre", 1), "first", ("post", 2.0, 20.0)]
    first.remove()
    seen.clear()
    m(tt.tensor(1.0))
    assert seen == ["first", ("post", 2.0, 20.0)]


def test_a_pre_hook_that_returns_nonsense_is_refused():
    m = Affine()
    m.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        m(tt.ones(1), tt.ones(1), tt.ones(1))


def test_hooks_that_are_always_called_see_failures_too():
    m, seen = Affine(), []
    m.register_forward_hook(lambda m, args, out: seen.append("usual"))
    m.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    m.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    with pytest.raises(TypeError) as raised:
        m(tt.ones(1), object())
    assert seen == [None]
    assert "ZeroDivisionError" in raised.value.__notes__[0]
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        m(tt.ones(1))
    assert seen[0] == "usual" and len(seen) == 2


def test_backward_hooks_see_the_gradients_of_inputs_and_outputs():
    m, seen = nn.Linear(2, 3), []
    handle = m.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    m.register_full_backward_pre_hook(lambda m, go: seen.append(("pre", go[0].tolist())))
    x = tt.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    assert seen == [("pre", [[1.0] * 3]), (x.grad.tolist(), [[1.0] * 3])]
    assert tt.equal(m.bias.grad, tt.ones(3))
    handle.remove()
    seen.clear()
    m(x).sum().backward()
    assert [entry[0] for entry in seen] == ["pre"]


def test_backward_hooks_replace_gradients():
    m = Affine()
    m.register_full_backward_pre_hook(lambda m, go: (go[0] * 10,))
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1, None))
    x = tt.ones(1, requires_grad=True)
    m(x, 3.0).backward()
    assert x.grad.tolist() == [31.0]


def test_inputs_without_gradients_and_results_that_are_tuples():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(tt.ones(1))

        def forward(self, x):
            return x * self.w, "text", x + self.w

    m, seen = Two(), []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append((gi, [g if g is None else g.tolist() for g in go]))
    )
    a, text, b = m(tt.ones(1))
    (a + 2 * b).backward()
    assert text == "text" and m.w.grad.tolist() == [3.0]
    assert seen == [((None,), [[1.0], None, [2.0]])]


def test_too_many_gradients_are_refused():
    m = Affine()
    m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 3, but expected 1"):
        m(tt.ones(1, requires_grad=True)).backward()


def test_hooks_of_backward_agree_with_pytorch():
    torch = pytest.importorskip("torch")
    seen = {}
    for library in (tt, torch):
        net = library.nn.Sequential(library.nn.Linear(2, 2), library.nn.ReLU())
        with library.no_grad():
            for p in net.parameters():
                p.fill_(0.5)
        calls = seen[library] = []
        for i, child in enumerate(net):
            child.register_full_backward_hook(
                lambda m, gi, go, i=i, calls=calls: calls.append((i, gi[0].tolist(), go[0].tolist()))
            )
        x = library.ones(1, 2, requires_grad=True)
        net(x).sum().backward()
        calls.append(x.grad.tolist())
    assert seen[tt] == seen[torch]


def test_a_backward_hook_may_not_replace_what_is_not_there():
    m = nn.Linear(1, 1)
    m.register_full_backward_hook(lambda m, gi, go: (None,))
    m(tt.ones(1)).backward()
    m.register_full_backward_hook(lambda m, gi, go: (tt.ones(1),))
    with pytest.raises(RuntimeError, match="no input requires gradient"):
        m(tt.ones(1)).backward()


def test_zeroed_gradients_are_the_same_tensors():
    m = nn.Linear(1, 1)
    m(tt.ones(1)).backward()
    optimizer = tt.optim.SGD(m.parameters(), lr=0.1)
    kept = [p.grad for p in m.parameters()]
    for zero in (m.zero_grad, optimizer.zero_grad):
        for grad in kept:
            grad.fill_(3.0)
        zero(set_to_none=False)
        assert all(p.grad is g and not g.any() for p, g in zip(m.parameters(), kept, strict=True))


def test_the_old_backward_hook_is_at_the_last_operation():
    seen = []
    m = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh())
    handle = m.register_backward_hook(lambda module, given, made: seen.append((module, given, made)))
    x = tt.zeros(1, requires_grad=True)
    m(x).backward(tt.tensor([2.0]))
    ((module, given, made),) = seen
    assert module is m and made[0].tolist() == [2.0]
    assert given[0].tolist() == [2.0]  # of tanh's operand, not of x
    handle.remove()
    m(x).backward(tt.tensor([2.0]))
    assert len(seen) == 1


def test_hooks_of_all_modules_come_before_a_module_s_own():
    from triten.nn.modules import module as base

    told = []
    model = nn.Sequential(nn.Linear(2, 2))
    plain = nn.Module.__call__
    model.register_forward_pre_hook(lambda module, args: told.append("own before"))
    model.register_forward_hook(lambda module, args, output: told.append("own after"))
    handles = [
        base.register_module_forward_pre_hook(
            lambda module, args: told.append(f"before {type(module).__name__}")
        ),
        base.register_module_forward_hook(
            lambda module, args, output: told.append(f"after {type(module).__name__}")
        ),
        base.register_module_full_backward_pre_hook(
            lambda module, grads: told.append(f"in {type(module).__name__}")
        ),
        base.register_module_full_backward_hook(
            lambda module, inputs, outputs: told.append(f"out {type(module).__name__}")
        ),
    ]
    model(tt.ones(1, 2, requires_grad=True)).sum().backward()
    assert told == [
        *(
            "before Sequential",
            "own before",
            "before Linear",
            "after Linear",
            "after Sequential",
            "own after",
        ),
        *("in Sequential", "in Linear", "out Linear", "out Sequential"),
    ]
    for handle in handles:
        handle.remove()
    told.clear()
    nn.Linear(2, 2)(tt.ones(1, 2))
    assert told == [] and nn.Module.__call__ is plain


def test_hooks_of_all_modules_change_arguments_and_results():
    from triten.nn.modules import module as base

    x = tt.ones(2)
    with base.register_module_forward_pre_hook(lambda module, args: (args[0] * 2,)):
        assert nn.Identity()(x).tolist() == [2.0, 2.0]
    after = lambda module, args, named, output: output + named["scale"]  # noqa: E731

    class Scaled(nn.Module):
        def forward(self, x, scale):
            return x * scale

    with base.register_module_forward_hook(after, with_kwargs=True):
        assert Scaled()(x, scale=3.0).tolist() == [6.0, 6.0]
    told = []
    with (
        base.register_module_forward_hook(lambda *given: told.append(given[2]), always_call=True),
        pytest.raises(TypeError),
    ):
        Scaled()(x)
    assert told == [None]
    with base.register_module_backward_hook(
        lambda module, inputs, outputs: told.append(type(module).__name__)
    ):
        nn.ReLU()(tt.ones(1, requires_grad=True)).sum().backward()
    assert told == [None, "ReLU"]


def test_hooks_of_registration():
    from triten.nn.modules import module as base

    told = []

    def tell(module, name, value):
        told.append((type(module).__name__, name, type(value).__name__))

    with (
        base.register_module_parameter_registration_hook(tell),
        base.register_module_buffer_registration_hook(tell),
        base.register_module_module_registration_hook(tell),
    ):
        nn.Sequential(nn.Linear(1, 1, bias=False)).register_buffer("count", tt.ones(1))
    assert told == [
        ("Linear", "weight", "Parameter"),
        ("Linear", "bias", "NoneType"),
        ("Sequential", "0", "Linear"),
        ("Sequential", "count", "Tensor"),
    ]

    def taller(module, name, value):
        return None if value is None else nn.Parameter(tt.zeros(3, 1))

    with base.register_module_parameter_registration_hook(taller):
        assert nn.Linear(1, 1, bias=False).weight.shape == (3, 1)


class _Product(tt.nn.Module):
    def forward(self, x, y):
        return x * y


def _hooked(module, seen):
    module.register_full_backward_hook(
        lambda _, grad_input, grad_output: seen.append(
            ([g.tolist() for g in grad_input], [g.tolist() for g in grad_output])
        )
    )
    return module


def test_full_backward_hooks_wait_for_a_gradient_of_the_output() -> None:
    seen: list = []
    product = _hooked(_Product(), seen)
    x, y = (tt.tensor([3.0], requires_grad=True) for _ in range(2))
    (grad,) = tt.autograd.grad(product(x, y).sum(), x, create_graph=True)
    assert seen == [([[3.0], [3.0]], [[1.0]])]
    # The gradient, y, reaches y by the product's backward and no result of the module.
    grad.sum().backward()
    assert len(seen) == 1
    assert y.grad.tolist() == [1.0]


def test_full_backward_hooks_see_gradients_of_gradients_once_each() -> None:
    seen: list = []
    cube = _hooked(_Product(), seen)
    x = tt.tensor([3.0], requires_grad=True)
    y = tt.tensor([2.0], requires_grad=True)
    (grad,) = tt.autograd.grad((cube(x, y) ** 2).sum(), x, create_graph=True)  # 2 x y^2
    assert seen.pop() == ([[24.0], [36.0]], [[12.0]])
    (second,) = tt.autograd.grad(grad.sum(), x)
    assert second.tolist() == [8.0]
    assert seen == [([[8.0], [12.0 + 12.0]], [[4.0]])]


def test_no_hook_is_called_where_the_first_pass_did_not_reach_the_module() -> None:
    seen: list = []
    outer = _hooked(_Product(), seen)
    x = tt.tensor([3.0], requires_grad=True)
    outer(x, x)
    (x * x).sum().backward()
    assert seen == []


def test_assigned_tables_of_global_hooks_replace_the_registered_ones() -> None:
    from triten.nn.modules import module

    seen = []
    module.register_module_forward_hook(lambda *_: seen.append("old"))
    layer = tt.nn.ReLU()
    try:
        layer(tt.ones(1))
        module._global_forward_hooks = {}
        layer(tt.ones(1))
        handle = module.register_module_forward_hook(lambda *_: seen.append("new"))
        layer(tt.ones(1))
        handle.remove()
        layer(tt.ones(1))
    finally:
        module._global_forward_hooks.clear()
    assert seen == ["old", "new"] and not module._global_forward_hooks
