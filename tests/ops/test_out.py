"""``out=``: what every form of it does with a tensor that does not fit, and what it refuses before it writes."""

import warnings
from collections.abc import Callable

import pytest

import triten as tt

OVERLAPS = "more than one element of the written-to tensor refers to a single memory"
EYE = tt.eye(3)
SHARES = "some elements of the input tensor and the written-to tensor refer to a single memory"


def test_a_resized_output_warns_once_at_the_callers_line(device):
    x = tt.ones(3, device=device)
    for call in (tt.neg, tt.deg2rad, lambda x, out: tt.hstack([x], out=out)):
        out = tt.zeros(2, 5, device=device)
        with pytest.warns(
            UserWarning, match=r"resized since it had shape \[2, 5\].*output shape \[3\]"
        ) as given:
            assert call(x, out=out) is out
        assert [warning.filename for warning in given] == [__file__]
        assert out.shape == (3,)


def test_an_empty_output_is_resized_in_silence(device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tt.neg(tt.ones(3, device=device), out=tt.empty(0, device=device)).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: tt.index_select(x, 0, tt.tensor([2, 1, 0], device=x.device), out=out),
        lambda x, out: tt.gather(x, 0, tt.tensor([2, 1, 0], device=x.device), out=out),
        lambda x, out: tt.take(x, tt.tensor([2, 1, 0], device=x.device), out=out),
        lambda x, out: tt.cat([x], out=out),
    ],
    ids=["index_select", "gather", "take", "cat"],
)
def test_operators_that_read_in_another_order_refuse_their_operand_as_output(call, device):
    x = tt.tensor([1.0, 2.0, 3.0], device=device)
    for out in (x, x.view(-1)):
        with pytest.raises(RuntimeError, match=SHARES):
            call(x, out)
        assert x.tolist() == [1, 2, 3]
    assert sorted(call(x, tt.empty(3, device=device)).tolist()) == [1, 2, 3]


@pytest.mark.parametrize("function", [tt.neg, tt.deg2rad, tt.msort], ids=["structured", "composed", "msort"])
def test_outputs_that_overlap_in_part_are_refused(function, device):
    memory = tt.arange(5.0, device=device)
    with pytest.raises(RuntimeError, match=SHARES):
        function(memory[:-1], out=memory[1:])
    assert memory.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("sizes", [(3,), (4,)], ids=["fits", "does not fit"])
def test_outputs_that_overlap_themselves_are_refused_whatever_their_shape(sizes, device):
    one = tt.zeros(1, device=device)
    for function in (tt.neg, tt.deg2rad):
        with pytest.raises(RuntimeError, match=OVERLAPS):
            function(tt.ones(3, device=device), out=one.expand(sizes))
    assert one.tolist() == [0]


def test_factories_compare_their_options_with_the_output():
    out = tt.empty(3)
    assert tt.zeros(3, out=out, dtype=tt.float32, device="cpu", layout=tt.strided) is out
    assert tt.arange(3.0, out=out, dtype=tt.float32).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"dtype Int does not match dtype of out parameter \(Float\)"):
        tt.ones(3, out=out, dtype=tt.int32)
    with pytest.raises(
        RuntimeError, match=r"device type meta does not match device type of out parameter \(cpu\)"
    ):
        tt.ones(3, out=out, device="meta")
    assert out.tolist() == [0, 1, 2]


def test_results_of_another_dtype_are_cast_where_pytorch_casts_them(device):
    x = tt.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    wide = tt.empty(2, dtype=tt.float64, device=device)
    assert tt.logsumexp(x, 0, out=wide) is wide
    assert wide.tolist() == pytest.approx(tt.logsumexp(x, 0).tolist())
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        tt.linalg.det(x, out=tt.empty((), dtype=tt.float64, device=device))
    with pytest.raises(RuntimeError, match="Expected floating point type for result tensor"):
        tt.logsumexp(x, 0, out=tt.empty(2, dtype=tt.int32, device=device))


@pytest.mark.parametrize("sizes", [(), (3,)])
def test_an_output_elsewhere_is_refused(sizes):
    with pytest.raises(RuntimeError, match="Expected out tensor to have device cpu, but got meta"):
        tt.logsumexp(tt.ones(sizes), 0, out=tt.empty((), device="meta"))


@pytest.mark.parametrize("name", ["eq", "fmod", "copysign", "rsub"])
def test_a_number_stands_for_no_first_tensor(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' .* must be Tensor, not int"):
        getattr(tt, name)(3, tt.ones(2))
    assert getattr(tt, name)(tt.ones(2), 3).shape == (2,)


@pytest.mark.parametrize("name", ["remainder", "xlogy"])
def test_one_of_two_operands_is_a_tensor(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' .* must be Tensor, not int"):
        getattr(tt, name)(3, 2)
    assert getattr(tt, name)(3, tt.ones(2)).shape == (2,)


def test_writes_without_a_derivative_cut_the_history():
    leaf = tt.ones(2, requires_grad=True)
    for write in (lambda x: x.eq_(1.0), lambda x: x.heaviside_(tt.ones(2))):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            write(leaf)
    assert leaf.tolist() == [1, 1]
    compared = leaf * 2
    compared.eq_(2.0)
    compared.sum().backward()
    assert leaf.grad.tolist() == [0, 0]
    stepped = leaf * 2
    stepped.heaviside_(tt.ones(2))
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside_ is not implemented"):
        stepped.sum().backward()


def test_a_stack_is_not_written_into_what_is_stacked():
    x = tt.ones(2, 2, 2)
    with pytest.raises(RuntimeError, match=SHARES):
        tt.stack([x[0], x[1]], out=x)


@pytest.mark.parametrize("name", ["clamp", "clamp_min", "clamp_max"])
def test_bounds_that_are_numbers_ask_for_the_promoted_dtype(name):
    bounds = (0, 1) if name == "clamp" else (1,)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        getattr(tt, name)(tt.ones(2), *bounds, out=tt.ones(2, dtype=tt.float64))
    whole = tt.ones(2, dtype=tt.int64)
    assert tt.clamp(whole, -0.5, 1, out=tt.zeros(2)).tolist() == [1.0, 1.0]
    assert tt.clamp(whole, whole, whole, out=tt.zeros(2, dtype=tt.uint8)).tolist() == [1, 1]


@pytest.mark.parametrize("sizes", [(2, 0), (0, 2), (2, 0, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_cat_into_one_of_its_operands_is_refused_without_elements_too(sizes, dim):
    a = tt.empty(sizes)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        tt.cat([a, a], dim, out=a)
    assert a.shape == sizes
    flat = tt.empty(0)
    assert tt.cat([flat, flat], out=flat) is flat


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda out: tt.linalg.cond(EYE, out=out), "torch.linalg.cond: Expected result"),
        (lambda out: tt.linalg.pinv(EYE, out=out), "torch.linalg.pinv: Expected result"),
        (lambda out: tt.linalg.eig(EYE, out=(out, out)), "torch.linalg.eig: Expected eigenvalues"),
        (
            lambda out: tt.linalg.eig(EYE, out=(tt.empty(0, dtype=tt.complex64), out)),
            "torch.linalg.eig: Expected eigenvectors",
        ),
        (lambda out: tt.linalg.lstsq(EYE, EYE, out=(out,) * 4), "torch.linalg.lstsq: Expected solution"),
        (lambda out: tt.cholesky(EYE, out=out), "cholesky: Expected result"),
        (lambda out: tt.geqrf(EYE, out=(out, out)), "geqrf: Expected a"),
        (lambda out: tt.linalg.eigvals(EYE, out=out), "torch.linalg.eigvals: Expected eigenvalues"),
    ],
)
def test_linalg_names_the_output_it_cannot_cast_to(call: Callable[[tt.Tensor], object], text: str) -> None:
    with pytest.raises(RuntimeError, match=f"{text} to be safely castable from .*Float dtype.* dtype Int"):
        call(tt.empty(0, dtype=tt.int32))


@pytest.mark.parametrize("name", ("cholesky", "inv", "det", "eigvals", "svdvals", "lu"))
def test_linalg_refuses_an_output_that_requires_grad(name: str) -> None:
    function = getattr(tt.linalg, name)
    made = function(EYE)
    results = made if isinstance(made, tuple) else (made,)
    last = results[-1]
    outs = (*(tt.empty_like(r) for r in results[:-1]), tt.empty_like(last).requires_grad_())
    with pytest.raises(RuntimeError, match=r"functions with out=... arguments don't support automatic"):
        function(EYE, out=outs if isinstance(made, tuple) else outs[0])
    with tt.no_grad():
        function(EYE, out=outs if isinstance(made, tuple) else outs[0])
    assert outs[-1].tolist() == last.tolist()


def test_linalg_matmul_writes_to_an_output_of_its_dtype_only() -> None:
    with pytest.raises(
        RuntimeError, match=r"Expected out tensor to have dtype .*float32, but got .*float64 instead"
    ):
        tt.linalg.matmul(EYE, EYE, out=tt.empty(0, dtype=tt.float64))
