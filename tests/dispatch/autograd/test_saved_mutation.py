"""Writes into tensors that a graph has saved."""

import gc

import pytest

import triten as tt
from triten.autograd.graph import allow_mutation_on_saved_tensors

WRITES = {
    "in place": lambda b: b.sin_(),
    "out": lambda b: tt.sin(b.detach(), out=b.detach()),
    "view": lambda b: b[1:].mul_(3.0),
    "index": lambda b: b.__setitem__(0, 7.0),
    "copy": lambda b: b.copy_(tt.zeros_like(b)),
    "foreach": lambda b: tt._foreach_mul_([b.detach()], 2.0),
    "twice": lambda b: b.add_(1.0).mul_(2.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_backward_gets_what_was_saved(device, name):
    a = tt.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        b = a.clone()
        out = (b**2).sum() + (b * b.exp()).sum()
        expected = tt.autograd.grad(out, a, retain_graph=True)[0]
        WRITES[name](b)
        out.backward()
    assert tt.equal(a.grad, expected)
    b = a.clone()
    out = (b**2).sum()
    b.sin_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_results_that_are_saved_are_kept_too(device):
    a = tt.ones(3, device=device, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        b = a.exp()
        out = b.sum()
        with tt.no_grad():
            b.zero_()
        out.backward()
    assert tt.allclose(a.grad, a.exp())


def test_nothing_is_cloned_without_a_write():
    a = tt.ones(3, requires_grad=True)
    with allow_mutation_on_saved_tensors() as saved:
        b = a.clone()
        out = (b**2).sum()
        tt.zeros(3).add_(1.0)
        assert not any(each.is_clone for several in saved._of_storage.values() for each in several)
        b.mul_(2.0)
        del out
        gc.collect()
        b.mul_(2.0)
    assert not saved._of_storage


def test_blocks_are_not_nested_and_backward_stays_inside():
    a = tt.ones(3, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        out = (a.clone() ** 2).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"), allow_mutation_on_saved_tensors():
            pass
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()
    with allow_mutation_on_saved_tensors():
        (a.clone() ** 2).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0, 2.0]
