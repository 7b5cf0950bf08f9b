"""`tt.explain` describes a call: operators, keys, kernels, plans, algorithms, launches and files."""

import threading

import pytest

import triten as tt
from triten.dispatch.core.operator_entry import observers
from triten.dispatch.structured.choices import chosen, listeners
from triten.runtime.cpu.object_code import target


def lines_of(explanation):
    return [line.strip() for line in str(explanation).splitlines()]


def test_softmax_names_operators_keys_kernels_files_and_the_algorithm(device):
    x = tt.ones(4, 300, device=device)
    found = tt.explain(tt.softmax, x, 1)
    assert [hop.operator for hop in found.calls] == ["aten::softmax.int"]
    (inner,) = found.calls[0].calls
    assert inner.operator == "aten::_softmax"
    tt.testing.assert_close(found.result, tt.softmax(x, 1))
    key, where = ("CUDA", "cuda:0") if device == "cuda" else ("CPU", "cpu")
    package = "triton_kernels" if device == "cuda" else "cpu_fallback"
    lines = lines_of(found)
    assert lines[0] == "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"
    assert f"called with: (float32[4, 300]@{where}, 1, None)" in lines
    assert f"keys: {key}" in lines
    assert f"kernel: {key}: own, structured softmax_stub" in lines
    assert "plan: composite of other operators" in lines
    assert "plan: functional: new memory for the result" in lines
    (stub,) = inner.planning.stubs
    assert (stub.name, stub.device_type) == ("softmax_stub", device)
    assert stub.location.startswith(f"{package}/normalization/softmax.py:")
    files = {place.partition(":")[0] for place in found.files}
    assert {
        "dispatch/native_functions/softmax.yaml",
        "dispatch/structured/meta/softmax.py",
        "dispatch/composite/softmax.py",
        f"{package}/normalization/softmax.py",
    } <= files
    assert inner.planning.choices


@pytest.mark.parametrize(
    ("sizes", "dim", "algorithm", "number"),
    [
        ((4, 20), 1, "short rows by products", "20"),
        ((4, 100), 1, "whole arrays of short rows", "100"),
        ((4, 300), 1, "whole arrays", "1200"),
        ((4, 300), 0, "whole arrays", "1200"),
        ((100, 1000), 1, "rows in blocks", "100000"),
        ((500, 500), 0, "a compiled loop" if target() else "lines in blocks of the cache", "250000"),
        ((0, 3), 1, "nothing", "no elements"),
    ],
)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_on_the_host_says_which_sizes_decided(name, sizes, dim, algorithm, number):
    hop = tt.explain(getattr(tt, name), tt.ones(sizes), dim).calls[0].calls[0]
    ((found, because),) = hop.planning.choices
    assert found == algorithm
    assert number in because


def test_softmax_on_a_device_tells_of_its_launch(device):
    if device == "cpu":
        pytest.skip("nothing is launched")
    found = tt.explain(tt.softmax, tt.ones(4, 300, device=device), 1)
    hop = found.calls[0].calls[0]
    ((name, grid),) = hop.launches
    assert name == "softmax" and len(grid) == 3
    (line,) = [line for line in lines_of(found) if line.startswith("launch: ")]
    assert line.startswith(f"launch: softmax[{grid[0]} x 1 x 1] (LOG=False, ACCUMULATOR=fp32, ")
    assert "num_warps=" in line
    assert "triton_kernels/normalization/softmax_kernels.py:" in line


def test_a_recorded_call_names_the_derivative_and_goes_on_below_autograd(device):
    w = tt.ones(2, device=device).requires_grad_()
    found = tt.explain(lambda: (w * 2.0).sum().backward())
    assert [hop.operator for hop in found.calls] == [
        "aten::mul.Tensor",
        "aten::sum",
        "aten::expand",
        "aten::mul.Tensor",
    ]
    recorded = found.calls[0]
    assert recorded.planning.key.startswith("Autograd")
    assert recorded.planning.derivative.startswith("dispatch/derivatives.yaml:")
    assert recorded.planning.plan == "autograd wrapper: the call below, and a node for backward"
    assert [hop.operator for hop in recorded.calls] == ["aten::mul.Tensor"]
    assert f"aten::mul.Tensor, below {recorded.planning.key}" in lines_of(found)
    # The multiplication of the gradient is by a kernel that was made for the first one.
    assert found.calls[3].planning.stubs == recorded.calls[0].planning.stubs
    assert w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "plan"),
    [
        (lambda x: x.add_(1), "in-place: the result is written to the first argument"),
        (lambda x: tt.add(x, 1, out=x), "out: the result is written to `out`, which is resized if need be"),
        (lambda x: x.t(), "view: the same bytes in another geometry"),
        (lambda x: x + 1, "functional: new memory for the result"),
    ],
)
def test_the_plan_says_where_the_result_lies(call, plan, device):
    (hop,) = tt.explain(call, tt.ones(3, 3, device=device)).calls
    assert hop.planning.plan == plan
    assert hop.planning.meta.startswith("dispatch/structured/meta/")


def test_the_host_kernel_of_a_composition_is_told_as_it_runs_unwatched():
    found = tt.explain(tt.linalg.det, tt.eye(3))
    lines = lines_of(found)
    assert (
        "plan: host kernel of a composite: one function over whole arrays instead of its operators" in lines
    )
    assert found.calls[-1].calls == []
    below = tt.explain(tt.linalg.det, tt.eye(3).requires_grad_()).calls[-1]
    assert [hop.operator for hop in below.calls] != []


def test_calls_under_vmap_and_autocast_are_told_by_their_keys(device):
    x = tt.ones(3, 4, device=device)
    found = tt.explain(tt.vmap(tt.neg), x)
    assert "FuncTorchDynamicLayerBackMode" in found.calls[0].planning.keys
    assert found.calls[0].calls
    with tt.autocast(device, dtype=tt.bfloat16):
        found = tt.explain(tt.mm, x, x.t())
    mm = next(hop for hop in found.calls if hop.operator == "aten::mm")
    assert mm.planning.key == f"Autocast{device.upper()}"
    assert found.result.dtype is tt.bfloat16


def test_a_custom_operator_names_the_users_function():
    with tt.library.Library("explained", "DEF") as lib:
        lib.define("twice(Tensor x) -> Tensor")

        def twice(x):
            return x + x

        lib.impl("twice", twice, "CPU")
        (hop,) = tt.explain(tt.ops.explained.twice, tt.ones(2)).calls
        assert hop.operator == "explained::twice"
        assert hop.planning.kernel.startswith("own, ")
        assert "test_explain.py:" in hop.planning.kernel
        assert hop.planning.plan == "none: the kernel is called with all arguments"
        assert [each.operator for each in hop.calls] == ["aten::add.Tensor"]

        lib.define("boxed(Tensor x) -> Tensor")
        lib.impl("boxed", lambda op, keys, stack: None, "CPU", boxed=True)
        (hop,) = tt.explain(tt.ops.explained.boxed, tt.ones(2)).calls
        assert hop.planning.plan == "boxed kernel: it gets the arguments on a stack"


def test_an_error_passes_through_and_nothing_is_left_listening(device):
    watching = list(observers), list(listeners)
    x = tt.ones(2, 3, device=device)
    with pytest.raises(IndexError, match="Dimension out of range"):
        tt.explain(tt.softmax, x, 7)
    with pytest.raises(TypeError, match=r"explain\(\): argument 'fn' must be callable, not Tensor"):
        tt.explain(x)
    tt.explain(tt.softmax, x, 1)
    assert (observers, listeners) == watching
    if device == "cuda":
        from triten.runtime.cuda.driver import driver

        assert driver().launch_observer is None


def test_the_plans_of_later_calls_are_not_those_that_were_watched():
    a = tt.ones(2)
    found = tt.explain(tt.neg, a)
    tt.neg(a)
    a.neg()
    assert len(found.calls) == 1
    entry = tt.ops.aten.neg.default._entry
    assert all(plan.__name__ != "watched" for plan in entry._plans.values())


def test_calls_of_other_threads_are_not_told():
    def call():
        thread = threading.Thread(target=lambda: tt.ones(2).exp())
        thread.start()
        thread.join()
        return tt.ones(2).neg()

    assert "aten::exp" not in {hop.operator for hop in tt.explain(call).calls}


def test_repeated_calls_are_counted():
    a = tt.ones(2)
    found = tt.explain(lambda: [a.neg() for _ in range(5)])
    assert len(found.calls) == 5
    assert "and 4 more calls like this" in lines_of(found)


def test_a_function_without_operators_says_so():
    found = tt.explain(lambda: 3)
    assert (str(found), found.result, found.files) == ("no operator was called", 3, ())


def test_explanations_nest():
    outer = tt.explain(lambda: tt.explain(tt.neg, tt.ones(2)).calls[0].operator)
    assert outer.result == "aten::neg"
    assert "aten::neg" in {hop.operator for hop in outer.calls}


def test_a_choice_is_put_together_only_for_a_listener():
    class Numbers:
        def __str__(self):
            raise AssertionError("nobody listens")

    chosen("any", "{} decided", Numbers())


FAMILIES = {
    "mm": (lambda x: tt.mm(x(8, 9), x(9, 7)), "BLAS in one call", "tiled, through pointers"),
    "mm of a column": (lambda x: tt.mm(x(8, 9), x(9, 1)), "BLAS in one call", "lines by a vector"),
    "mm of integers": (
        lambda x: tt.mm(x(8, 9).long(), x(9, 7).long()),
        "integer products",
        "tiled, through pointers",
    ),
    "mm of halves": (
        lambda x: tt.mm(x(16, 64).half(), x(64, 16).half()),
        "BLAS in float32",
        "persistent, by tensor descriptors",
    ),
    "bmm": (lambda x: tt.bmm(x(3, 8, 9), x(3, 9, 7)), "BLAS for each matrix", "tiled, through pointers"),
    "conv2d": (
        lambda x: tt.conv2d(x(1, 4, 8, 8), x(4, 4, 3, 3)),
        "columns",
        "implicit GEMM, through pointers",
    ),
    "conv2d of a tap": (lambda x: tt.conv2d(x(1, 4, 8, 8), x(4, 4, 1, 1)), "one product", "one product"),
    "conv2d by groups": (
        lambda x: tt.conv2d(x(1, 4, 8, 8), x(4, 1, 3, 3), None, 1, 0, 1, 4),
        "columns",
        "depthwise",
    ),
    "sum": (lambda x: tt.sum(x(40)), "a product with ones", "one launch"),
    "add": (lambda x: tt.add(x(3, 4), x(3, 4)), "one call of a ufunc", "dense"),
    "add a row": (lambda x: tt.add(x(30, 4), x(4)), "one call of a ufunc", "rows"),
    "exp of halves": (lambda x: tt.exp(x(10).half()), "passes over whole arrays", "dense"),
    "sort": (lambda x: tt.sort(x(10)), "NumPy's stable argsort", "rows in registers"),
    "topk": (lambda x: tt.topk(x(5000), 3), "candidates beyond a bound", "selection by digits"),
    "layer_norm": (
        lambda x: tt.nn.functional.layer_norm(x(5, 6), (6,)),
        "short rows by products",
        "whole rows",
    ),
    "attention": (
        lambda x: tt.nn.functional.scaled_dot_product_attention(x(1, 2, 8, 8), x(1, 2, 8, 8), x(1, 2, 8, 8)),
        "several heads in a block",
        "through pointers",
    ),
}


def choices_of(hops):
    for hop in hops:
        yield from hop.planning.choices
        yield from choices_of(hop.calls)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_with_several_kernels_name_the_one_that_was_chosen(family, device):
    call, on_host, on_device = FAMILIES[family]
    found = tt.explain(call, lambda *sizes: tt.ones(*sizes, device=device))
    assert (on_device if device == "cuda" else on_host) in dict(choices_of(found.calls))
    assert all("{" not in because and not because.endswith(".") for _, because in choices_of(found.calls))


def test_rows_of_one_element_have_an_algorithm_too(device):
    found = tt.explain(tt.softmax, tt.ones(4, 1, 6, device=device), 1)
    assert found.result.tolist() == tt.ones(4, 1, 6).tolist()
    assert list(choices_of(found.calls))
