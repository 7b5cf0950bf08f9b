"""The profiler records and nests operators, backward and ranges as PyTorch's does."""

import numpy as np
import pytest

import triten as tt
from triten.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
)

CPU = [ProfilerActivity.CPU]


def test_a_call_is_one_event_whatever_hops_it_makes(tree):
    w = tt.ones(2, requires_grad=True)
    with profile(activities=CPU) as prof:
        w + 1.0
    assert tree(prof) == [("aten::add", None)]
    event = prof.events()[0]
    assert (event.overload_name, event.dispatch_keys) == ("Tensor", ["AutogradCPU", "CPU"])


def test_composites_contain_what_they_call(device, tree):
    a = tt.ones(3, 2, device=device)
    with profile(activities=CPU) as prof:
        tt.nn.functional.linear(a, a)
    assert tree(prof) == [
        ("aten::linear", None),
        ("aten::t", "aten::linear"),
        ("aten::mm", "aten::linear"),
    ]


def test_times_of_a_tree_add_up(named):
    a = tt.ones(8, 8)
    with profile(activities=CPU) as prof, record_function("outer"):
        for _ in range(5):
            a @ a
    outer = named(prof, "outer")
    assert outer.cpu_children and all(c.cpu_parent is outer for c in outer.cpu_children)
    assert sum(e.self_cpu_time_total for e in prof.events()) == pytest.approx(outer.cpu_time_total)
    for event in prof.events():
        assert 0 < event.self_cpu_time_total <= event.cpu_time_total
        for child in event.cpu_children:
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
    starts = [e.time_range.start for e in prof.events()]
    assert starts == sorted(starts) and starts[0] >= 0
    assert [e.id for e in prof.events()] == list(range(1, len(starts) + 1))


def test_kernels_are_named_with_their_dtype(device):
    a, whole = tt.ones(3, device=device), tt.ones(3, dtype=tt.int64, device=device)
    with profile(activities=CPU) as prof:
        a + whole
        whole.sum()
        a.t()
    found = [e.kernel_functions for e in prof.events()]
    assert found == [[(f"add_{device}", tt.float32)], [(f"sum_{device}", tt.int64)], []]


def test_shapes_and_dtypes_of_arguments():
    a, b = tt.ones(3, 1), tt.ones(4, dtype=tt.int32)
    with profile(activities=CPU, record_shapes=True) as prof:
        a + b
        a * 2.0
        tt.cat([a, a])
        tt.sum(a, 0)
    shapes = {e.name: (e.input_shapes, e.input_types) for e in prof.events()}
    assert shapes["aten::add"] == ([[3, 1], [4], []], ["float32", "int32", "Scalar"])
    assert shapes["aten::mul"] == ([[3, 1], []], ["float32", "Scalar"])
    assert shapes["aten::cat"][0] == [[[3, 1], [3, 1]], []]
    assert shapes["aten::sum"][0][0] == [3, 1]
    with profile(activities=CPU) as prof:
        a + b
    assert prof.events()[0].input_shapes == []


def test_plans_made_before_are_seen_and_results_are_the_same(device):
    a = tt.from_numpy(np.float32([[1, -2], [3, -4]])).to(device)
    w = tt.ones(2, 2, device=device).requires_grad_()
    expected = (w * a).relu()
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        result = (w * a).relu()
        result.sum().backward()
    assert result.tolist() == expected.tolist()
    assert w.grad.tolist() == [[1, 0], [3, 0]]
    assert {"aten::mul", "aten::relu", "aten::sum"} <= {e.name for e in prof.events()}


def test_modes_and_exceptions_do_not_upset_the_nesting(tree):
    a = tt.ones(2)
    with profile(activities=CPU) as prof:
        with record_function("outer"), pytest.raises(RuntimeError):
            tt.mm(a, a)
        with tt.inference_mode():
            a.exp()
        a.neg()
    assert [pair for pair in tree(prof) if pair[0] != "aten::mm"] == [
        ("outer", None),
        ("aten::exp", None),
        ("aten::neg", None),
    ]


def test_a_call_that_raises_is_recorded_to_its_end(library, tree):
    lib, ops = library
    lib.define("fails(Tensor x) -> Tensor")

    def fails(x):
        x.exp()
        raise ValueError("no")

    lib.impl("fails", fails, "CPU")
    with profile(activities=CPU) as prof, pytest.raises(ValueError, match="no"):
        ops.fails(tt.ones(2))
    assert ("aten::exp", f"{lib.ns}::fails") in tree(prof)


def test_an_operator_that_calls_itself_is_several_events(library, tree):
    lib, ops = library
    lib.define("f(Tensor x, int depth) -> Tensor")
    lib.impl("f", lambda x, depth: ops.f(x, depth - 1) if depth else x.exp(), "CPU")
    with profile(activities=CPU) as prof:
        ops.f(tt.ones(2), 2)
    name = f"{lib.ns}::f"
    assert tree(prof)[1:] == [(name, None), (name, name), (name, name), ("aten::exp", name)]


def test_an_operator_that_stops_the_profiler_does_no_harm(tree):
    prof = profile(activities=CPU)
    prof.start()
    range_ = record_function("left after the end").__enter__()
    prof.stop()
    range_.__exit__(None, None, None)
    assert tree(prof) == []


def test_a_range_that_began_before_the_recording_is_no_part_of_it():
    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        with record_function("too early"):
            tt.ones(2)
            prof.step()
        tt.ones(2)
    assert [e.name for e in prof.events()] == ["ProfilerStep#1", "aten::ones"]


def test_nodes_of_backward_contain_their_operators(tree):
    w = tt.ones(2, 2, requires_grad=True)
    loss = (w @ w).relu().sum()
    with profile(activities=CPU) as prof:
        loss.backward()
    names = tree(prof)
    assert ("SumBackward0", "autograd::engine::evaluate_function: SumBackward0") in names
    assert ("autograd::engine::evaluate_function: SumBackward0", None) in names
    assert ("aten::threshold_backward", "ReluBackward0") in names
    assert names.count(("aten::mm", "MmBackward0")) == 2
    assert (
        "torch::autograd::AccumulateGrad",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    ) in names
    numbers = [e.sequence_nr for e in prof.events() if e.name.endswith("Backward0") and ":" not in e.name]
    assert numbers == sorted(numbers, reverse=True) and numbers[-1] == loss.grad_fn.sequence - 2


def test_nodes_of_functions_that_appear_meanwhile_have_their_names(tree):
    x = tt.ones(2, requires_grad=True)
    with profile(activities=CPU) as prof:

        class Twice(tt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x + x

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        Twice.apply(x).sum().backward()
    assert ("aten::mul", "TwiceBackward") in tree(prof)
    assert x.grad.tolist() == [2.0, 2.0]


def test_ranges_nest_decorate_recurse_and_survive_exceptions(tree):
    @record_function("twice", args="x")
    def twice(x, depth=1):
        return twice(x, depth - 1) if depth else x + x

    with profile(activities=CPU) as prof:
        twice(tt.ones(2))
        with pytest.raises(KeyError), record_function("failing"):
            raise KeyError
    assert tree(prof) == [
        ("aten::ones", None),
        ("twice", None),
        ("twice", "twice"),
        ("aten::add", "twice"),
        ("failing", None),
    ]
    assert [e.is_user_annotation for e in prof.events()] == [False, True, True, False, True]
    assert twice.__name__ == "twice"


def test_a_range_outside_every_profiler_does_nothing():
    with record_function("nowhere") as range_:
        assert range_.name == "nowhere"
    with pytest.raises(TypeError, match=r"record_function\(\): name: expected str, got int"):
        record_function(3)


def _conv(**options):
    return lambda: tt.nn.functional.conv2d(
        tt.ones(2, 4, 9, 7), tt.ones(6, 4 // options.get("groups", 1), 3, 2), **options
    )


@pytest.mark.parametrize(
    ("call", "name", "flops"),
    [
        (lambda: tt.ones(3, 4) @ tt.ones(4, 5), "aten::mm", 2 * 3 * 4 * 5),
        (lambda: tt.ones(2, 3, 4) @ tt.ones(2, 4, 5), "aten::bmm", 2 * 2 * 3 * 4 * 5),
        (lambda: tt.addmm(tt.ones(5), tt.ones(3, 4), tt.ones(4, 5)), "aten::addmm", 2 * 3 * 4 * 5),
        (lambda: tt.ones(2, 3) * tt.ones(2, 3), "aten::mul", 6),
        (lambda: tt.ones(2, 3) + 1, "aten::add", 6),
        (_conv(), "aten::conv2d", 2 * 2 * 6 * 4 * 3 * 2 * 7 * 6),
        (_conv(stride=2, padding=1), "aten::conv2d", 2 * 2 * 6 * 4 * 3 * 2 * 5 * 4),
        (_conv(padding="same", dilation=2), "aten::conv2d", 2 * 2 * 6 * 4 * 3 * 2 * 9 * 7),
        (_conv(groups=2), "aten::conv2d", 2 * 2 * 6 * 2 * 3 * 2 * 7 * 6),
    ],
)
def test_operations_are_estimated_on_request(named, call, name, flops):
    with profile(activities=CPU, with_flops=True) as prof:
        call()
        call()
    events = [e for e in prof.events() if e.name == name]
    assert [e.flops for e in events] == [flops, flops]
    averages = {e.key: e.flops for e in prof.key_averages()}
    assert averages[name] == sum(averages.values()) == 2 * flops
    assert "FLOPs" in prof.key_averages().table()
    with profile(activities=CPU) as prof:
        call()
    assert not any(e.flops for e in prof.events()) and "FLOPs" not in prof.key_averages().table()


def test_operations_are_told_in_the_unit_of_the_fewest():
    with profile(activities=CPU, with_flops=True) as prof:
        tt.ones(20, 100) + 1
        tt.ones(200, 300) @ tt.ones(300, 400)
    table = prof.key_averages().table()
    assert "Total KFLOPs" in table and " 2.000  " in table and " 48000.000  " in table


def test_calls_of_modules_are_recorded_on_request(tree):
    class Failing(tt.nn.Module):
        def forward(self, x):
            raise KeyError

    model = tt.nn.Sequential(tt.nn.ReLU(), tt.nn.Sequential(tt.nn.ReLU()))
    x = tt.ones(2)
    with profile(activities=CPU, with_modules=True) as prof:
        model(x)
        with pytest.raises(KeyError):
            Failing()(x)
        model[0](x)
    outer, first, inner = "nn.Module: Sequential_0", "nn.Module: ReLU_0", "nn.Module: Sequential_1"
    assert tree(prof) == [
        (outer, None),
        (first, outer),
        ("aten::relu", first),
        (inner, outer),
        ("nn.Module: ReLU_1", inner),
        ("aten::relu", "nn.Module: ReLU_1"),
        ("nn.Module: Failing_0", None),
        (first, None),
        ("aten::relu", first),
    ]
    assert prof.events()[5].module_hierarchy == [outer, inner, "nn.Module: ReLU_1"]
    assert not any(e.is_user_annotation for e in prof.events())
    with profile(activities=CPU) as prof:
        model(x)
    assert tree(prof) == [("aten::relu", None)] * 2 and prof.profiler.function_events == prof.events()


def test_optimizers_and_loaders_have_ranges():
    weight = tt.ones(1, requires_grad=True)
    optimizer = tt.optim.SGD([weight], lr=0.1)
    weight.grad = tt.ones(1)
    batches = tt.utils.data.DataLoader(tt.arange(2))
    with profile(activities=CPU) as prof:
        optimizer.step()
        optimizer.zero_grad()
        list(batches)
    step, zero, batch = (
        "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    )
    assert [e.name for e in prof.events() if e.is_user_annotation] == [step, zero, batch, batch, batch]
    assert all(e.cpu_children for e in prof.events() if e.name == step)
    assert tt.utils.data.DataLoader.__name__ and [x.item() for x in batches] == [0, 1]
