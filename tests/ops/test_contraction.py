"""Sums of products: einsum against NumPy's, tensordot, chains, Kronecker and cross products, covariances."""

import numpy as np
import pytest

import triten as tt

EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    ("i,i", (3,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i->i...", (2, 3, 4)),
    ("b...,b...->b...", (2, 3), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ijk,jil,kl->", (2, 3, 4), (3, 2, 5), (4, 5)),
    ("aij,ajk->ik", (2, 3, 4), (2, 4, 5)),
    ("ij,ij->", (3, 4), (1, 4)),
    ("zbc,zcd,z->bd", (2, 3, 4), (2, 4, 5), (2,)),
]


@pytest.mark.parametrize("equation", EQUATIONS, ids=[e[0] for e in EQUATIONS])
def test_einsum(rng: np.random.Generator, equation: tuple, device: str) -> None:
    text, *sizes = equation
    operands = [rng.standard_normal(each) for each in sizes]
    given = [tt.from_numpy(x).to(device) for x in operands]
    expected = np.einsum(text, *operands)
    np.testing.assert_allclose(tt.einsum(text, *given).cpu().numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(tt.einsum(text, given).cpu().numpy(), expected, atol=1e-12)


def test_einsum_in_the_order_of_a_path(rng: np.random.Generator) -> None:
    operands = [rng.standard_normal(sizes) for sizes in ((2, 3), (3, 4), (4, 5))]
    given = [tt.from_numpy(x) for x in operands]
    expected = np.einsum("ij,jk,kl->il", *operands)
    for path in ([0, 1, 0, 1], [1, 2, 0, 1], [0, 2, 0, 1]):
        result = tt.ops.aten.einsum("ij,jk,kl->il", given, path=path)
        np.testing.assert_allclose(result.numpy(), expected, atol=1e-12)


def test_einsum_of_sublists(rng: np.random.Generator) -> None:
    x = tt.from_numpy(rng.standard_normal((2, 3)))
    assert tt.allclose(tt.einsum(x, [0, 1], [1, 0]), x.t())
    assert tt.allclose(tt.einsum(x, [..., 30], [30]), x.sum(0))


@pytest.mark.parametrize(
    ("equation", "sizes", "words"),
    [
        ("ij,jk", [(2, 3)], "fewer operands"),
        ("ij", [(2, 3), (3,)], "more operands"),
        ("ijk", [(2, 3)], "does not match the number of dimensions"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1"),
        ("i1", [(2, 3)], "invalid subscript"),
        ("ij->ii", [(2, 3)], "more than once in the output"),
        ("ij->k", [(2, 3)], "does not appear in the equation"),
        ("i.j", [(2, 3)], "not part of any ellipsis"),
        ("......i", [(2,)], "ellipsis was already found"),
        (". ..", [(2,)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("... ...", [(2,)], "found '.' for operand 0 for which an ellipsis was already found"),
        ("ii", [(2, 3)], "repeated for operand 0"),
        ("i,1", [(2,), (2,)], "invalid subscript given at index 2"),
        ("i->1", [(2,)], "invalid subscript given at index 3"),
        ("i....", [(2,)], "found '.' for operand 0 for which an ellipsis was already found"),
        ("i->... .", [(2,)], r"found '.' for output but an ellipsis \(...\) was already found"),
        ("i->..", [(2,)], r"found '.' for output that is not part of any ellipsis \(...\)"),
        (
            "...i,...i",
            [(2, 4, 3), (5, 3)],
            "dimension 0 covered by ellipsis in operand 1 has size 5.*with size 4",
        ),
    ],
)
def test_einsum_refuses(equation: str, sizes: list, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        tt.einsum(equation, *[tt.ones(each) for each in sizes])


def test_einsum_gradient(rng: np.random.Generator) -> None:
    a, b = (tt.from_numpy(rng.standard_normal(sizes)).requires_grad_() for sizes in ((2, 3, 4), (2, 4)))
    assert tt.autograd.gradcheck(lambda a, b: tt.einsum("bij,bj->i", a, b), (a, b))


@pytest.mark.parametrize(
    ("dims", "other"),
    [(0, (3,)), (1, (4, 5)), (2, (3, 4, 2)), (([1], [0]), (3, 2)), (([0, 2], [2, 0]), (4, 5, 4))],
)
def test_tensordot(rng: np.random.Generator, dims: object, other: tuple, device: str) -> None:
    a, b = rng.standard_normal((4, 3, 4)), rng.standard_normal(other)
    given = [tt.from_numpy(x).to(device) for x in (a, b)]
    expected = np.tensordot(a, b, dims)
    np.testing.assert_allclose(tt.tensordot(*given, dims=dims).cpu().numpy(), expected, atol=1e-12)


def test_tensordot_refuses() -> None:
    a = tt.ones(2, 3)
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        tt.tensordot(a, a, dims=1)
    with pytest.raises(RuntimeError, match="dims >= 0"):
        tt.tensordot(a, a, dims=-1)
    with pytest.raises(RuntimeError, match="same dtype"):
        tt.tensordot(a, a.double(), dims=0)


def test_products(rng: np.random.Generator, device: str) -> None:
    a, b = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
    x, y = (tt.from_numpy(each).to(device) for each in (a, b))
    np.testing.assert_allclose(tt.kron(x, y).cpu().numpy(), np.kron(a, b))
    np.testing.assert_allclose(tt.inner(x, x).cpu().numpy(), np.inner(a, a), atol=1e-12)
    np.testing.assert_allclose(x.mm(y).trace().item(), np.trace(a @ b), atol=1e-12)
    np.testing.assert_allclose(tt.linalg.vecdot(x, x).cpu().numpy(), (a * a).sum(-1))
    np.testing.assert_allclose(tt.linalg.multi_dot([x, y, x]).cpu().numpy(), a @ b @ a, atol=1e-12)
    np.testing.assert_allclose(tt.chain_matmul(x, y, x).cpu().numpy(), a @ b @ a, atol=1e-12)
    np.testing.assert_allclose(tt.cross(x, x.flip(0)).cpu().numpy(), np.cross(a, a[::-1]), atol=1e-12)
    np.testing.assert_allclose(
        tt.addr(x, y[0], y[:, 0], beta=2, alpha=3).cpu().numpy(), 2 * a + 3 * np.outer(b[0], b[:, 0])
    )


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        ([tt.ones(2), tt.ones(3, 2)], r"tensors 0 and 1 with shapes \[2\] and \[3, 2\] cannot be multiplied"),
        (
            [tt.ones(2, 2), tt.ones(2, 2), tt.ones(2).double()],
            "same dtype but tensor 0 is .*32 and tensor 2 .*64",
        ),
    ],
)
def test_multi_dot_refuses(operands: list[tt.Tensor], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        tt.linalg.multi_dot(operands)


def test_addr_leaves_out_what_beta_zero_multiplies() -> None:
    result = tt.addr(tt.full((2, 2), float("nan")), tt.ones(2), tt.ones(2), beta=0)
    assert result.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("correction", [0, 1])
def test_covariances(rng: np.random.Generator, correction: int, device: str) -> None:
    x = rng.standard_normal((3, 10))
    counts, weights = rng.integers(1, 4, 10), rng.random(10)
    given = tt.from_numpy(x).to(device)
    f, a = tt.from_numpy(counts).to(device), tt.from_numpy(weights).to(device)
    for fweights, aweights in ((None, None), (f, None), (None, a), (f, a)):
        expected = np.cov(
            x,
            ddof=correction,
            fweights=None if fweights is None else counts,
            aweights=None if aweights is None else weights,
        )
        result = tt.cov(given, correction=correction, fweights=fweights, aweights=aweights)
        np.testing.assert_allclose(result.cpu().numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(tt.corrcoef(given).cpu().numpy(), np.corrcoef(x), atol=1e-12)


def test_covariances_refuse_bad_weights() -> None:
    x = tt.ones(2, 3)
    with pytest.raises(RuntimeError, match="fweights to have integral dtype"):
        tt.cov(x, fweights=tt.ones(3))
    with pytest.raises(RuntimeError, match="same numel"):
        tt.cov(x, aweights=tt.ones(2))
    with pytest.raises(RuntimeError, match="cannot be negative"):
        tt.cov(x, aweights=-tt.ones(3))


def test_a_product_lies_as_the_output_of_the_equation_does():
    a, b = tt.ones(4, 3), tt.ones(5, 3)
    assert tt.einsum("ij,kj->ki", a, b).stride() == (4, 1)
    assert tt.einsum("ij,kj->ik", a, b).stride() == (5, 1)


def test_a_label_of_one_element_is_not_summed():
    row = tt.tensor([[-4, -1, 4, 5]], dtype=tt.int32)
    assert tt.einsum("ij,kj->k", row, row).tolist() == [58]
    assert tt.einsum("ij,kj->", row, row).dtype is tt.int32


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2), (0.3, 0.7)])
def test_addr_rounds_each_product_and_sum(device, dtype, beta, alpha):
    rng = np.random.default_rng(0)
    m, a, b = (tt.from_numpy(rng.uniform(-2, 2, s)).to(dtype) for s in ((5, 4), (5,), (4,)))

    def rounded(x):
        return x.to(dtype).double()

    scales = [rounded(tt.tensor(s, dtype=tt.float64)) for s in (beta, alpha)]
    outer = rounded(rounded(scales[1] * a.double())[:, None] * b.double())
    expected = rounded(rounded(scales[0] * m.double()) + outer)
    found = tt.addr(m.to(device), a.to(device), b.to(device), beta=beta, alpha=alpha)
    assert found.dtype is dtype and found.double().tolist() == expected.tolist()
