"""Subclasses of list and tuple serve as lists of tensors, at the first call and at later ones, in every layer."""

from collections import namedtuple

import pytest

import triten as tt
from triten.fx.experimental.proxy_tensor import make_fx
from triten.fx.immutable_collections import immutable_list


class Listed(list):
    """List of a program's own class."""


class Tupled(tuple):
    __slots__ = ()


Pair = namedtuple("Pair", "a b")


@pytest.fixture(
    params=[Listed, Tupled, immutable_list, lambda pair: Pair(*pair)],
    ids=["list", "tuple", "immutable_list", "namedtuple"],
)
def kind(request):
    return request.param


def test_each_shape_is_planned_by_itself(kind):
    for n in (1, 2, 3):
        x = tt.arange(4.0 * n).reshape(n, 4)
        assert tt.equal(tt.cat(kind([x, x])), tt.cat([x, x]))
        assert tt.equal(tt.stack(kind([x, x]), 1), tt.stack([x, x], 1))
        assert tt.equal(tt.linalg.multi_dot(kind([x, x.T])), x @ x.T)


@pytest.mark.parametrize("call", [tt.cat, tt.stack, tt.hstack, lambda pair: tt.einsum("i,i->", pair)])
def test_gradients(kind, call):
    grads = []
    for given in (list, kind):
        x = tt.tensor([1.0, 2.0], requires_grad=True)
        call(given([x, x * 3])).square().sum().backward()
        grads.append(x.grad)
    assert tt.equal(*grads)


def joined(kind):
    return lambda x: tt.cat(kind([x, x * 2]))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: tt.func.vmap(f)(tt.ones(3, 2)),
        lambda f: tt.func.jvp(f, (tt.ones(2),), (tt.ones(2),))[1],
        lambda f: tt.func.jacrev(f)(tt.ones(2)),
        lambda f: tt.func.jacfwd(f)(tt.ones(2)),
        lambda f: tt.func.functionalize(f)(tt.ones(2)),
        lambda f: make_fx(f)(tt.ones(2))(tt.ones(2)),
        lambda f: tt.compile(f)(tt.ones(2)),
    ],
    ids=["vmap", "jvp", "jacrev", "jacfwd", "functionalize", "make_fx", "compile"],
)
def test_transforms(kind, transform):
    assert tt.equal(transform(joined(kind)), transform(joined(list)))


def test_autocast_and_names(kind):
    with tt.autocast("cpu", dtype=tt.bfloat16):
        mixed = tt.cat(kind([tt.ones(2), tt.ones(2, dtype=tt.bfloat16)]))
        assert mixed.dtype is tt.float32
        assert tt.linalg.multi_dot(kind([tt.ones(2, 2), tt.ones(2, 2)])).dtype is tt.bfloat16
    x = tt.ones(2).rename("n")
    assert tt.cat(kind([x, x])).names == ("n",)


def test_an_output_beside_its_inputs(kind):
    x, out = tt.ones(2), tt.empty(4)
    assert tt.cat(kind([x, x + 1]), out=out) is out and out.tolist() == [1, 1, 2, 2]
    with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
        tt.cat(kind([x, out[:2]]), out=out)
