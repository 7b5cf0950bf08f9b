"""`tt.utils.hooks`: one kind of handle for all hooks; `tt.utils.swap_tensors`."""

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict

import pytest

import triten as tt
from triten import nn
from triten.utils import hooks


def test_a_handle_removes_a_number_from_all_its_dictionaries():
    table, flags, others = OrderedDict(), OrderedDict(), {}
    handle = hooks.RemovableHandle(table, extra_dict=[flags, others])
    table[handle.id], flags[handle.id], others[handle.id] = print, True, True
    with handle:
        pass
    assert not table and not flags and not others
    handle.remove()


def test_numbers_are_never_given_twice():
    table = OrderedDict()
    first = hooks.RemovableHandle(table)
    state = pickle.loads(pickle.dumps(first))
    assert state.id == first.id
    assert hooks.RemovableHandle(table).id > first.id


def test_a_dictionary_is_held_weakly_where_it_can_be():
    table = OrderedDict()
    handle = hooks.RemovableHandle(table)
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None
    handle.remove()
    assert copy.deepcopy(handle).id == handle.id


def test_every_hook_has_this_handle():
    x = tt.ones(2, requires_grad=True)
    layer = nn.Linear(2, 2)
    optimizer = tt.optim.SGD(layer.parameters(), lr=1.0)
    handles = [
        x.register_hook(lambda grad: None),
        (x * 2).grad_fn.register_hook(lambda *grads: None),
        layer.register_forward_hook(lambda *given: None, always_call=True),
        optimizer.register_step_pre_hook(lambda *given: None),
    ]
    assert all(isinstance(handle, hooks.RemovableHandle) for handle in handles)
    assert len({handle.id for handle in handles}) == 4
    handles[2].remove()
    assert not layer._forward_hooks and not layer._forward_hooks_always_called


def test_hooks_that_saving_loses_are_warned_of():
    x = tt.ones(2, requires_grad=True)
    hooks.warn_if_has_hooks(x)
    x.register_hook(hooks.unserializable_hook(lambda grad: grad))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hooks.warn_if_has_hooks(x)
    x.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        hooks.warn_if_has_hooks(x)


def test_a_backward_hook_around_a_call():
    seen = []
    around = hooks.BackwardHook("module", [lambda *given: seen.append(given)], [])
    x = tt.ones(2, requires_grad=True)
    (given,) = around.setup_input_hook((x,))
    around.setup_output_hook(given * 3).sum().backward()
    module, grad_input, grad_output = seen[0]
    assert module == "module" and grad_input[0].tolist() == [3, 3] and grad_output[0].tolist() == [1, 1]


def test_swapped_tensors_keep_their_names_and_exchange_all_else(device):
    a = tt.ones(2, device=device, requires_grad=True)
    b = tt.zeros(3, device=device, dtype=tt.float64, requires_grad=True)
    (a * 2).sum().backward()
    seen = []
    handle = b.register_hook(lambda grad: seen.append(grad.tolist()))
    tt.utils.swap_tensors(a, b)
    assert (a.dtype, a.tolist(), a.grad) == (tt.float64, [0, 0, 0], None)
    assert (b.dtype, b.tolist(), b.grad.tolist()) == (tt.float32, [1, 1], [2, 2])
    (a * 2).sum().backward()
    (b * 3).sum().backward()
    assert a.grad.tolist() == [2, 2, 2] and b.grad.tolist() == [5, 5] and seen == [[2, 2, 2]]
    handle.remove()
    a.sum().backward()
    assert len(seen) == 1


def test_parameters_are_swapped_and_classes_of_other_slots_are_not():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    tt.utils.swap_tensors(weight, nn.Parameter(tt.zeros(2, 2, dtype=tt.float64)))
    assert layer.weight is weight and weight.dtype == tt.float64 and isinstance(weight, nn.Parameter)
    slotted = tt.ones(1).as_subclass(type("Slotted", (tt.Tensor,), {"__slots__": ("more",)}))
    with pytest.raises(RuntimeError, match="Cannot swap t1 and t2 if they have different slots"):
        tt.utils.swap_tensors(slotted, weight)
    assert (
        type(slotted).__name__ == "Slotted" and slotted.tolist() == [1] and isinstance(weight, nn.Parameter)
    )
    plain = tt.ones(1)
    tt.utils.swap_tensors(plain, weight)
    assert type(weight) is tt.Tensor and weight.tolist() == [1] and isinstance(plain, nn.Parameter)


def test_a_graph_of_a_swapped_leaf_is_refused():
    x = tt.ones(2, requires_grad=True)
    y = x * 2
    tt.utils.swap_tensors(x, tt.zeros(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        y.sum().backward()


def test_weakly_referenced_tensors_are_not_swapped():
    x = tt.ones(2)
    reference = weakref.ref(x)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref associated with it"):
        tt.utils.swap_tensors(x, tt.ones(2))
    assert reference() is x
