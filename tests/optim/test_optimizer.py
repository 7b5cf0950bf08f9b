"""The base of optimizers: groups, state, saving and loading, hooks, and what is refused."""

import copy
import pickle
import re

import pytest

import triten as tt

optim = tt.optim


def parameter(*values):
    return tt.nn.Parameter(tt.tensor(values or (1.0, 2.0)))


def stepped(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = tt.ones_like(p)
    optimizer.step()
    return optimizer


def test_groups_have_options_of_their_own():
    a, b, c = parameter(), parameter(), parameter()
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 0.5, "momentum": 0.9}], lr=0.25)
    optimizer.add_param_group({"params": iter([c]), "weight_decay": 1.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.25, 0.5, 0.25]
    stepped(optimizer)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0.75, 1.75], [0.5, 1.5], [0.5, 1.25])
    assert set(optimizer.state) == {b}
    optimizer.param_groups[0]["lr"] = 0.0
    stepped(optimizer)
    assert a.tolist() == [0.75, 1.75]


def test_named_parameters_keep_their_names():
    net = tt.nn.Linear(2, 1)
    optimizer = optim.SGD(net.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("w", parameter()), parameter()])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD(p), TypeError, "should be an iterable of Tensors or dicts, but got Tensor"),
        (lambda p: optim.SGD([3]), TypeError, "can only optimize Tensors, but one of the params is int"),
        (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (
            lambda p: optim.SGD([{"params": p}, {"params": [("w", parameter())]}]),
            ValueError,
            "with/without names",
        ),
        (lambda p: optim.SGD([{"params": p}, {"params": p}]), ValueError, "in more than one parameter group"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda p: optim.SGD([{"params": p}, {"lr": 1}]), KeyError, "params"),
        (lambda p: optim.SGD([{"params": p}, 3]), TypeError, "param_group must be a dict"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], lr=float("nan")), ValueError, "Invalid learning rate: nan"),
        (lambda p: optim.SGD([p], lr=tt.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda p: optim.SGD([p], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.SGD([p], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda p: optim.SGD([p], fused=True, differentiable=True), RuntimeError, "does not support"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.Adam([p], betas=(0.9, -1)), ValueError, "Invalid beta parameter at index 1: -1"),
        (lambda p: optim.AdamW([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda p: optim.AdamW([p], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (
            lambda p: stepped(optim.Adam([tt.nn.Parameter(p.to(tt.complex64))], fused=True)),
            RuntimeError,
            "fused=True",
        ),
        (lambda p: optim.Optimizer([p], {}).step(), NotImplementedError, "Optimizer has no step"),
        (lambda p: optim.Nonsense, AttributeError, "has no attribute 'Nonsense'"),
    ],
)
def test_what_is_refused(make, error, message):
    p = parameter()
    with pytest.raises(error, match=re.escape(message)):
        make(p)
    assert p.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("travel", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_loaded_state_goes_on_where_the_other_was(name, travel):
    options = {"momentum": 0.9} if name == "SGD" else {"amsgrad": True}
    a, b = parameter(), parameter()
    first = stepped(getattr(optim, name)([a], lr=0.1, **options))
    second = getattr(optim, name)([b], lr=9.0)
    with tt.no_grad():
        b.copy_(a)
    second.load_state_dict(travel(first.state_dict()))
    assert second.param_groups[0]["lr"] == 0.1 and second.param_groups[0]["params"] == [b]
    stepped(first), stepped(second)
    assert a.tolist() == b.tolist()
    states = [next(iter(o.state.values())) for o in (first, second)]
    assert states[0].keys() == states[1].keys()
    assert all(x is not y for x, y in zip(states[0].values(), states[1].values(), strict=True))


LATER = ("amsgrad", "capturable", "centered", "differentiable", "foreach", "fused", "maximize", "nesterov")


@pytest.mark.parametrize(
    "name",
    [
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "ASGD",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
        "SparseAdam",
    ],
)
def test_states_of_older_versions_lack_options_and_count_in_numbers(name):
    def make():
        p = parameter()
        p.grad = tt.ones(2).to_sparse() if name == "SparseAdam" else tt.ones(2)
        return p, getattr(optim, name)([p], lr=0.1)

    a, first = make()
    b, second = make()
    first.step()
    with tt.no_grad():
        b.copy_(a)
    old = copy.deepcopy(first.state_dict())
    for group in old["param_groups"]:
        for option in (*LATER, "decoupled_weight_decay"):
            group.pop(option, None)
    for state in old["state"].values():
        for key in ("step", "eta", "mu", "mu_product"):
            if isinstance(state.get(key), tt.Tensor):
                state[key] = state[key].item()
    second.load_state_dict(old)
    assert second.param_groups[0].keys() == first.param_groups[0].keys()
    assert second.param_groups[0]["lr"] == 0.1
    first.step(), second.step()
    assert a.tolist() == b.tolist()
    for one, other in zip(first.state[a].values(), second.state[b].values(), strict=True):
        assert type(one) is type(other)
        assert not isinstance(one, tt.Tensor) or (one.dtype is other.dtype and tt.equal(one, other))


def test_a_subclass_sees_loaded_states():
    class Own(optim.Optimizer):
        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("later", 7)

    optimizer = Own([parameter()], {"lr": 1.0})
    handle = optimizer.register_step_pre_hook(lambda *args: None)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["later"] == 7 and handle.id in optimizer._optimizer_step_pre_hooks


def test_loaded_states_come_to_their_parameters_dtype():
    optimizer = stepped(optim.Adam([parameter()]))
    p = tt.nn.Parameter(tt.ones(2, dtype=tt.float64))
    other = optim.Adam([p])
    other.load_state_dict(optimizer.state_dict())
    assert {k: v.dtype for k, v in other.state[p].items()} == {
        "step": tt.float32, "exp_avg": tt.float64, "exp_avg_sq": tt.float64,
    }  # fmt: skip


def test_states_that_do_not_fit_are_refused():
    optimizer = stepped(optim.Adam([parameter()]))
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    assert str(optimizer.state_dict()) == str(before)


def test_hooks_run_around_steps_and_states():
    optimizer, seen = optim.SGD([parameter()], lr=1.0), []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after")),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving")),
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("extra"))),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    stepped(optimizer)
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert seen == ["before", "after", "saving", 1, "loaded"] and state["extra"] == 1
    for handle in handles:
        handle.remove()
    stepped(optimizer)
    assert len(seen) == 5
    with (
        optimizer.register_step_pre_hook(lambda o, args, kwargs: 3),
        pytest.raises(RuntimeError, match="tuple"),
    ):
        optimizer.step()


def test_gradients_are_forgotten_or_zeroed():
    p = parameter()
    optimizer = stepped(optim.SGD([p]))
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()


def test_text_and_copies():
    optimizer = stepped(optim.SGD([parameter()], lr=0.5, momentum=0.9))
    assert repr(optimizer).split("\n")[:2] == ["SGD (", "Parameter Group 0"] and "    lr: 0.5" in repr(
        optimizer
    )
    other = pickle.loads(pickle.dumps(optimizer))
    stepped(other)
    assert other.param_groups[0]["params"][0].tolist() != optimizer.param_groups[0]["params"][0].tolist()


def test_a_parameter_twice_in_a_group_is_warned_of():
    p = parameter()
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=1.0)
    assert len(optimizer.param_groups[0]["params"]) == 2


def test_a_parameter_of_several_groups_is_saved_with_one_index():
    a, b = parameter(), parameter()
    optimizer = optim.SGD([{"params": [a, b]}, {"params": [parameter()]}], lr=0.25, momentum=0.9)
    optimizer.param_groups.append(dict(optimizer.param_groups[0]))
    saved = stepped(optimizer).state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2], [0, 1]]
    assert [*saved["state"]] == [0, 1, 2]


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adadelta"]
)
def test_no_step_is_captured_on_the_cpu(name):
    p = parameter()
    p.grad = tt.ones_like(p)
    before = p.tolist()
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be on"):
        getattr(optim, name)([p], capturable=True).step()
    assert p.tolist() == before


def test_shares_of_adam_may_be_tensors():
    results = []
    for betas in ((0.5, 0.75), (tt.tensor([[0.5]]), tt.tensor(0.75))):
        p = parameter()
        optimizer = optim.Adam([p], betas=betas)
        for _ in range(3):
            p.grad = tt.ones_like(p)
            optimizer.step()
        results.append(p.tolist())
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="either both floats or both Tensors"):
        optim.Adam([parameter()], betas=(0.9, tt.tensor(0.99)))
    with pytest.raises(
        ValueError, match=r"betas\[0\] as a Tensor is not supported for capturable=False and foreach=True"
    ):
        optim.Adam([parameter()], betas=(tt.tensor(0.9), tt.tensor(0.99)), foreach=True)
    with pytest.raises(
        ValueError, match="lr as a Tensor is not supported for capturable=False and foreach=True"
    ):
        optim.Adam([parameter()], lr=tt.tensor(0.1), foreach=True)
    optim.SGD([parameter()], lr=tt.tensor(0.1), foreach=True)


def test_a_wrapper_that_is_an_optimizer_without_its_init_steps():
    class Wrapper(tt.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, closure=None):
            self.optimizer.step(closure)

    parameter = tt.ones(2, requires_grad=True)
    parameter.grad = tt.ones(2)
    Wrapper(tt.optim.SGD([parameter], lr=0.5)).step()
    assert parameter.tolist() == [0.5, 0.5]


def test_a_wrapper_may_create_the_hooks_without_the_optimizers_init():
    class Wrapper(tt.optim.Optimizer):
        def __init__(self, optimizer):
            self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}
            self.optimizer = optimizer

        def step(self, closure=None):
            calls.append("step")

    calls: list[str] = []
    wrapper = Wrapper(tt.optim.SGD([parameter()]))
    wrapper.register_step_pre_hook(lambda *args: calls.append("before"))
    wrapper.register_step_post_hook(lambda *args: calls.append("after"))
    wrapper.step()
    assert calls == ["before", "step", "after"]


@pytest.mark.parametrize(
    "kind", ["state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"]
)
def test_a_prepended_hook_is_called_first(kind):
    optimizer = tt.optim.SGD([tt.zeros(1, requires_grad=True)], lr=1.0)
    register = getattr(optimizer, f"register_{kind}_hook")
    called = []
    for number in (1, 2):
        register(lambda *_, number=number: called.append(number))
    first = register(lambda *_: called.append(0), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    assert called == [0, 1, 2]
    first.remove()
    optimizer.load_state_dict(optimizer.state_dict())
    assert called == [0, 1, 2, 1, 2]
