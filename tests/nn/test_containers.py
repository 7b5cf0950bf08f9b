"""Containers: as sequences and dictionaries, and as modules."""

from collections import OrderedDict

import pytest

import triten as tt

nn = tt.nn


def names(module):
    return [name for name, _ in module.named_children()]


def test_sequential_runs_in_order_and_slices():
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)
    net = nn.Sequential(a, b, c)
    x = tt.randn(3, 2)
    assert tt.equal(net(x), c(b(a(x))))
    assert len(net) == 3 and net[-1] is c and list(net) == [a, b, c]
    assert list(net[:2]) == [a, b] and type(net[1:]) is nn.Sequential
    assert list(net + nn.Sequential(b)) == [a, b, c, b]
    named = nn.Sequential(OrderedDict(first=a, last=c))
    assert names(named) == ["first", "last"] and named.first is a and names(named[1:]) == ["last"]
    with pytest.raises(IndexError, match="index 3 is out of range"):
        _ = net[3]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(a, 3)
    with pytest.raises(ValueError, match="only objects of Sequential"):
        net.__add__([b])


def test_a_sequential_is_changed_like_a_list():
    modules = [nn.Identity() for _ in range(5)]
    net = nn.Sequential(*modules[:2])
    net.append(modules[2]).extend(modules[3:4])
    net.insert(0, modules[4])
    assert list(net) == [modules[4], *modules[:4]] and names(net) == list("01234")
    del net[1:3]
    net[-1] = modules[0]
    assert list(net) == [modules[4], modules[2], modules[0]] and names(net) == list("012")
    assert net.pop(0) is modules[4] and len(net) == 2
    with pytest.raises(AssertionError):
        net.insert(0, 3)
    with pytest.raises(IndexError):
        net.insert(9, modules[0])


def test_a_module_list_holds_children():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    layers += [nn.ReLU()]
    assert names(layers) == ["0", "1", "2"] and len(list(layers.parameters())) == 4
    assert len(layers.__add__([nn.ReLU()])) == 4 and type(layers[1:]) is nn.ModuleList
    with pytest.raises(NotImplementedError):
        layers(1)


def test_a_module_dict_holds_children():
    d = nn.ModuleDict({"a": nn.ReLU()})
    d["b"] = nn.Linear(1, 1)
    d.update([("c", nn.Tanh())])
    assert list(d) == list(d.keys()) == names(d) == ["a", "b", "c"] and len(d) == 3 and "b" in d
    assert d.pop("a") is not None and "a" not in d
    del d["b"]
    assert [type(m).__name__ for _, m in d.items()] == ["Tanh"] == [type(m).__name__ for m in d.values()]
    d.clear()
    assert len(d) == 0
    with pytest.raises(TypeError):
        d["x"] = 3
    with pytest.raises(KeyError):
        _ = d["x"]


def test_parameters_in_lists_and_dictionaries():
    values = nn.ParameterList([tt.ones(2), nn.Parameter(tt.ones(3)), "text"])
    values += [tt.zeros(1)]
    assert [name for name, _ in values.named_parameters()] == ["0", "1", "3"]
    assert values[2] == "text" and len(values) == 4 and len(values[1:]) == 3 and len(list(values)) == 4
    values[0] = tt.zeros(5)
    assert values[0].shape == (5,) and isinstance(values[0], nn.Parameter)
    assert "Parameter containing: [triten.float32 of size 5]" in repr(values)
    with pytest.raises(TypeError, match="iterable, but got Tensor"):
        values.extend(tt.ones(2))

    d = nn.ParameterDict({"a": tt.ones(2)})
    d.update({"b": tt.ones(3), "c": 4})
    assert [name for name, _ in d.named_parameters()] == ["a", "b"] and d.get("c") == 4 and d.get("z") is None
    assert list(d) == ["a", "b", "c"] and len(d) == 3
    assert d.pop("c") == 4 and isinstance(d.setdefault("e", tt.ones(1)), nn.Parameter)
    del d["a"]
    assert list(d.keys()) == ["b", "e"] and [k for k, _ in d.items()] == ["b", "e"] and len(d.values()) == 2
    with pytest.raises(KeyError):
        _ = d["a"]


def test_sequential_multiplied_and_extended():
    a, b = nn.Linear(2, 2), nn.ReLU()
    net = nn.Sequential(a, b)
    assert list(net * 2) == list(2 * net) == [a, b, a, b] and list(net) == [a, b]
    net *= 2
    assert list(net) == [a, b, a, b] and list(net._modules) == ["0", "1", "2", "3"]
    kept = net
    net += nn.Sequential(b)
    assert net is kept and len(net) == 5
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0
    with pytest.raises(TypeError, match="unsupported operand"):
        net * 1.5
    with pytest.raises(ValueError, match="only objects of Sequential"):
        net += [b]


def test_modules_in_a_row_that_print_alike_are_shown_once():
    layers = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Sequential(nn.Tanh()), nn.ReLU()])
    assert repr(layers) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Sequential(\n    (0): Tanh()\n  )\n  (3): ReLU()\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"
    assert "0" not in dir(layers) and "training" in dir(layers)
    with pytest.raises(TypeError, match="should be called with an iterable, but got int"):
        layers.extend(3)


def test_parameter_dictionaries_as_dictionaries():
    a, b = nn.Parameter(tt.ones(1)), nn.Parameter(tt.zeros(1))
    one = nn.ParameterDict({"a": a, "b": b})
    assert list(reversed(one)) == ["b", "a"] and list(one.copy().items()) == [("a", a), ("b", b)]
    assert list((one | {"c": tt.ones(2)}).keys()) == ["a", "b", "c"] and list(one) == ["a", "b"]
    merged = {"b": tt.ones(3), "z": 1} | one
    assert list(merged) == ["b", "z", "a"] and merged["b"] is b
    assert list(one.fromkeys(["x", "y"], 3).values()) == [3, 3]
    assert one.popitem() == ("b", b) and list(one) == ["a"]
    one |= {"c": 2}
    one.clear()
    assert len(one) == 0 and not list(one.parameters())
    with pytest.raises(KeyError, match="is empty"):
        one.popitem()
    for container in (one, nn.ParameterList()):
        with pytest.raises(RuntimeError, match="should not be called"):
            container(1)


@pytest.mark.parametrize("make", [nn.ModuleDict, nn.ParameterDict])
def test_updates_with_what_are_no_pairs_are_refused(make):
    with pytest.raises(TypeError, match="iterable of key/value pairs, but got int"):
        make().update(5)
    with pytest.raises(TypeError, match="element #0 should be Iterable; is int"):
        make().update([1])
    with pytest.raises(ValueError, match="element #1 has length 3; 2 is required"):
        made = make()
        made.update([("a", nn.ReLU()), (1, 2, 3)])
    assert len(made) == 0


@pytest.mark.parametrize("how", [lambda model: model, tt.compile], ids=["eager", "compiled"])
def test_an_error_names_the_layer_of_a_sequential(how):
    model = how(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))))
    with pytest.raises(RuntimeError, match="3x8 and 9x2") as caught:
        model(tt.ones(3, 4))
    assert caught.value.__notes__ == [
        "In layer '1' of Sequential: Linear(in_features=9, out_features=2, bias=True)",
        "In layer '1' of Sequential: Sequential()",
    ]


def test_a_parameter_is_made_of_a_tensor():
    with pytest.raises(AttributeError, match="'data' must be Tensor, not int"):
        nn.Parameter(3)


class Marked(tt.Tensor):
    """A subclass without a handler of its own."""


def test_a_parameter_of_a_subclass_stays_of_its_class():
    weight = nn.Parameter(tt.Tensor._make_subclass(Marked, tt.ones(2)))
    assert type(weight) is Marked and isinstance(weight, nn.Parameter) and type(weight + 1) is Marked
    assert repr(weight) == "Parameter(Marked([1., 1.], requires_grad=True))"
    module = nn.Module()
    module.weight = weight
    assert next(iter(module.parameters())) is weight


def test_a_parameter_dict_sorts_the_names_of_a_plain_dict_alone() -> None:
    plain = {"p8": tt.ones(1), "p7": tt.ones(1)}
    ordered = tt.nn.ParameterDict(OrderedDict(plain))
    assert list(tt.nn.ParameterDict(plain)) == ["p7", "p8"]
    assert list(ordered) == list(ordered.copy()) == list(tt.nn.ParameterDict(plain.items())) == ["p8", "p7"]
    assert list(ordered.fromkeys(["b", "a"])) == ["b", "a"]
