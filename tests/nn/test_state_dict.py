"""`state_dict` and `load_state_dict`: names, errors, versions, hooks."""

import gc
from collections import OrderedDict

import pytest

import triten as tt

nn = tt.nn


def network():
    return nn.Sequential(
        OrderedDict(a=nn.Linear(2, 3), b=nn.Sequential(nn.PReLU(), nn.Linear(3, 1, bias=False)))
    )


def test_the_state_is_the_modules_own_memory():
    net = network()
    state = net.state_dict()
    assert list(state) == ["a.weight", "a.bias", "b.0.weight", "b.1.weight"]
    assert not any(value.requires_grad for value in state.values())
    state["a.bias"].fill_(7)
    assert net.a.bias.tolist() == [7.0] * 3
    assert net.state_dict(keep_vars=True)["a.bias"] is net.a.bias
    assert list(net.b.state_dict(prefix="b.")) == ["b.0.weight", "b.1.weight"]
    assert state._metadata["b.1"] == {"version": 1}


def test_loading_copies_into_the_parameters():
    net, other = network(), network()
    before = list(net.parameters())
    assert str(net.load_state_dict(other.state_dict())) == "<All keys matched successfully>"
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    x = tt.randn(4, 2)
    assert tt.equal(net(x), other(x))
    with tt.no_grad():
        other.a.bias.add_(1)
    assert not tt.equal(net.a.bias, other.a.bias)


def test_loading_converts_and_assign_takes_over():
    net = network()
    double = network().double().state_dict()
    net.load_state_dict(double)
    assert net.a.weight.dtype is tt.float32
    net.a.weight.requires_grad_(False)
    net.load_state_dict(double, assign=True)
    assert net.a.weight.dtype is tt.float64 and isinstance(net.a.weight, nn.Parameter)
    assert (net.a.weight.requires_grad, net.a.bias.requires_grad) == (False, True)
    assert net.a.weight.data_ptr() == double["a.weight"].data_ptr()


def test_everything_that_does_not_fit_is_named_and_the_rest_is_loaded():
    net = network()
    state = OrderedDict(net.state_dict())
    del state["a.bias"]
    state["a.weight"] = tt.zeros(2, 2)
    state["b.1.weight"] = tt.full((1, 3), 5.0)
    state["b.0.weight"] = 3
    state |= {"b.1.more": tt.ones(1), "c": tt.ones(1), "c.d": tt.ones(1)}
    with pytest.raises(RuntimeError) as raised:
        net.load_state_dict(state)
    assert str(raised.value).split("\n\t") == [
        "Error(s) in loading state_dict for Sequential:",
        'Missing key(s) in state_dict: "a.bias". ',
        'Unexpected key(s) in state_dict: "c", "c.d", "b.1.more". ',
        "size mismatch for a.weight: copying a param with shape triten.Size([2, 2]) from checkpoint, the shape in "
        "current model is triten.Size([3, 2]).",
        'While copying the parameter named "b.0.weight", expected torch.Tensor or Tensor-like object from checkpoint '
        "but received <class 'int'>",
    ]
    assert net.b[1].weight.tolist() == [[5.0] * 3]
    del state["a.weight"], state["b.0.weight"]
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["a.weight", "a.bias", "b.0.weight"]
    assert keys.unexpected_keys == ["c", "c.d", "b.1.more"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'int'>"):
        net.load_state_dict(3)


def test_a_name_of_a_module_is_no_tensors():
    net = network()
    state = dict(net.state_dict(), b=tt.ones(1))
    assert net.load_state_dict(state, strict=False).unexpected_keys == ["b"]


class Versioned(nn.Module):
    _version = 2

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(tt.ones(1))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version", 1) < 2:
            state_dict[prefix + "scale"] = state_dict.pop(prefix + "factor")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def test_an_older_version_is_translated():
    net = nn.Sequential(Versioned())
    assert net.state_dict()._metadata["0"] == {"version": 2}
    old = OrderedDict({"0.factor": tt.full((1,), 4.0)})
    net.load_state_dict(old)
    assert net[0].scale.tolist() == [4.0] and list(old) == ["0.factor"]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def get_extra_state(self):
        return {"steps": self.steps}

    def set_extra_state(self, state):
        self.steps = state["steps"]


def test_extra_state_travels_along():
    net = nn.Sequential(Counting())
    net[0].steps = 3
    state = net.state_dict()
    assert state == {"0._extra_state": {"steps": 3}}
    other = nn.Sequential(Counting())
    other.load_state_dict(state)
    assert other[0].steps == 3
    assert other.load_state_dict({}, strict=False).missing_keys == ["0._extra_state"]
    assert nn.Sequential(nn.Identity()).load_state_dict(state, strict=False).unexpected_keys == [
        "0._extra_state"
    ]


def test_hooks_see_and_change_what_is_saved_and_loaded():
    net, seen = network(), []
    handles = [
        net.b.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("before", prefix, keep))),
        net.b.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop(prefix + "0.weight")),
        net.b.register_load_state_dict_pre_hook(
            lambda m, state, prefix, *rest: state.__setitem__(prefix + "0.weight", tt.full((1,), 9.0))
        ),
        net.b.register_load_state_dict_post_hook(lambda m, keys: seen.append(list(keys.missing_keys))),
    ]
    state = net.state_dict()
    assert list(state) == ["a.weight", "a.bias", "b.1.weight"]
    net.load_state_dict(state)
    assert net.b[0].weight.tolist() == [9.0]
    assert seen == [("before", "b.", False), []]
    for handle in handles:
        handle.remove()
    assert len(net.state_dict()) == 4
    with (
        net.register_load_state_dict_post_hook(lambda m, keys: keys),
        pytest.raises(RuntimeError, match="in place"),
    ):
        net.load_state_dict(net.state_dict())


def test_the_private_hooks_that_other_packages_register():
    net, seen = network(), []
    with net._register_load_state_dict_pre_hook(lambda state, *rest: seen.append(next(iter(state)))):
        net.load_state_dict(net.state_dict())
    with net._register_load_state_dict_pre_hook(lambda m, *rest: seen.append(m), with_module=True):
        net.load_state_dict(net.state_dict())
    assert seen == ["a.weight", net]
    with net._register_state_dict_hook(lambda m, state, prefix, meta: {"all": list(state)}):
        assert net.state_dict() == {"all": ["a.weight", "a.bias", "b.0.weight", "b.1.weight"]}
    with net.register_state_dict_post_hook(lambda m, state, prefix, meta: {}):
        assert len(net.state_dict()) == 4


def test_loading_leaves_no_reference_cycle() -> None:
    module = tt.nn.Sequential(tt.nn.Linear(2, 2))
    state = module.state_dict()
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0
