"""Modules: attributes, the tree, modes, conversion, printing."""

import copy
import pickle
from collections.abc import Callable
from importlib.util import find_spec

import pytest

import triten as tt

nn = tt.nn


class Scale(nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.factor = nn.Parameter(tt.ones(size))
        self.register_buffer("count", tt.zeros((), dtype=tt.int64))
        self.register_buffer("scratch", tt.zeros(1), persistent=False)
        self.plain = 3

    def forward(self, x):
        return x * self.factor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.Linear(3, 2), Scale())
        self.again = self.first

    def forward(self, x):
        return self.second(self.first(x))


def test_assigned_attributes_are_parameters_buffers_and_modules():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "first.weight", "first.bias", "second.0.weight", "second.0.bias", "second.1.factor",
    ]  # fmt: skip
    assert [name for name, _ in net.named_buffers()] == ["second.1.count", "second.1.scratch"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    twice = dict(net.named_parameters(remove_duplicate=False))
    assert twice["again.weight"] is twice["first.weight"]
    assert [name for name, _ in net.second.named_parameters("p", recurse=False)] == []
    assert net.get_parameter("second.1.factor") is net.second[1].factor
    assert net.get_buffer("second.1.count") is net.second[1].count
    assert net.get_submodule("") is net
    assert {"first", "second", "again"} <= set(dir(net)) and "factor" in dir(net.second[1])


def test_an_attribute_changes_its_kind():
    m = Scale()
    del m.factor
    assert not hasattr(m, "factor") and list(m.parameters()) == []
    m.factor = 1
    m.factor = nn.Parameter(tt.ones(1))
    assert [name for name, _ in m.named_parameters()] == ["factor"] and "factor" not in vars(m)
    m.factor = None
    assert m.factor is None and list(m.parameters()) == []
    m.count = tt.ones(1)
    assert dict(m.named_buffers())["count"] is m.count
    m.count = None
    m.scratch = nn.Parameter(tt.ones(1))
    assert [name for name, _ in m.named_buffers()] == []
    m.kept = nn.Buffer(tt.ones(1))
    m.hidden = nn.Buffer(tt.ones(1), persistent=False)
    assert list(m.state_dict()) == ["scratch", "kept"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.register_parameter("a.b", None), KeyError, "name can.*t contain"),
        (lambda m: m.register_parameter("", None), KeyError, "name can.*t be empty"),
        (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
        (lambda m: m.register_parameter("plain", None), KeyError, "attribute 'plain' already exists"),
        (lambda m: m.register_parameter("x", tt.ones(1)), TypeError, "object to parameter 'x'"),
        (lambda m: m.register_parameter("x", m.factor * 1), TypeError, "object to parameter 'x'"),
        (lambda m: m.register_buffer("factor", None), KeyError, "attribute 'factor' already exists"),
        (lambda m: m.register_buffer("x", 3), TypeError, "cannot assign 'int' object to buffer 'x'"),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.add_module("factor", None), KeyError, "already exists"),
        (lambda m: setattr(m, "factor", tt.ones(2)), TypeError, "as parameter 'factor'"),
        (lambda m: setattr(m, "count", 3), TypeError, "cannot assign 'int' as buffer 'count'"),
        (lambda m: m.missing, AttributeError, "'Scale' object has no attribute 'missing'"),
        (lambda m: delattr(m, "missing"), AttributeError, "missing"),
        (lambda m: m.get_submodule("k"), AttributeError, "Scale has no attribute `k`"),
        (lambda m: m.get_submodule("plain"), AttributeError, "`plain` is not an nn.Module"),
        (lambda m: m.get_parameter("count"), AttributeError, "`count` is not an nn.Parameter"),
        (lambda m: m.get_buffer("factor"), AttributeError, "`factor` is not a buffer"),
        (lambda m: m.train(3), ValueError, "boolean"),
        (lambda m: m.to(tt.int32), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: m.to("cpu", device="cpu"), TypeError, "multiple values"),
        (lambda m: m.to(tt.device("cpu"), True), TypeError, "'dtype' must be a dtype, not bool"),
        (lambda m: m.to([]), TypeError, "'device' must be a device, not list"),
        (lambda m: m.to("cpu", copy=True), RuntimeError, "does not accept copy argument"),
        (lambda m: m.to(tt.float64, False, True), RuntimeError, "does not accept copy argument"),
        (lambda m: m.to("cpu", tt.float64, False, True), RuntimeError, "does not accept copy argument"),
        (lambda m: m.to(nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
        (lambda m: m.set_submodule("", nn.Identity()), ValueError, "without a target name"),
        (lambda m: m.set_submodule("a", 3), ValueError, "not an nn.Module"),
        (lambda m: m.set_submodule("a", nn.Identity(), strict=True), AttributeError, "no attribute `a`"),
        (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward"'),
    ],
)
def test_what_is_refused_leaves_the_module_as_it_was(change, error, message):
    m = Scale()
    before = (dict(m.named_parameters()), dict(m.named_buffers()), dict(vars(m)), m.training)
    with pytest.raises(error, match=message):
        change(m)
    assert (dict(m.named_parameters()), dict(m.named_buffers()), dict(vars(m)), m.training) == before


def test_an_operator_in_the_class_body_is_no_method():
    class Filter(nn.Module):
        convolve, scale = nn.functional.conv1d, tt.mul

        def forward(self, x):
            return self.scale(self.convolve(x, weight=tt.ones(1, 1, 2)), 2)

    class Finer(Filter):
        scale = tt.div

    x = tt.tensor([[[1.0, 2.0, 3.0]]])
    assert Filter()(x).tolist() == [[[6.0, 10.0]]] and Finer()(x).tolist() == [[[1.5, 2.5]]]
    assert Filter.scale is tt.mul


def test_attributes_before_init_are_refused():
    class Early(nn.Module):
        def __init__(self, value):
            self.x = value

    for value, kind in ((nn.Parameter(), "parameters"), (nn.Identity(), "module"), (nn.Buffer(), "buffers")):
        with pytest.raises(AttributeError, match=rf"cannot assign {kind} before Module.__init__\(\) call"):
            Early(value)


def test_a_computed_tensor_is_no_parameter():
    class Odd(nn.Parameter):
        is_leaf = False

    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'x'"):
        nn.Module().register_parameter("x", Odd(tt.ones(1)))


def test_modes_reach_every_module():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "Scale", "Sequential", "Net"]


def test_gradients_are_forgotten():
    net = Net()
    net(tt.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad.abs().sum().item() == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_conversion_keeps_the_parameters_and_changes_their_bytes(device):
    if device == "cuda" and find_spec("triton") is None:
        pytest.skip("triton has no wheel for this platform")
    net = Net()
    net(tt.ones(1, 2)).sum().backward()
    before = list(net.parameters())
    assert net.to(device, tt.float64) is net
    for old, new in zip(before, net.parameters(), strict=True):
        assert (old is new) is (device != "meta")
        assert isinstance(new, nn.Parameter) and new.is_leaf and new.requires_grad
        assert (new.device.type, new.dtype, new.grad.dtype) == (device, tt.float64, tt.float64)
    assert net.second[1].count.dtype is tt.int64 and net.second[1].count.device.type == device
    if device != "meta":
        x = tt.ones(1, 2, dtype=tt.float64, device=device)
        assert net(x).dtype is tt.float64
        assert net.half().second[1].scratch.dtype is tt.float16


def test_other_forms_of_to():
    net = Net()
    assert net.to(tt.zeros(1, dtype=tt.float64)).first.weight.dtype is tt.float64
    assert net.to(dtype=tt.float32).first.weight.dtype is tt.float32
    assert net.bfloat16().first.bias.dtype is tt.bfloat16
    assert net.float().double().type(tt.float32).first.bias.dtype is tt.float32
    assert net.to_empty(device="meta").first.weight.is_meta
    conv = nn.Module()
    conv.weight = nn.Parameter(tt.ones(2, 3, 4, 4))
    assert conv.to(memory_format=tt.channels_last).weight.is_contiguous(memory_format=tt.channels_last)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_parameters_of_their_own(copied):
    net = Net()
    other = copied(net)
    for (name, a), (same, b) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert name == same and a is not b and isinstance(b, nn.Parameter) and b.requires_grad
        assert tt.equal(a, b)
    assert other.again is other.first
    with tt.no_grad():
        other.first.weight.zero_()
    assert net.first.weight.abs().sum().item() > 0


def test_parameters_are_plain_tensors_in_calls():
    p = nn.Parameter(tt.ones(2))
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert type(p * 2) is type(p.data) is type(p.detach()) is tt.Tensor
    assert p._spec is tt.ones(2).requires_grad_()._spec, "they share plans with other tensors"
    assert nn.Parameter(requires_grad=False).shape == (0,)
    data = tt.zeros(2)
    q = nn.Parameter(data)
    data.fill_(5)
    assert q.tolist() == [5.0, 5.0]
    p.note = "an attribute"
    assert p.note == "an attribute"


def test_repr_is_the_tree():
    class Wide(nn.Module):
        def extra_repr(self):
            return "a\nb"

    assert repr(nn.Module()) == "Module()"
    assert repr(Wide()) == "Wide(\n  a\n  b\n)"
    assert repr(Net()).split("\n") == [
        "Net(",
        "  (first): Linear(in_features=2, out_features=3, bias=True)",
        "  (second): Sequential(",
        "    (0): Linear(in_features=3, out_features=2, bias=True)",
        "    (1): Scale()",
        "  )",
        "  (again): Linear(in_features=2, out_features=3, bias=True)",
        ")",
    ]


def test_a_submodule_is_exchanged_by_name():
    net = Net()
    net.set_submodule("second.1", nn.Identity())
    assert isinstance(net.second[1], nn.Identity)
    net.set_submodule("new", nn.Identity())
    assert isinstance(net.new, nn.Identity)
    with pytest.raises(AttributeError, match="has no attribute `nowhere`"):
        net.set_submodule("nowhere.x", nn.Identity())


def test_importing_the_package_loads_no_layer():
    import subprocess
    import sys

    program = "import sys, triten; print([n for n in sys.modules if n.startswith('triten.nn.modules')])"
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert set(dir(nn)) >= {"Module", "Linear", "functional", "init"}
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = nn.Nonsense


@pytest.mark.parametrize("called_before", [False, True])
def test_gradients_come_in_the_dtype_and_on_the_device_of_a_converted_module(called_before):
    layer = nn.Linear(2, 3)
    if called_before:
        layer(tt.ones(1, 2)).sum().backward()
        layer.zero_grad()
    layer.to(tt.float64)
    layer(tt.full((1, 2), 1 / 3, dtype=tt.float64)).sum().backward()
    assert layer.weight.grad.dtype is tt.float64
    assert layer.weight.grad[0, 0].item() == 1 / 3
    layer.zero_grad()
    layer.cuda()
    layer(tt.ones(1, 2, dtype=tt.float64, device="cuda")).sum().backward()
    assert layer.weight.grad.is_cuda


class Mixin:
    def __init__(self, value=None, **kwargs):
        super().__init__(**kwargs)
        self.value = value


@pytest.mark.parametrize("call", [True, False])
def test_a_module_calls_the_next_constructor_on_request(call, monkeypatch):
    class Mixed(nn.Module, Mixin):
        pass

    monkeypatch.setattr(Mixed, "call_super_init", call)
    if call:
        assert Mixed(3).value == Mixed(value=3).value == 3
    else:
        assert not hasattr(Mixed(), "value")
        for given, text in (((3,), "2 positional arguments"), ({"value": 3}, "keyword argument 'value'")):
            with pytest.raises(TypeError, match=text):
                Mixed(**given) if isinstance(given, dict) else Mixed(*given)


def test_a_handle_gives_the_hooks_that_it_is_of():
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_hook(lambda *_: None)
    assert handle.hooks_dict_ref() is layer._forward_hooks and handle.id in handle.hooks_dict_ref()
    handle.remove()
    assert not handle.hooks_dict_ref()


def test_every_name_of_the_modules_package_is_there():
    for name in nn.modules.__all__:
        getattr(nn.modules, name)
    assert "DataParallel" not in nn.modules.__all__ and nn.DataParallel.__name__ == "DataParallel"


def test_apply_passes_parameters_and_keeps_them_and_their_gradients() -> None:
    layer = tt.nn.Linear(2, 2)
    layer(tt.ones(1, 2)).sum().backward()
    weight, grad, version = layer.weight, layer.weight.grad, layer.weight._version
    layer._apply(lambda x: x.add_(1.0))
    assert layer.weight is weight and weight._version > version
    layer.double()
    assert layer.weight is weight and weight.grad is grad
    assert weight.dtype is grad.dtype is tt.float64


@pytest.mark.parametrize("convert", [lambda x: x.to_sparse() if x.dim() == 2 else x, lambda x: x.to("meta")])
def test_apply_replaces_a_parameter_whose_data_are_of_another_kind(
    convert: Callable[[tt.Tensor], tt.Tensor],
) -> None:
    layer = tt.nn.Linear(2, 2)
    layer(tt.ones(1, 2)).sum().backward()
    weight = layer.weight
    layer._apply(convert)
    assert layer.weight is not weight and weight.layout is tt.strided and weight.device.type == "cpu"
    made = layer.weight
    assert isinstance(made, tt.nn.Parameter) and made.requires_grad
    assert (made.layout, made.device) == (made.grad.layout, made.grad.device)
    assert (made.layout, made.device) != (weight.layout, weight.device)


def test_modules_with_duplicates():
    layer = tt.nn.ReLU()
    net = tt.nn.Sequential(layer, layer)
    assert list(net.modules()) == [net, layer]
    assert list(net.modules(remove_duplicate=False)) == [net, layer, layer]
