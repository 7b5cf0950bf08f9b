"""Checkpoints that keep the results of chosen operators."""

import functools
from collections import Counter

import pytest

import triten as tt
from triten.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    GraphExecGroup,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
)
from triten.utils.selective_checkpoint import RecordedOperators

mm = tt.ops.aten.mm.default


def function(x, y):
    return (((x @ y).sin() @ y).exp() * x).sum()


@pytest.fixture
def operands(device):
    x = tt.arange(4.0, device=device).view(2, 2) / 5
    return (x + 0.1).requires_grad_(), (x - 0.3).requires_grad_()


def gradients(operands, **options):
    x, y = operands
    made = checkpoint(function, x, y, use_reentrant=False, **options)
    with RecordedOperators() as seen:
        found = tt.autograd.grad(made, operands)
    return found, Counter(name.partition("[")[0] for name in seen.names)


def policy(ctx, op, *args, **kwargs):
    assert isinstance(ctx, SelectiveCheckpointContext) and not ctx.is_recompute
    assert isinstance(ctx.op_output, tt.Tensor)
    return CheckpointPolicy.MUST_SAVE if op is mm else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("chosen", [[mm], policy, lambda ctx, op, *args: op is mm])
def test_what_is_kept_is_not_computed_again(operands, chosen):
    expected, plain = gradients(operands)
    context = functools.partial(create_selective_checkpoint_contexts, chosen)
    found, selective = gradients(operands, context_fn=context)
    for one, other in zip(found, expected, strict=True):
        assert tt.equal(one, other)
    assert selective["aten.mm.default"] == plain["aten.mm.default"] - 2
    assert selective["aten.sin.default"] == plain["aten.sin.default"] == 1


def test_backward_goes_through_it_once(operands):
    x, y = operands
    context = functools.partial(create_selective_checkpoint_contexts, [mm])
    made = checkpoint(function, x, y, use_reentrant=False, context_fn=context, early_stop=False)
    tt.autograd.grad(made, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        tt.autograd.grad(made, x)


def test_what_is_kept_may_not_change(operands):
    def changing(x, y):
        z = x @ y
        w = z.sin()
        z.mul_(2.0)
        return (w @ z.detach()).exp().sum()

    x, y = operands
    for allowed in (False, True):
        keep = functools.partial(
            create_selective_checkpoint_contexts, [mm], allow_cache_entry_mutation=allowed
        )
        made = checkpoint(changing, x, y, use_reentrant=False, context_fn=keep)
        if allowed:
            tt.autograd.grad(made, x)
        else:
            with pytest.raises(RuntimeError, match="selective activation checkpoint has been mutated"):
                tt.autograd.grad(made, x)


def test_a_second_call_that_differs_is_found(operands):
    x, y = operands
    calls = []

    def fickle(x, y):
        calls.append(None)
        return ((x @ y).sin() if len(calls) == 1 else ((x @ y).cos())).exp().sum()

    keep = functools.partial(create_selective_checkpoint_contexts, [mm])
    made = checkpoint(fickle, x, y, use_reentrant=False, context_fn=keep)
    with pytest.raises(RuntimeError, match=r"aten\.cos\.default encountered during backward but not found"):
        made.backward()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([tt.ops.aten.mm], ValueError, "Please update the OpOverloadPacket to a specific OpOverload"),
        ([tt.mm], ValueError, "Expected op in `op_list` to be an OpOverload but got"),
        (3, TypeError, "policy_fn_or_list must be either a function or a list of ops"),
    ],
)
def test_other_policies_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        create_selective_checkpoint_contexts(given)


def test_errors_list_the_operators_where_that_is_asked_for():
    def made(**options):
        calls = []

        def fickle(x):
            calls.append(None)
            return x.sin().exp() if len(calls) == 1 else x.exp()

        x = tt.ones(2, requires_grad=True)
        return checkpoint(fickle, x, use_reentrant=False, early_stop=False, **options).sum()

    with pytest.raises(CheckpointError) as caught:
        made(debug=True).backward()
    text = str(caught.value)
    assert "Operators of the original forward:\n  aten.sin.default[(2,)]" in text
    assert "Operators of the recomputation:\n  aten.exp.default[(2,)]" in text
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="Operators of the"):
        made().backward()
    with set_checkpoint_debug_enabled(False), pytest.raises(CheckpointError) as caught:
        made(debug=True).backward()
    assert "Operators of the" not in str(caught.value)
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        made(debug=True, context_fn=lambda: create_selective_checkpoint_contexts([mm]))


def test_backwards_of_a_group_compute_again_once():
    calls = []

    def three(x):
        calls.append(None)
        return x.sin(), x.cos(), x.exp()

    x = tt.ones(1, requires_grad=True)
    expected = (x.cos() - x.sin() + x.exp()).item()
    for group, count in ((True, 2), (False, 4)):
        calls.clear()
        x.grad = None
        parts = checkpoint(three, x, use_reentrant=False, early_stop=False)
        if group:
            with GraphExecGroup():
                for part in parts:
                    part.backward()
        else:
            for part in parts:
                part.backward()
        assert len(calls) == count and x.grad.item() == pytest.approx(expected)
    with (
        GraphExecGroup(),
        pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"),
        GraphExecGroup(),
    ):
        pass
