"""`gradcheck` and `gradgradcheck` pass correct derivatives and find wrong ones."""

from typing import Any

import pytest

import triten as tt
from triten.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from triten.dispatch.autograd import forward_ad
from triten.utils._pytree import tree_map


def double(*values: float) -> tt.Tensor:
    return tt.tensor(values or (0.5, -1.5, 2.0), dtype=tt.float64).requires_grad_()


def square() -> tt.Tensor:
    return tt.tensor([[0.5, -1.5], [2.0, 0.25]], dtype=tt.float64).requires_grad_()


class Doubled(Function):
    """Function with the right forward, whose gradient is `factor` times the right one."""

    factor = 1

    @classmethod
    def apply_with(cls, x: Any, factor: int) -> Any:
        return cls.apply(x, factor)

    @staticmethod
    def forward(ctx: Any, x: Any, factor: int) -> Any:
        ctx.factor = factor
        return x + x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = grad + grad
        for _ in range(ctx.factor - 1):
            total = total + grad
        return total, None


class Squared(Function):
    """Function x x, whose second derivative treats x as constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.mm(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        x = x.detach()
        return grad.mm(x.t()) + x.t().mm(grad)


def test_right_gradients_pass() -> None:
    assert gradcheck(lambda x: x.relu(), double())
    assert gradcheck(lambda x, y: x.mm(y) + x, (square(), square()))
    assert gradcheck(lambda x, y: (x.relu(), x + y), (double(), double()))
    assert gradcheck(lambda x: Doubled.apply(x, 1), double())
    assert gradgradcheck(lambda x: x.mm(x), square())


def test_a_wrong_gradient_is_found() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(lambda x: Doubled.apply(x, 2), double())
    assert gradcheck(lambda x: Doubled.apply(x, 2), double(), raise_exception=False) is False


def test_a_wrong_second_gradient_is_found() -> None:
    assert gradcheck(Squared.apply, square())
    with pytest.raises(GradcheckError):
        gradgradcheck(Squared.apply, square())


def test_the_output_and_input_are_named() -> None:
    with pytest.raises(GradcheckError, match="output 1 with respect to input 1"):
        gradcheck(lambda x, y: (x + y, x + Doubled.apply(y, 2)), (double(), double()))


def test_a_gradient_that_never_arrives_is_found() -> None:
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: x + x.detach(), double())


def test_inputs_that_do_not_require_grad_and_other_values_pass_through() -> None:
    assert gradcheck(lambda x, c, n: (x + c).sum(n), (square(), tt.ones(2, 2, dtype=tt.float64), 1))


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="require grad"):
        gradcheck(lambda x: x, tt.ones(2, dtype=tt.float64))
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        gradcheck(lambda x: x.relu(), tt.ones(1, dtype=tt.float64).expand(2).requires_grad_())
    with pytest.raises(AssertionError, match="same shape when inputs are perturbed"):
        gradcheck(
            lambda x: tt.cat([x, x]) if tt.all(x >= 1) else x,
            tt.ones(1, dtype=tt.float64, requires_grad=True),
        )
    with pytest.raises(AssertionError, match="Expected at least one of"):
        gradcheck(lambda x: x, double(), check_backward_ad=False)


def test_float32_is_warned_about_and_checked() -> None:
    with pytest.warns(UserWarning, match="not a double precision"):
        assert gradcheck(lambda x: x * 2, tt.rand(2).requires_grad_(), eps=1e-3, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_complex_numbers(fast_mode: bool) -> None:
    z = tt.tensor([0.3 + 0.2j, -1 + 2j], dtype=tt.complex128, requires_grad=True)
    assert gradcheck(lambda z: z.sin() * z, z, check_forward_ad=True, fast_mode=fast_mode)
    assert gradcheck(lambda z: (z.conj() * z).real, z, fast_mode=fast_mode)
    assert gradgradcheck(lambda z: z * z * z, z, fast_mode=fast_mode)

    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            return z * 1j

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 1j  # not conjugated

    with pytest.raises(GradcheckError, match="imaginary part of complex outputs"):
        gradcheck(Wrong.apply, z, fast_mode=fast_mode)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layout", [tt.sparse_coo, tt.sparse_csr])
def test_sparse_inputs(layout: Any, masked: bool) -> None:
    x = tt.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=tt.float64).to_sparse(layout=layout).requires_grad_()
    assert gradcheck(lambda x: (x.to_dense(masked_grad=masked) * 3).sum(), x, masked=masked)


def hooked(hook: Any) -> Any:
    def function(x: Any) -> Any:
        y = x.clone()
        y.register_hook(hook)
        return y if y.layout is tt.strided else y.to_dense()

    return function


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize(
    ("hook", "text"),
    [
        (
            lambda grad: grad.to_dense().to_sparse(1),
            "grad is sparse tensor, but has incorrect sparse_dim 1, expected 2",
        ),
        (lambda grad: (grad.to_dense() + 1e-2).to_sparse(), "backward not multiplied by grad_output"),
        (lambda grad: grad.to_dense().to_sparse_csr(), "grad is incorrect layout"),
    ],
)
def test_gradients_of_zeros(hook: Any, text: str, fast_mode: bool) -> None:
    x = tt.ones(2, 2, dtype=tt.float64).to_sparse().requires_grad_()
    options = {"masked": True, "atol": 0.1, "fast_mode": fast_mode}
    assert gradcheck(hooked(lambda grad: grad), x, **options)
    with pytest.raises(GradcheckError, match=text):
        gradcheck(hooked(hook), x, **options)
    assert not gradcheck(hooked(hook), x, raise_exception=False, **options)
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(hooked(lambda grad: grad + 1e-2), double(), atol=0.1, fast_mode=fast_mode)


def test_what_else_is_checked() -> None:
    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad + tt.rand_like(grad) * 1e-9

    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Noisy.apply, double())
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Noisy.apply, double(), nondet_tol=1e-6)

    class Single(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert type(grad.sum().item()) is float  # a number of one example: not under vmap
            return grad

    assert gradcheck(Single.apply, double())
    with pytest.raises(GradcheckError, match="while testing batched gradient"):
        gradcheck(Single.apply, double(), check_batched_grad=True)
    options = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda x: (x.sin(), x.cumsum(0)), double(), check_grad_dtypes=True, **options)
    assert gradgradcheck(lambda x: x.sin(), double(), double(), check_fwd_over_rev=True)
    assert gradgradcheck(lambda x: x.sin(), double(), gen_non_contig_grad_outputs=True)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, double())


def test_inputs_are_left_as_they_were() -> None:
    x = double()
    before = x.tolist()
    gradcheck(lambda x: x.relu(), x)
    assert x.tolist() == before
    assert x.grad is None


class Scaled(tt.Tensor):
    """Wrapper subclass, whose numbers are in a tensor that it holds."""

    elem: Any

    @staticmethod
    def __new__(cls, elem: Any) -> Any:
        made = tt.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype)
        made.elem = elem
        return made

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda e: e.elem if isinstance(e, cls) else e, (args, kwargs or {}))
        return tree_map(lambda e: cls(e) if isinstance(e, tt.Tensor) else e, func(*args, **kwargs))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrapper_subclasses_are_checked(fast_mode: bool) -> None:
    x = Scaled(tt.tensor([0.5, -1.5], dtype=tt.float64)).requires_grad_()
    assert gradcheck(lambda x: x.exp(), (x,), fast_mode=fast_mode)
    assert x.elem.tolist() == [0.5, -1.5]
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x.exp() + x.detach(), (x,), fast_mode=fast_mode)


def test_jacobians_of_wrapper_subclasses() -> None:
    x = Scaled(tt.tensor([0.5, -1.5]))
    found = tt.autograd.functional.jacobian(lambda x: x, x, vectorize=True)
    assert isinstance(found, Scaled) and found.elem.tolist() == [[1, 0], [0, 1]]


def test_forward_mode_is_checked_with_a_tangent_of_each_input() -> None:
    seen: list[Any] = []

    def f(x: Any, y: Any) -> Any:
        if forward_ad.current_level() >= 0:
            seen.append([forward_ad.unpack_dual(each).tangent.tolist() == [0] for each in (x, y)])
            assert not x.requires_grad and not y.requires_grad
        return x * 2 + y

    assert gradcheck(f, (double(1.0), double(2.0)), check_forward_ad=True, check_backward_ad=False)
    assert seen == [[False, True], [True, False]]


def test_moved_inputs_keep_their_version(device):
    x = tt.tensor([0.3, -0.7], dtype=tt.float64, device=device, requires_grad=True)
    before = x._version
    assert tt.autograd.gradgradcheck(tt.nn.functional.gelu, (x,))
    assert x._version == before


def test_functions_that_know_no_vmap_are_checked_in_batches() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 2

    options = {"check_forward_ad": True, "check_batched_forward_grad": True, "check_batched_grad": True}
    assert gradcheck(Twice.apply, double(), **options)
    assert gradgradcheck(Twice.apply, double(), check_batched_grad=True)
    with pytest.raises(RuntimeError, match="must override the setup_context"):
        tt.vmap(Twice.apply)(square())


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (1, 2), (2, 2)])
def test_second_derivatives_for_gradients_of_any_strides(shape: tuple[int, ...]) -> None:
    strides = []

    class Noted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            strides.append(grad.stride())
            return grad * 2

    x = tt.ones(shape, dtype=tt.float64).requires_grad_()
    assert gradgradcheck(Noted.apply, (x,), gen_non_contig_grad_outputs=True)
    assert 0 in shape or strides[0] == (4, 2)
    assert gradgradcheck(Noted.apply, (x,))
