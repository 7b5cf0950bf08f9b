"""Dual tensors: levels, nesting with backward mode, writes and views, custom Functions, errors."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.autograd.forward_ad import (
    _is_fwd_grad_enabled,
    _set_fwd_grad_enabled,
    dual_level,
    enter_dual_level,
    exit_dual_level,
    make_dual,
    unpack_dual,
)
from triten.runtime.local_dispatch_key_set import local, modes


def dual(values: Any, tangent: Any, **options: Any) -> tt.Tensor:
    return make_dual(tt.tensor(values, **options), tt.tensor(tangent, **options))


def tangent_of(tensor: tt.Tensor) -> Any:
    tangent = unpack_dual(tensor).tangent
    return None if tangent is None else tangent.tolist()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_chain_of_operators_carries_the_tangent(device: str) -> None:
    with dual_level():
        x = dual([1.0, 2.0], [1.0, 0.5], device=device)
        y = (x * x).sum() + x.exp().sum() * 0
        primal, tangent = unpack_dual(y)
        assert primal.item() == 5.0
        assert tangent.item() == 4.0
        assert tangent.device.type == device


def test_meta_tensors_have_tangents() -> None:
    with dual_level():
        x = make_dual(tt.ones(2, 3, device="meta"), tt.ones(2, 3, device="meta"))
        assert unpack_dual(x @ x.mT).tangent.shape == (2, 2)


def test_forward_mode_works_where_grad_mode_is_off() -> None:
    with tt.no_grad(), dual_level():
        assert tangent_of(dual([3.0], [1.0]) ** 2) == [6.0]


def test_results_of_integers_and_detached_ones_have_none() -> None:
    with dual_level():
        x = dual([1.0, 2.0], [1.0, 0.5])
        assert tangent_of(x.argmax()) is None
        assert tangent_of(x > 1) is None
        assert tangent_of(x.detach()) is None
        assert tangent_of(tt.zeros_like(x)) is None


def test_the_end_of_a_level_takes_its_tangents_away() -> None:
    with dual_level() as level:
        x = dual([1.0], [1.0])
        y = x * 2
        assert unpack_dual(y, level=level).tangent is not None
    for tensor in (x, y):
        assert unpack_dual(tensor, level=level).tangent is None
        assert tensor._spec.keys == 0
    assert not modes
    assert (local.included, local.excluded) == (0, 0)


def test_tangents_do_not_keep_tensors_alive() -> None:
    with dual_level():
        x = dual([1.0], [1.0])
        gc.collect()
        gc.disable()
        try:
            before = sum(type(o) is tt.Tensor for o in gc.get_objects())
            for _ in range(100):
                x.sin().sum()
            assert sum(type(o) is tt.Tensor for o in gc.get_objects()) == before
        finally:
            gc.enable()


# --- levels


def test_levels_do_not_see_each_other() -> None:
    """Differentiate x d/dy (x + y) at y=1, which gives 1: a level that took the other's tangent would give
    2.
    """
    with dual_level() as outer:
        x = dual([3.0], [1.0])
        with dual_level() as inner:
            y = make_dual(tt.tensor([1.0]), tt.tensor([1.0]))
            derivative = unpack_dual(x + y, level=inner).tangent
        assert unpack_dual(x * derivative, level=outer).tangent.item() == 1.0


def test_second_derivatives_by_two_levels() -> None:
    with dual_level() as outer:
        x = dual([2.0], [1.0], dtype=tt.float64)
        with dual_level() as inner:
            y = make_dual(x, tt.ones(1, dtype=tt.float64))
            first = unpack_dual(y.sin() * y**3, level=inner).tangent
        value, second = unpack_dual(first, level=outer)
    at = 2.0
    assert value.item() == pytest.approx(np.cos(at) * at**3 + np.sin(at) * 3 * at**2)
    assert second.item() == pytest.approx(
        -np.sin(at) * at**3 + 2 * np.cos(at) * 3 * at**2 + np.sin(at) * 6 * at
    )


def test_levels_end_in_order() -> None:
    outer = enter_dual_level()
    inner = enter_dual_level()
    with pytest.raises(RuntimeError, match="not the last one that was created"):
        exit_dual_level(level=outer)
    exit_dual_level(level=inner)
    exit_dual_level()
    with pytest.raises(RuntimeError, match="not the last one"):
        exit_dual_level()


def test_levels_are_a_threads_own() -> None:
    found: list[Any] = []

    def other() -> None:
        try:
            make_dual(tt.ones(1), tt.ones(1))
        except RuntimeError as error:
            found.append(str(error))

    with dual_level():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "no level exists" in found[0]


def test_an_exception_ends_the_level() -> None:
    with pytest.raises(IndexError), dual_level():
        dual([1.0], [1.0])[3]
    with pytest.raises(RuntimeError, match="no level exists"):
        make_dual(tt.ones(1), tt.ones(1))
    assert not modes


# --- with backward mode


def cube(x: Any) -> Any:
    return (x * x * x).sum()


@pytest.mark.parametrize(
    ("function", "second"),
    [
        (cube, lambda x: 6 * x),
        (lambda x: x.exp().sum(), np.exp),
        (lambda x: x.tanh().sum(), lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
        (lambda x: (x * x).sqrt().clone().mul_(x * x).sum(), lambda x: 6 * x),
    ],
)
def test_forward_over_backward_and_backward_over_forward(function: Any, second: Any) -> None:
    """Compute the Hessian-vector product with ones in both ways; saved inputs and results must carry their
    tangents.
    """
    values = np.array([0.5, 1.5, 2.0])
    with dual_level():
        x = tt.tensor(values, requires_grad=True)
        d = make_dual(x, tt.ones(3, dtype=tt.float64))
        y = function(d)
        (grad,) = tt.autograd.grad(y, d, retain_graph=True)
        np.testing.assert_allclose(unpack_dual(grad).tangent.numpy(), second(values))
        (over,) = tt.autograd.grad(unpack_dual(y).tangent, x)
        np.testing.assert_allclose(over.numpy(), second(values))


def test_the_primal_stays_in_the_graph() -> None:
    w = tt.tensor([3.0], requires_grad=True)
    with dual_level():
        primal = unpack_dual(make_dual(w, tt.ones(1)) * 2).primal
    primal.backward()
    assert w.grad.tolist() == [2.0]


def test_gradients_of_leaves_carry_tangents() -> None:
    with dual_level():
        w = tt.tensor([2.0], requires_grad=True)
        x = dual([5.0], [1.0])
        (w * w * x).sum().backward()
        assert unpack_dual(w.grad).tangent.tolist() == [4.0]


# --- writes and views


def test_views_have_views_of_the_tangent() -> None:
    with dual_level():
        x = dual([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
        tangent = unpack_dual(x).tangent
        row = unpack_dual(x.t()[1]).tangent
        assert row.tolist() == [6.0, 8.0]
        assert row.data_ptr() == tangent.data_ptr() + 4


def test_in_place_operators_use_the_values_from_before() -> None:
    with dual_level():
        x = dual([3.0], [1.0]).clone()
        x.mul_(x)
        assert unpack_dual(x).primal.tolist() == [9.0]
        assert tangent_of(x) == [6.0]
        x.zero_()
        assert tangent_of(x) == [0.0]


def test_a_write_through_a_view_reaches_the_base() -> None:
    with dual_level():
        x = dual([2.0], [1.0])
        y = tt.zeros(3)
        y[1:2] = x * x
        assert tangent_of(y) == [0.0, 4.0, 0.0]
        y[1:].mul_(2.0)
        assert tangent_of(y) == [0.0, 8.0, 0.0]


def test_tangents_take_the_strides_of_their_tensor() -> None:
    with dual_level():
        primal = tt.ones(2, 3).t()
        x = make_dual(primal, tt.arange(6.0).reshape(3, 2))
        tangent = unpack_dual(x).tangent
        assert tangent.stride() == primal.stride()
        assert tangent.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        expanded = make_dual(tt.ones(3), tt.ones(1).expand(3))
        expanded.mul_(2.0)
        assert tangent_of(expanded) == [2.0, 2.0, 2.0]


def test_results_do_not_share_the_tangent_of_an_input() -> None:
    with dual_level():
        x = dual([1.0], [1.0])
        y = x + 0
        y.mul_(5.0)
        assert tangent_of(x) == [1.0]


# --- operators without a formula of their own


def test_operators_are_differentiated_twice_where_they_have_no_formula() -> None:
    with dual_level():
        x = dual([2.0, 3.0, 4.0], [1.0, 0.0, 2.0])
        assert tangent_of(x.prod()) == 12.0 + 12.0
        assert tangent_of(x.clone().sqrt_().pow_(2.0)) == pytest.approx([1.0, 0.0, 2.0])


def test_random_writes_have_no_tangent() -> None:
    with dual_level():
        x = dual([2.0, 3.0], [1.0, 1.0]).clone()
        assert tangent_of(x.uniform_()) == [0.0, 0.0]


class Square(tt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, power: Any) -> Any:
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, power: Any) -> Any:
        assert power is None
        return 10 * ctx.saved_tensors[0] * tangent


class NoJvp(tt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()


def test_a_custom_function_gives_its_own_tangents() -> None:
    with dual_level():
        x = dual([3.0], [1.0])
        y = Square.apply(x, 2)
        assert unpack_dual(y).primal.tolist() == [9.0]
        assert tangent_of(y) == [30.0]
        with dual_level():
            z = make_dual(x, tt.ones(1))
            assert unpack_dual(Square.apply(z, 2)).tangent.tolist() == [30.0]


def test_a_custom_function_without_jvp_is_refused() -> None:
    with dual_level(), pytest.raises(NotImplementedError, match="NoJvp: You must implement the jvp function"):
        NoJvp.apply(dual([1.0], [1.0]))
    assert not modes


BECOMING = {
    "as_strided_": lambda y: y.as_strided_((3,), (1,)),
    "squeeze_": lambda y: y.squeeze_(),
    "swapaxes_": lambda y: y.swapaxes_(0, 1),
    "t_": lambda y: y.t_(),
    "transpose_": lambda y: y.transpose_(0, 1),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
}


@pytest.mark.parametrize("name", BECOMING)
def test_tangents_become_the_view_that_their_tensor_becomes(name: str) -> None:
    def function(x: Any) -> Any:
        y = x * x
        row = y[0]
        BECOMING[name](y).mul_(2)
        y[..., 0] = y[..., 0] * 3
        return y * y, row * 1

    x = tt.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=tt.float64)
    direction = (x * 3 + 1).sin()
    values, tangents = tt.func.jvp(function, (x,), (direction,))
    again, backward = tt.func.vjp(function, x)
    assert [v.tolist() for v in values] == [v.tolist() for v in again]
    # The Jacobian is square or wider in each result, so its transpose is told apart by several weights.
    for power in range(4):
        weights = tuple(
            tt.arange(1.0, v.numel() + 1, dtype=tt.float64).reshape(v.shape) ** power for v in again
        )
        (gradient,) = backward(weights)
        forward = sum((t * w).sum() for t, w in zip(tangents, weights, strict=True))
        assert forward.item() == pytest.approx((gradient * direction).sum().item())


def test_detach_in_place_takes_tangents_of_all_levels() -> None:
    with dual_level() as outer, dual_level():
        x = make_dual(dual([1.0], [2.0]), tt.tensor([3.0]), level=outer)
        y = x * x
        view = y[0]
        y.detach_()
        assert tangent_of(y) is None and unpack_dual(y, level=outer).tangent is None
        assert tangent_of(y + 1) is None and tangent_of(view) == 4.0


# --- refusals


RESIZED: list[tuple[Any, Any, str]] = [
    (lambda x: x.resize_(2, 1), RuntimeError, "cannot resize variables that has a forward grad"),
    (lambda x: x.resize_as_(tt.ones(1)), RuntimeError, "cannot resize variables that has a forward grad"),
    (lambda x: x.set_(), NotImplementedError, "Trying to use forward AD with set_"),
    (lambda x: x.set_(tt.ones(1)), NotImplementedError, "Trying to use forward AD with set_"),
    (lambda x: tt.ones(1).set_(x), NotImplementedError, "Trying to use forward AD with set_"),
    (
        lambda x: x.set_(tt.ones(1).untyped_storage()),
        NotImplementedError,
        "Trying to use forward AD with set_",
    ),
]


@pytest.mark.parametrize(("change", "error", "message"), RESIZED)
def test_other_memory_is_refused_for_dual_tensors(change: Any, error: Any, message: str) -> None:
    with dual_level():
        x = dual([1.0, 2.0], [3.0, 4.0])
        with pytest.raises(error, match=message):
            change(x)
        assert x.tolist() == [1.0, 2.0] and tangent_of(x) == [3.0, 4.0]


def test_out_forms_are_refused() -> None:
    with dual_level():
        x, out = dual([1.0], [1.0]), tt.empty(1)
        with pytest.raises(
            NotImplementedError, match="add_out that does not support it because it is an out="
        ):
            tt.add(x, x, out=out)


def test_bad_tangents_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no level exists"):
        make_dual(tt.ones(1), tt.ones(1))
    with dual_level():
        with pytest.raises(RuntimeError, match=r"Tensor is of size \[2\] while the given .* of size \[3\]"):
            make_dual(tt.ones(2), tt.ones(3))
        with pytest.raises(RuntimeError, match=r"expected a tangent of triten\.float32 on cpu"):
            make_dual(tt.ones(2), tt.ones(2, dtype=tt.float64))
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            make_dual(tt.ones(2, dtype=tt.int64), tt.ones(2))
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            make_dual(tt.ones(2), tt.ones(2, dtype=tt.int64))
        with pytest.raises(TypeError, match="expected tangent to be a Tensor, got float"):
            make_dual(tt.ones(2), 1.0)
        with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
            make_dual(tt.ones(1), dual([1.0], [1.0]))


def test_complex_tensors() -> None:
    with dual_level():
        z = make_dual(tt.tensor([1 + 2j]), tt.tensor([3 - 1j]))
        assert tangent_of(z * z) == [2 * (1 + 2j) * (3 - 1j)]
        expected = ((1 - 2j) * (3 - 1j)).real / abs(1 + 2j)
        assert tangent_of(z.abs()) == pytest.approx([expected])
        assert tangent_of(z.exp())[0] == pytest.approx(np.exp(1 + 2j) * (3 - 1j))


def test_a_dual_tensor_shows_its_tangent() -> None:
    with dual_level():
        assert repr(dual([1.0], [2.0])) == "tensor([1.], tangent=tensor([2.]))"


@pytest.mark.parametrize(
    "read",
    [
        lambda base, whole, part: whole * 1,
        lambda base, whole, part: part * 1,
        lambda base, whole, part: base * 1,
    ],
    ids=["a view of all", "another view", "the base"],
)
def test_a_write_through_a_view_reaches_views_made_before(read):
    def function(x):
        base = tt.ones(2, dtype=tt.float64)
        whole, part = base.view(1, 2), base[1:]
        whole[0].mul_(x)
        return read(base, whole, part)

    x = tt.tensor([2.0, 3.0], dtype=tt.float64)
    value, tangent = tt.func.jvp(function, (x,), (tt.ones_like(x),))
    assert tangent.flatten().tolist() == [1.0] * value.numel()
    assert value.flatten().tolist() == [2.0, 3.0][-value.numel() :]


class Twice(tt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x, x.sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_for_forward
        assert ctx.saved_tensors[0] is x
        return 2 * x * tangent, tangent.sum(-1)


def test_a_function_that_is_dual_inside_vmap_is_differentiated_by_its_jvp():
    x = tt.arange(3.0)
    square, total = tt.func.jacfwd(Twice.apply)(x)
    assert square.tolist() == tt.diag(2 * x).tolist() and total.tolist() == [1.0] * 3
    one = tt.vmap(lambda each: tt.func.jvp(lambda y: Twice.apply(y)[0], (each,), (tt.ones(3),))[1])
    assert one(tt.stack([x, x + 1])).tolist() == [[0.0, 2.0, 4.0], [2.0, 4.0, 6.0]]


def test_a_function_without_jvp_is_refused_inside_vmap():
    class Half(tt.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x / 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        tt.func.jacfwd(Half.apply)(tt.ones(2))


@pytest.mark.parametrize(
    ("primal", "tangent", "is_same"),
    [
        (lambda x: x, lambda x: x, True),
        (lambda x: x[2:4], lambda x: x[2:4], True),
        (lambda x: x[2:4], lambda x: x[1:3], False),
        (lambda x: x[:4], lambda x: x[:4].clone(), False),
        (lambda x: x[:4].clone(), lambda x: x[:4], False),
        (lambda x: x[::2], lambda x: x[::2].clone(), False),
    ],
)
def test_a_tangent_lies_in_its_storage_as_the_primal_does(primal: Any, tangent: Any, is_same: bool) -> None:
    whole, given = primal(tt.arange(6.0)), tangent(tt.arange(6.0))
    with dual_level():
        made = unpack_dual(make_dual(whole, given)).tangent
        assert (made is given) == is_same and made.tolist() == given.tolist()
        assert made.storage_offset() == whole.storage_offset() and made.stride() == whole.stride()
        assert made.untyped_storage().nbytes() == whole.untyped_storage().nbytes()


def test_a_view_beyond_the_primal_has_a_tangent() -> None:
    with dual_level():
        x = make_dual(tt.arange(5.0)[1:3], tt.ones(2))
        assert tangent_of(x.as_strided((5,), (1,), 0)) == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_forward_mode_is_turned_off() -> None:
    with dual_level():
        x = dual([1.0], [2.0])
        with _set_fwd_grad_enabled(False):
            assert not _is_fwd_grad_enabled() and tangent_of(x) is None
            y = x * 2
            with _set_fwd_grad_enabled(True):
                assert tangent_of(x * 2) == [4.0]
        assert _is_fwd_grad_enabled() and tangent_of(y) is None and tangent_of(x) == [2.0]
    assert modes == []


def _function(forward: Any, jvp: Any) -> type[tt.autograd.Function]:
    return type("Made", (tt.autograd.Function,), {"forward": staticmethod(forward), "jvp": staticmethod(jvp)})


def _doubled_in_place(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


def _one_constant(ctx: Any, x: Any) -> Any:
    made = x.clone(), x.clone()
    ctx.mark_non_differentiable(made[1])
    return made


@pytest.mark.parametrize(
    ("forward", "jvp", "message"),
    [
        (_doubled_in_place, lambda ctx, t: t, "not modifying the forward mode gradients inplace"),
        (_doubled_in_place, lambda ctx, t: t.mul_(2).clone(), "gradients as-is"),
        (lambda ctx, x: x, lambda ctx, t: t * 2, "jvp is not returning a view"),
        (lambda ctx, x: x.view(1, 2), lambda ctx, t: t.reshape(1, 2) * 1, "jvp is not returning a view"),
        (
            lambda ctx, x: x.view(1, 2),
            lambda ctx, t: t.clone().view(1, 2),
            "not returning a view of the given grad input",
        ),
        (_doubled_in_place, lambda ctx, t: t * 2, "not modifying the forward mode gradients inplace"),
        (_one_constant, lambda ctx, t: (t, t.clone()), "position 1, but the corresponding forward output"),
        (lambda ctx, x: x * 2, lambda ctx, t: (t, t), "expected 1 but got 2"),
        (lambda ctx, x: x * 2, lambda ctx, t: t.sum(), "different size"),
        (lambda ctx, x: x * 2, lambda ctx, t: 3, r"expected Variable or None \(got int\)"),
    ],
)
def test_tangents_of_a_function_are_checked(forward: Any, jvp: Any, message: str) -> None:
    with dual_level(), pytest.raises(RuntimeError, match=message):
        _function(forward, jvp).apply(make_dual(tt.ones(2), tt.ones(2)))


def test_a_tangent_is_a_view_of_the_same_base_as_the_input_s() -> None:
    function = _function(lambda ctx, x: x[1:], lambda ctx, t: t.clone()[1:])
    with dual_level(), pytest.raises(RuntimeError, match="a view of the same base as the given grad input"):
        function.apply(make_dual(tt.ones(3), tt.ones(3))[:2])


@pytest.mark.parametrize(
    ("forward", "jvp", "expected"),
    [
        (_doubled_in_place, lambda ctx, t: t.mul_(2), [2.0, 6.0]),
        (lambda ctx, x: x, lambda ctx, t: t.view_as(t), [1.0, 3.0]),
        (lambda ctx, x: x[1:], lambda ctx, t: t[1:], [3.0]),
        (lambda ctx, x: (x * 1, 5), lambda ctx, t: (t, t), [1.0, 3.0]),
    ],
)
def test_tangents_of_a_function_share_memory_as_its_results_do(forward: Any, jvp: Any, expected: Any) -> None:
    with dual_level():
        made = _function(forward, jvp).apply(dual([1.0, 2.0], [1.0, 3.0]))
        assert tangent_of(made[0] if isinstance(made, tuple) else made) == expected


def test_running_statistics_have_no_tangents_in_evaluation() -> None:
    x, mean, var = tt.ones(3, 2), tt.zeros(2), tt.ones(2)
    with dual_level():
        for statistics in ((make_dual(mean, mean), var), (mean, make_dual(var, var))):
            with pytest.raises(RuntimeError, match="not differentiable wrt running_mean"):
                tt.nn.functional.batch_norm(x, *statistics)
            tt.nn.functional.batch_norm(x, *statistics, training=True)


@pytest.mark.parametrize("bag", [False, True])
def test_max_norm_of_an_embedding_keeps_the_tangent(bag: bool) -> None:
    function = tt.nn.functional.embedding_bag if bag else tt.nn.functional.embedding
    with dual_level():
        table = make_dual(tt.ones(2, 2) * 3, tt.ones(2, 2))
        options = {"mode": "sum"} if bag else {}
        indices = tt.tensor([[0]] if bag else [0])
        given = (indices, table)
        primal, tangent = unpack_dual(function(*given, max_norm=1.0, **options))
        tt.testing.assert_close(primal, tt.full((1, 2), 0.5**0.5))
        assert tt.equal(tangent, tt.ones(1, 2))


@pytest.mark.parametrize(
    ("primals", "tangents", "message"),
    [
        ((tt.ones(1),), tt.ones(1), "to have the same python structure"),
        ((tt.ones(1),), [tt.ones(1)], "to have the same python structure"),
        (tt.ones(1), (tt.ones(1),), "Expected primals to be a tuple"),
        ((), (), "Expected primals to contain at least one Tensor"),
    ],
)
def test_jvp_refuses_tangents_of_another_structure(primals: Any, tangents: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        tt.func.jvp(tt.sin, primals, tangents)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("igamma", lambda x: tt.igamma(x, tt.ones(2, 2))),
        ("igammac", lambda x: tt.igammac(x, tt.ones(2, 2))),
        ("special_zeta", lambda x: tt.special.zeta(x, tt.ones(2, 2))),
        ("geqrf", lambda x: tt.geqrf(x)),
    ],
)
def test_an_operator_without_a_derivative_is_named(name: str, call: Any) -> None:
    with (
        dual_level(),
        pytest.raises(NotImplementedError, match=f"Trying to use forward AD with {name} that does not"),
    ):
        call(make_dual(tt.eye(2), tt.eye(2)))


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_a_mapped_tangent_takes_the_strides_of_a_primal_that_is_not_mapped(layout: str) -> None:
    primal = {
        "transposed": tt.arange(4.0).reshape(2, 2).t(),
        "strided": tt.arange(8.0).reshape(2, 4)[:, ::2],
        "expanded": tt.tensor([[1.0, 2.0]]).expand(2, 2),
    }[layout]

    def square(tangent: Any) -> Any:
        with dual_level():
            x = make_dual(primal, tangent)
            return unpack_dual(x * x).tangent

    tangents = tt.arange(12.0).reshape(3, 2, 2)
    assert tt.vmap(square)(tangents).tolist() == (2 * primal * tangents).tolist()


class _Wrapper(tt.Tensor):
    """A tensor without storage around another tensor. Plain tensors cannot hold its elements."""

    inner: tt.Tensor

    @classmethod
    def around(cls, inner: tt.Tensor) -> "_Wrapper":
        made = cls._make_wrapper_subclass(cls, inner.shape, inner.stride(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.endswith("_") and not isinstance(args[0], cls):
            raise AssertionError(f"{func} writes a wrapper into a plain tensor")
        bare = lambda x: x.inner if isinstance(x, cls) else x  # noqa: E731
        result = func(*map(bare, args), **{k: bare(v) for k, v in (kwargs or {}).items()})
        return cls.around(result) if isinstance(result, tt.Tensor) else result


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (1 - x).clamp_min_(0.0),
        lambda x: tt.zeros(3, 2).copy_(x.sin()),
        lambda x: tt.nn.functional.hinge_embedding_loss(
            x, tt.tensor([[1, -1], [-1, 1], [1, 1]]), reduction="none"
        ),
        lambda x: x.t().contiguous().mul_(x.t()).t(),
        lambda x: tt.linalg.lu_factor(x[:2])[0],
    ],
)
def test_the_tangent_of_a_plain_tensor_may_be_a_wrapper(function: Any) -> None:
    x, tangent = tt.tensor([[0.5, 2.0], [-1.0, 0.25], [3.0, 1.5]]), tt.arange(6.0).reshape(3, 2)
    with dual_level():
        expected = unpack_dual(function(make_dual(x.clone(), tangent))).tangent
        found: Any = unpack_dual(function(make_dual(x.clone(), _Wrapper.around(tangent)))).tangent
    assert isinstance(found, _Wrapper)
    tt.testing.assert_close(found.inner, expected)
