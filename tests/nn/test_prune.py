"""Pruning beside PyTorch's: its masks for the same weights, which have no ties, and its errors."""

import copy

import pytest

import triten as tt
from triten.nn.utils import prune

WEIGHT = [[-5.0, 4.5, -3.0, 4.0], [-1.0, -0.0, 1.5, -4.25], [3.25, -4.75, 5.5, -12.0]]
ONES = [1, 1, 1, 1]


@pytest.fixture
def module(device):
    made = tt.nn.Linear(4, 3, device=device)
    made.weight.data = tt.tensor(WEIGHT, device=device)
    made.bias.data = tt.tensor([0.5, -2.0, 1.25], device=device)
    return made


def test_the_least_elements_are_pruned(module):
    assert prune.l1_unstructured(module, "weight", 3) is module
    assert module.weight_mask.tolist() == [ONES, [0, 0, 0, 1], ONES]
    assert module.weight.tolist() == [WEIGHT[0], [-0.0, -0.0, 0.0, -4.25], WEIGHT[2]]
    assert [name for name, _ in module.named_parameters()] == ["bias", "weight_orig"]
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert prune.is_pruned(module) and prune.is_pruned(tt.nn.Sequential(module))


@pytest.mark.parametrize(("amount", "zeros"), [(0, 0), (0.3, 4), (0.5, 6), (12, 12), (1.0, 12), (0.04, 0)])
def test_amounts(module, amount, zeros):
    prune.l1_unstructured(module, "weight", amount)
    assert (module.weight_mask == 0).sum().item() == zeros


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (13, ValueError, "amount=13 should be smaller than the number of parameters to prune=12"),
        (-1, ValueError, r"amount=-1 should either be a float in the range \[0, 1\] or a non-negative"),
        (1.5, ValueError, r"amount=1\.5 should either be"),
        ("3", TypeError, "Invalid type for amount: 3"),
        (None, TypeError, "Invalid type for amount: None"),
    ],
)
def test_amounts_that_do_not_fit_leave_the_module_alone(module, amount, error, message):
    weight = module.weight
    for _ in range(2):
        with pytest.raises(error, match=message):
            prune.l1_unstructured(module, "weight", amount)
    assert module.weight is weight and not prune.is_pruned(module)
    assert list(module.state_dict()) == ["weight", "bias"]


def test_slices_are_pruned_by_their_norm(module):
    prune.ln_structured(module, "weight", 1, n=2, dim=0)
    assert module.weight_mask.tolist() == [ONES, [0] * 4, ONES]
    prune.ln_structured(module, "weight", 2, n=1, dim=-1)  # the columns' sums are 9.25, 9.25, 10 and 20.25
    assert module.weight_mask.tolist() == [[0, 0, 1, 1], [0] * 4, [0, 0, 1, 1]]


@pytest.mark.parametrize("n", [1, 2, float("inf"), 3.5])
def test_orders_of_norms(module, n):
    prune.ln_structured(module, "weight", 1, n, 0)
    assert module.weight_mask.sum(1).tolist() == [4, 0, 4]


def test_structured_pruning_needs_dimensions(module):
    with pytest.raises(
        ValueError, match=r"can only be applied to multidimensional tensors\. Found .* with 1 dims"
    ):
        prune.ln_structured(module, "bias", 1, 2, 0)
    with pytest.raises(IndexError, match="Invalid index 2 for tensor of size"):
        prune.random_structured(module, "weight", 1, 2)
    with pytest.raises(AttributeError, match="foo"):
        prune.identity(module, "foo")


def test_pruning_again_chooses_among_what_is_left(module):
    prune.l1_unstructured(module, "weight", 3)
    prune.ln_structured(module, "weight", 1, n=2, dim=1)  # the first column: sqrt(25 + 1 + 3.25 ** 2)
    assert module.weight_mask.tolist() == [[0, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1]]
    prune.l1_unstructured(module, "weight", 0.4)  # of 7, so 3: the 3, 4 and 4.25
    (hook,) = module._forward_pre_hooks.values()
    assert [type(each).__name__ for each in hook] == ["L1Unstructured", "LnStructured", "L1Unstructured"]
    assert len(hook) == 3 and hook[1].dim == 1 and hook._tensor_name == "weight"
    assert module.weight_mask.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 1]]


def test_chance_prunes_as_many(module):
    tt.manual_seed(0)
    prune.random_unstructured(module, "weight", 5)
    assert module.weight_mask.sum().item() == 7
    prune.random_unstructured(module, "weight", 3)
    assert module.weight_mask.sum().item() == 4


def test_chance_prunes_slices(module):
    prune.random_structured(module, "weight", 2, dim=1)
    assert sorted(module.weight_mask.sum(0).tolist()) == [0, 0, 3, 3]


def test_gradients_reach_what_is_left(module):
    prune.l1_unstructured(module, "weight", 6)
    module(tt.ones(2, 4, device=module.weight.device)).sum().backward()
    assert module.weight_orig.grad.tolist() == (2 * module.weight_mask).tolist()
    with tt.no_grad():
        module.weight_orig += 1.0
    module(tt.ones(1, 4, device=module.weight_orig.device))
    assert tt.equal(module.weight, module.weight_orig * module.weight_mask)


def test_removing_leaves_zeros_in_the_same_parameter(module):
    original = module.weight
    prune.l1_unstructured(module, "weight", 3)
    prune.l1_unstructured(module, "weight", 1)
    assert prune.remove(module, "weight") is module
    assert module.weight is original and isinstance(module.weight, tt.nn.Parameter)
    assert module.weight.tolist() == [[-5.0, 4.5, -0.0, 4.0], [-0.0, -0.0, 0.0, -4.25], WEIGHT[2]]
    assert sorted(module.state_dict()) == ["bias", "weight"] and not module._forward_pre_hooks
    for name in ("weight", "bias"):
        with pytest.raises(ValueError, match=f"Parameter '{name}' .* has to be pruned before"):
            prune.remove(module, name)


def test_masks_of_ones_own(module):
    mask = tt.tensor([[1, 0, 1, 0]] * 3, device=module.weight.device)
    prune.custom_from_mask(module, "weight", mask)
    assert module.weight_mask.tolist() == mask.tolist() and module.weight_mask.dtype is tt.float32
    with pytest.raises(AssertionError, match=r"default_mask shape .* must match self\.mask shape"):
        prune.custom_from_mask(module, "bias", mask)


def test_scores_instead_of_the_elements(module):
    where = module.weight.device
    prune.l1_unstructured(
        module, "weight", 2, importance_scores=tt.arange(1.0, 13.0, device=where).view(3, 4)
    )
    assert module.weight_mask.tolist() == [[0, 0, 1, 1], ONES, ONES]
    with pytest.raises(
        AssertionError, match="importance_scores should have the same shape as parameter bias"
    ):
        prune.l1_unstructured(module, "bias", 1, importance_scores=tt.ones(2, device=where))


def test_parameters_together(module, device):
    other = tt.nn.Linear(4, 3, device=device)
    other.weight.data = 2.2 * tt.tensor(WEIGHT, device=device)
    chosen = [(module, "weight"), (other, "weight"), (module, "bias")]
    prune.global_unstructured(chosen, prune.L1Unstructured, amount=8)
    # 0, 0, 0.5, 1, 1.25, 1.5, 2 and 2.2
    assert module.weight_mask.tolist() == [ONES, [0, 0, 0, 1], ONES]
    assert other.weight_mask.tolist() == [ONES, [0, 0, 1, 1], ONES]
    assert module.bias_mask.tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured([(module, "weight")], prune.LnStructured, amount=9, n=2)
    with pytest.raises(TypeError, match="importance_scores must be of type dict"):
        prune.global_unstructured([(module, "weight")], prune.L1Unstructured, 3, amount=9)


def test_parameters_together_keep_what_was_pruned(module):
    prune.l1_unstructured(module, "weight", 3)
    prune.global_unstructured([(module, "weight"), (module, "bias")], prune.L1Unstructured, amount=3)
    assert module.bias_mask.tolist() == [0, 0, 0]
    assert module.weight_mask.tolist() == [ONES, [0, 0, 0, 1], ONES]


def test_tensors_without_a_module(device):
    method = prune.L1Unstructured(3)
    t = tt.arange(6.0, device=device)
    assert method.prune(t).tolist() == [0, 0, 0, 3, 4, 5]
    assert method.prune(t, importance_scores=tt.flip(t, (0,))).tolist() == [0, 1, 2, 0, 0, 0]
    assert method.compute_mask(t, tt.ones(6, device=device)).tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(AssertionError, match="same shape as tensor t"):
        method.prune(t, importance_scores=tt.ones(2, device=device))


def test_containers_are_of_one_parameter():
    first, second = prune.Identity(), prune.Identity()
    first._tensor_name, second._tensor_name = "weight", "bias"
    container = prune.PruningContainer(first)
    with pytest.raises(ValueError, match=r"acting on the parameter named 'weight' .* Found 'bias'"):
        container.add_pruning_method(second)
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        container.add_pruning_method(3)
    assert list(container) == [first]


class Unknown(prune.BasePruningMethod):
    PRUNING_TYPE = "weird"

    def compute_mask(self, t, default_mask):
        return default_mask


def test_a_method_that_fails_leaves_the_former_one(module):
    prune.l1_unstructured(module, "weight", 3)
    mask = module.weight_mask.clone()
    with pytest.raises(ValueError, match="Unrecognized PRUNING_TYPE weird"):
        Unknown.apply(module, "weight")
    assert tt.equal(module.weight_mask, mask) and len(module._forward_pre_hooks) == 1
    with pytest.raises(TypeError, match="abstract"):
        prune.BasePruningMethod()


def test_a_checkpoint_goes_into_a_pruned_module(module):
    where = module.weight.device
    prune.l1_unstructured(module, "weight", 3)
    other = prune.identity(tt.nn.Linear(4, 3, device=where), "weight")
    other.load_state_dict(module.state_dict())
    other(tt.ones(1, 4, device=where))
    assert tt.equal(other.weight, module.weight)
    with pytest.raises(RuntimeError, match="deepcopy protocol"):
        copy.deepcopy(module)


def test_weights_of_recurrent_layers_are_pruned():
    lstm = prune.l1_unstructured(tt.nn.LSTM(2, 3), "weight_ih_l0", 23)
    assert lstm(tt.ones(1, 1, 2))[0].shape == (1, 1, 3)
    assert (lstm.weight_ih_l0 == 0).sum().item() == 23


class Smallest(prune.BasePruningMethod):
    """Prune slices of the smallest maximum, with the checks that PyTorch's pruning methods call."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim):
        prune._validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        prune._validate_structured_pruning(t)
        prune._validate_pruning_dim(t, self.dim)
        count = prune._compute_nparams_toprune(self.amount, t.shape[self.dim])
        prune._validate_pruning_amount(count, t.shape[self.dim])
        mask = default_mask.clone()
        mask[t.amax(1).topk(count, largest=False)[1]] = 0
        return mask


def test_a_method_of_a_library_calls_the_checks(module):
    Smallest.apply(module, "weight", 0.4, 0)
    assert module.weight_mask.tolist() == [ONES, [0] * 4, ONES]
    with pytest.raises(
        ValueError, match="amount=4 should be smaller than the number of parameters to prune=2"
    ):
        Smallest.apply(module, "weight", 4, 0)
    with pytest.raises(IndexError, match="Invalid index 2 for tensor of size"):
        Smallest.apply(module, "weight", 1, 2)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional"):
        Smallest.apply(module, "bias", 1, 0)
    with pytest.raises(ValueError, match=r"amount=1\.5 should either be a float"):
        Smallest(1.5, 0)
    with pytest.raises(TypeError, match="Invalid type for amount: half"):
        Smallest("half", 0)


def test_amounts_are_counts_or_fractions():
    cases = [(0, 15), (10, 15), (1, 15), (1.0, 15), (0.4, 17)]
    assert [prune._compute_nparams_toprune(*case) for case in cases] == [0, 10, 1, 15, 7]
