"""Operations counted, by module: PyTorch's numbers."""

import pytest

import triten as tt
from triten import nn
from triten.nn import functional as F
from triten.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from triten.utils.module_tracker import ModuleTracker


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Flatten(), nn.Linear(16, 2)))


def counted(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return {str(op): count for op, count in counter.get_flop_counts().get("Global", {}).items()}


def test_modules_forward_and_backward(device, capsys):
    model, x = network().to(device), tt.ones(100, 3, 4, 4, device=device, requires_grad=True)
    with FlopCounterMode() as counter:
        model(x).sum().backward()
        tt.ones(3, 3, device=device) @ tt.ones(3, 3, device=device)
    assert counter.get_total_flops() == 278_454
    totals = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    assert totals == {"Global": 278_454, "Sequential": 278_400, "Sequential.0": 259_200, "Sequential.1": 19_200,
                      "Sequential.1.1": 19_200}  # fmt: skip
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["Module", "FLOP", "%", "Total"] and lines[2] == ["Global", "278.454K", "100.00%"]
    assert ["Sequential.0", "259.200K", "93.09%"] in lines
    assert not any(line[0] == "Sequential.1.1" for line in lines)


def test_a_table_of_one_outermost_module():
    with FlopCounterMode(display=False) as counter:
        network()(tt.ones(1, 3, 4, 4))
    assert counter.get_table(2).splitlines() == [
        "Module                FLOP    % Total",
        "------------------  ------  ---------",
        "Sequential             928    100.00%",
        "- aten.convolution     864     93.10%",
        "- aten.addmm            64      6.90%",
        "Sequential.0           864     93.10%",
        "- aten.convolution     864     93.10%",
        "Sequential.1            64      6.90%",
        "- aten.addmm            64      6.90%",
    ]
    with counter:
        pass
    assert counter.get_table().splitlines()[-1] == "Global         0         0%"


def test_products():
    assert counted(lambda: tt.baddbmm(tt.ones(1), tt.ones(2, 3, 4), tt.ones(2, 4, 5))) == {
        "aten.baddbmm": 240
    }
    assert counted(lambda: tt.addmm(tt.ones(1), tt.ones(3, 4), tt.ones(4, 5))) == {"aten.addmm": 120}
    assert counted(lambda: tt.bmm(tt.ones(2, 3, 4), tt.ones(2, 4, 5))) == {"aten.bmm": 240}
    assert counted(lambda: tt.ones(3, 4) + 1) == {}


def test_convolutions_transposed_and_in_groups():
    x, w = tt.ones(1, 3, 4, 4, requires_grad=True), tt.ones(3, 6, 2, 2, requires_grad=True)
    found = counted(lambda: F.conv_transpose2d(x, w, stride=2).sum().backward())
    # The gradient of the input is a convolution.
    assert found == {"aten.convolution": 2304 + 2304, "aten.convolution_backward_weight": 2304}
    x, w = tt.ones(1, 4, 4, 4, requires_grad=True), tt.ones(8, 2, 3, 3, requires_grad=True)
    found = counted(lambda: F.conv2d(x, w, groups=2).sum().backward())
    assert found.pop("aten.convolution") == 1152 and sum(found.values()) == 3456


def test_attention(device):
    q = tt.ones(2, 3, 5, 8, device=device, requires_grad=True)
    k = tt.ones(2, 3, 7, 8, device=device)
    with FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(q, k, k)
    assert counter.get_total_flops() == 2 * 6 * 5 * 7 * (8 + 8)


def test_formulas_of_users():
    raw = lambda x, y, *, out_val: 3 * x.numel()  # noqa: E731 - it gets an attribute
    raw._get_raw = True
    mapping = {tt.ops.aten.mul: raw, tt.ops.aten.mm: lambda a, b, *, out_shape: 1}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        tt.ones(4) * tt.ones(4)
        tt.ones(2, 2) @ tt.ones(2, 2)
    assert counter.get_total_flops() == 13
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula("mm")(lambda: 0)
    with pytest.raises(ValueError, match=r"duplicate registrations for aten.mm"):
        register_flop_formula(tt.ops.aten.mm)(lambda: 0)
    register_flop_formula(tt.ops.aten.cumsum)(lambda x, dim, *, out_shape: out_shape[0])
    try:
        assert counted(lambda: tt.ones(8).cumsum(0)) == {"aten.cumsum": 8}
    finally:
        del flop_registry[tt.ops.aten.cumsum]


class Recorder(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        x = x * 2
        x.register_hook(lambda grad: self.seen.append((sorted(self.tracker.parents), self.tracker.is_bw)))
        self.seen.append((sorted(self.tracker.parents), self.tracker.is_bw))
        return x * 1


def test_the_modules_that_a_program_is_in():
    seen = []
    inner = Recorder(seen)
    model = nn.Sequential(nn.Sequential(inner), nn.ReLU())
    with ModuleTracker() as tracker:
        inner.tracker = tracker
        y = model(tt.ones(2, requires_grad=True))
        assert tracker.parents == {"Global"}
        y.sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    names = ["Global", "Sequential", "Sequential.0", "Sequential.0.0"]
    assert seen == [(names, False), (names, True)]
    with ModuleTracker() as tracker, pytest.raises(ZeroDivisionError):
        inner.forward = lambda x: 1 / 0
        model(tt.ones(1))
    assert tracker.parents == {"Global"}
