"""Modules as functions of their tensors: `functional_call` and `stack_module_state`."""

import pytest

import triten as tt

nn = tt.nn
call = tt.func.functional_call


def test_given_tensors_stand_in_for_the_modules_own():
    layer = nn.Linear(2, 1)
    weight, bias = layer.weight, layer.bias
    x = tt.tensor([[3.0, 4.0]])
    given = {"weight": tt.ones(1, 2), "bias": tt.tensor([0.5])}
    assert call(layer, given, x).tolist() == call(layer, given, (), {"input": x}).tolist() == [[7.5]]
    assert call(layer, [{"weight": tt.ones(1, 2)}, {"bias": tt.zeros(1)}], (x,)).tolist() == [[7.0]]
    assert tt.equal(call(layer, {"weight": tt.ones(1, 2)}, x), 7.0 + bias[None])
    assert layer.weight is weight and layer.bias is bias


def test_gradients_reach_what_is_given():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    given = {"0.weight": tt.eye(2), "1.weight": tt.ones(1, 2)}
    x = tt.tensor([[3.0, 4.0]])
    found = tt.func.grad(lambda given: call(net, given, x).sum())(given)
    assert found["0.weight"].tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert found["1.weight"].tolist() == [[3.0, 4.0]]
    each = tt.vmap(tt.func.grad(lambda given, x: call(net, given, x).sum()), in_dims=(None, 0))(
        given, tt.tensor([[1.0, 2.0], [3.0, 4.0]])
    )
    assert each["1.weight"].tolist() == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert all(p.grad is None for p in net.parameters())


def test_buffers_written_by_assignment_are_found_in_the_dictionary():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", tt.zeros(()))

        def forward(self):
            self.count = self.count + 1
            return self.count * 10

    module = Counter()
    given = {"count": tt.tensor(4.0)}
    assert call(module, given).item() == 50.0
    assert given["count"].item() == 5.0 and module.count.item() == 0.0


def test_the_module_is_as_before_after_an_error():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    with pytest.raises(RuntimeError):
        call(layer, {"weight": tt.ones(1, 2), "extra": tt.ones(1)}, tt.ones(1, 3))
    assert layer.weight is weight and not hasattr(layer, "extra")


def test_one_name_of_a_tied_parameter_stands_for_all():
    layer = nn.Linear(2, 2, bias=False)
    net = nn.Sequential(layer, layer)
    x = tt.ones(1, 2)
    assert call(net, {"1.weight": 2 * tt.eye(2)}, x).tolist() == [[4.0, 4.0]]
    other = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    other[1].weight = other[0].weight
    with pytest.raises(ValueError, match=r"multiple values for keys \['0.weight', '1.weight'\]"):
        call(other, {"0.weight": tt.eye(2), "1.weight": 2 * tt.eye(2)}, x)
    apart = call(other, {"0.weight": tt.eye(2), "1.weight": 2 * tt.eye(2)}, x, tie_weights=False)
    assert apart.tolist() == [[2.0, 2.0]]


def test_what_is_refused():
    layer = nn.Linear(2, 1)
    x = tt.ones(1, 2)
    with pytest.raises(RuntimeError, match=r"Unexpected key.* 'foo'\.\n\tMissing key.* 'bias'"):
        call(layer, {"weight": tt.ones(1, 2), "foo": tt.ones(1)}, x, strict=True)
    with pytest.raises(ValueError, match=r"\['weight'\] appeared in multiple dictionaries"):
        call(layer, ({"weight": tt.ones(1, 2)}, {"weight": tt.ones(1, 2)}), x)
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts, but got int"):
        call(layer, 5, x)
    with pytest.raises(ValueError, match="Expected all elements of"):
        call(layer, [5], x)
    with pytest.raises(TypeError, match=r"3 is not an instance of torch\.Tensor"):
        call(layer, {"weight": 3}, x)


def test_ensembles():
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval() for _ in range(4)]
    parameters, buffers = tt.func.stack_module_state(models)
    assert parameters["0.weight"].shape == (4, 3, 2) and parameters["0.weight"].requires_grad
    assert parameters["0.weight"].is_leaf and buffers["1.running_mean"].shape == (4, 3)
    x = tt.randn(5, 2)
    together = tt.vmap(lambda p, b: call(models[0], (p, b), x))(parameters, buffers)
    for one, model in zip(together, models, strict=True):
        assert tt.allclose(one, model(x))
    with pytest.raises(RuntimeError, match="at least one model"):
        tt.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        tt.func.stack_module_state([nn.ReLU(), nn.Tanh()])
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        tt.func.stack_module_state([nn.ReLU(), nn.ReLU().eval()])


def test_reparametrize_module_holds_for_the_block():
    from triten.nn.utils.stateless import _reparametrize_module

    layer = nn.Linear(2, 1, bias=False)
    weight = layer.weight
    given = {"weight": tt.ones(1, 2)}
    with pytest.raises(KeyError), _reparametrize_module(layer, given):
        assert layer(tt.tensor([3.0, 4.0])).tolist() == [7.0]
        layer._parameters["weight"] = tt.zeros(1, 2)
        raise KeyError
    assert layer.weight is weight and given["weight"].tolist() == [[0.0, 0.0]]


def test_reparametrize_module_ties_and_checks_names_on_request():
    from triten.nn.utils.stateless import _reparametrize_module

    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    one = {"0.weight": tt.eye(2)}
    with _reparametrize_module(net, one, tie_weights=True):
        assert net[1].weight is one["0.weight"]
    with _reparametrize_module(net, one):
        assert net[1].weight is not one["0.weight"]
    with pytest.raises(RuntimeError, match="Missing key"), _reparametrize_module(net, one, strict=True):
        pass


def test_names_that_the_module_lacks_are_there_for_the_call():
    class Net(nn.Module):
        number = 0.0

        def forward(self, x):
            return [name for name, _ in self.named_parameters()], hasattr(self, "extra")

    net = Net()
    assert call(net, {"extra": tt.ones(1)}, 0) == ([], True)
    assert call(net, {"extra": nn.Parameter(tt.ones(1))}, 0) == (["extra"], True)
    assert call(net, {}, 0) == ([], False) and not net._parameters
    with pytest.raises(TypeError, match=r"attribute `number`: 0\.0 is not an instance"):
        call(net, {"extra": tt.ones(1), "number": tt.ones(1)}, 0)
    assert not hasattr(net, "extra")


def test_a_parameter_may_be_none_and_tied_names_count_as_given():
    layer = nn.Linear(2, 1)
    x = tt.tensor([[3.0, 4.0]])
    assert (
        call(layer, {"weight": tt.ones(1, 2), "bias": None}, x).tolist() == [[7.0]] and layer.bias is not None
    )
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    assert call(net, {"0.weight": 2 * tt.eye(2)}, x, strict=True).tolist() == [[12.0, 16.0]]
    with pytest.raises(RuntimeError, match="Missing key"):
        call(net, {"0.weight": tt.eye(2)}, x, strict=True, tie_weights=False)


def test_the_former_name_warns():
    from triten.nn.utils import stateless

    layer = nn.Linear(1, 1, bias=False)
    with pytest.warns(FutureWarning, match=r"func\.functional_call"):
        assert stateless.functional_call(layer, {"weight": tt.full((1, 1), 3.0)}, tt.ones(1)).tolist() == [
            3.0
        ]
