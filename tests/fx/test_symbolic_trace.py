"""Tracing: what becomes a step, what is refused, and what a `Tracer` may decide otherwise (torch.fx.symbolic_trace)."""

import dataclasses
import enum
import functools
import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx._symbolic_trace import PHWithMeta, is_fx_tracing

fx = tt.fx


def nodes(graph: fx.Graph) -> list[tuple[Any, ...]]:
    return [(node.op, node.name, node.target) for node in graph.nodes]


def code(function: Any, **options: Any) -> list[str]:
    """Return the lines of a traced program."""
    lines = fx.symbolic_trace(function, **options).code.strip().splitlines()
    return [line.strip() for line in lines if line.strip()]


# Unsupported functions


def with_if(x):
    return x if x.sum() > 0 else -x


def with_loop(x):
    for each in x:
        print(each)


def with_star(x):
    first, *rest = x
    return first, rest


CONTROL_FLOW = "symbolically traced variables cannot be used as inputs to control flow"
ITERATED = "Proxy object cannot be iterated"


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (with_if, fx.proxy.TraceError, CONTROL_FLOW),
        (lambda x: x and 1, fx.proxy.TraceError, CONTROL_FLOW),
        (lambda x: not x, fx.proxy.TraceError, CONTROL_FLOW),
        (lambda x: bool(x == 1), fx.proxy.TraceError, CONTROL_FLOW),
        (with_loop, fx.proxy.TraceError, ITERATED),
        (with_star, fx.proxy.TraceError, ITERATED),
        (lambda x: list(x), fx.proxy.TraceError, ITERATED),
        (lambda x: 1 in x, fx.proxy.TraceError, ITERATED),
        (lambda x: [*x], fx.proxy.TraceError, ITERATED),
        (lambda x: tt.add(*x), fx.proxy.TraceError, ITERATED),
        (lambda x: dict(**x), fx.proxy.TraceError, ITERATED),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
        (lambda x: range(x), TypeError, "'Proxy' object cannot be interpreted as an integer"),
        (lambda x: int(x), TypeError, "int() argument must be"),
        (lambda x: tt.tensor(x), TypeError, "__cuda_array_interface__"),
        (lambda x: {x: 1}, RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node"),
        (lambda x: {x}, NotImplementedError, "argument of type: <class 'set'>"),
        (lambda x: tt.add(x, object()), NotImplementedError, "argument of type: <class 'object'>"),
    ],
)
def test_what_needs_a_value_is_refused(
    program: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        fx.symbolic_trace(program)


def test_assignment_to_an_element_is_refused() -> None:
    def program(x):
        x[0] = 1

    with pytest.raises(TypeError, match="does not support item assignment"):
        fx.symbolic_trace(program)


@pytest.mark.parametrize("root", [functools.partial(with_if, x=1), len, nn.Linear(1, 1).forward])
def test_what_is_neither_a_function_nor_a_module_is_refused(root: Any) -> None:
    with pytest.raises(AssertionError, match="expected a function or a module"):
        fx.symbolic_trace(root)


def test_a_refused_program_leaves_nothing_exchanged() -> None:
    before = nn.Module.__call__, nn.Module.__getattr__, math.sqrt
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(with_if)
    assert (nn.Module.__call__, nn.Module.__getattr__, math.sqrt) == before
    assert not is_fx_tracing()


def test_the_functions_own_code_is_back_after_a_trace() -> None:
    fx.symbolic_trace(lambda x: tt.relu(x))
    assert tt.relu(tt.tensor([-1.0])).tolist() == [0.0]
    assert tt.relu.__code__.co_varnames[:1] == ("input",)


# Values


def test_operands_of_einsum_are_arguments_one_by_one() -> None:
    traced = fx.symbolic_trace(lambda x, y: tt.einsum("ab,bc->ac", [x, y]))
    x, y, node, _ = traced.graph.nodes
    assert node.args == ("ab,bc->ac", x, y)
    assert traced(tt.ones(2, 3), tt.ones(3, 1)).tolist() == [[3.0], [3.0]]


def test_unpacking_takes_elements() -> None:
    def program(x):
        (a, b), c = x
        return a + b + c

    assert code(program)[1:6] == [
        "getitem = x[0]",
        "getitem_1 = x[1];  x = None",
        "getitem_2 = getitem[0]",
        "getitem_3 = getitem[1];  getitem = None",
        "add = getitem_2 + getitem_3;  getitem_2 = getitem_3 = None",
    ]


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Pair:
    a: Any
    b: int


@fx.wrap
def kept(x, *args, **kwargs):
    return x


fx.wrap("sum")


def test_an_enum_a_dataclass_and_an_ellipsis_are_arguments() -> None:
    graph = fx.symbolic_trace(lambda x: kept(x, Pair(x, 2), Color.RED, ..., key=range(3))).graph
    _, pair, call, _ = graph.nodes
    assert (pair.target, pair.kwargs) == (Pair, {"a": next(iter(graph.nodes)), "b": 2})
    assert (call.args[1:], call.kwargs) == ((pair, Color.RED, ...), {"key": range(3)})


def test_wrapped_functions_are_one_step() -> None:
    module = fx.symbolic_trace(lambda x: kept(x, sum([x, x])) + kept(3))
    assert [node.name for node in module.graph.nodes] == ["x", "sum_1", "kept", "add", "output"]
    assert 'triten.fx.wrap("sum")' in module.code
    assert module(tt.ones(2)).tolist() == [4.0, 4.0]


def test_a_traced_program_that_wraps_can_be_traced_again() -> None:
    again = fx.symbolic_trace(fx.symbolic_trace(lambda x: kept(x)))
    assert [node.name for node in again.graph.nodes] == ["x", "kept", "output"]


def test_wrap_belongs_to_the_top_level() -> None:
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="expected a callable or the name of a global function, got int"):
        fx.wrap(3)


def test_functions_of_other_modules_can_be_wrapped_by_a_tracer() -> None:
    graph = fx.Tracer(autowrap_functions=(with_loop,)).trace(lambda x: with_loop(x))
    assert nodes(graph)[1] == ("call_function", "with_loop", with_loop)


class Point(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def add(self, other):
        return Point(self.left + other.left, self.right + other.right)


def test_instances_of_proxyable_classes_are_made_by_a_step() -> None:
    module = fx.symbolic_trace(lambda p, y: p.add(Point(y, y)))
    assert nodes(module.graph)[2:4] == [("call_function", "point", Point), ("call_method", "add", "add")]
    result = module(Point(1, 2), 10)
    assert (result.left, result.right) == (11, 12)


def test_an_instance_from_outside_becomes_an_attribute() -> None:
    module = fx.symbolic_trace(lambda x: kept(x, outside))
    assert nodes(module.graph)[1] == ("get_attr", "_point_constant_0", "_Point_constant_0")
    assert module._Point_constant_0 is outside


outside = Point(1, 2)


# Parameters


def test_defaults_stay() -> None:
    module = fx.symbolic_trace(lambda x, y=5, *, z=7: (x, y, z))
    assert (module(1), module(1, 2, z=3)) == ((1, 5, 7), (1, 2, 3))


def test_variadic_parameters_stay() -> None:
    module = fx.symbolic_trace(lambda x, *args, **kwargs: x + args[1] + kwargs["k"])
    assert [node.target for node in module.graph.find_nodes(op="placeholder")] == ["x", "*args", "**kwargs"]
    assert module(1, 0, 10, k=100) == 111


def branching(a, b):
    if b == True:  # noqa: E712
        return a
    return a * 2


def test_concrete_args_fix_a_value() -> None:
    module = fx.symbolic_trace(branching, concrete_args={"b": False})
    assert code(branching, concrete_args={"b": False}) == [
        "def forward(self, a, b_1):",
        "eq = b_1 == False;  b_1 = None",
        "_assert = triten._assert(eq, 'b has been specialized to have value False but got another value');"
        "  eq = _assert = None",
        "mul = a * 2;  a = None",
        "return mul",
    ]
    assert module(3, False) == 6
    with pytest.raises(AssertionError, match="b has been specialized to have value False"):
        module(3, True)


def test_concrete_args_fix_none() -> None:
    module = fx.symbolic_trace(lambda a, b=None: a if b is None else a + b, concrete_args={"b": None})
    assert module(1) == 1
    with pytest.raises(AssertionError, match="b has been specialized to have value None"):
        module(1, 2)


def test_concrete_args_of_other_classes_warn() -> None:
    with pytest.warns(UserWarning, match="Was not able to add assertion to guarantee correct input b"):
        fx.symbolic_trace(lambda a, b: a, concrete_args={"b": object()})


def test_concrete_args_take_containers_apart() -> None:
    def program(x, y):
        return {"s": x[0] + x[1]["k"], "t": [y]}

    options = {"x": (fx.PH, {"k": fx.PH}), "y": fx.PH}
    module = fx.symbolic_trace(program, concrete_args=options)
    assert code(program, concrete_args=options) == [
        "def forward(self, x, y):",
        "x_1, x_2, y_1, = fx_pytree.tree_flatten_spec([x, y], self._in_spec)",
        "add = x_1 + x_2;  x_1 = x_2 = None",
        "return pytree.tree_unflatten([add, y_1], self._out_spec)",
    ]
    assert module((1, {"k": 2}), 3) == {"s": 3, "t": [3]}
    assert fx.Interpreter(module).run((1, {"k": 2}), 3) == {"s": 3, "t": [3]}


def test_concrete_args_of_a_module() -> None:
    class Model(nn.Module):
        def forward(this, x, y):
            return {"o": x["a"] + y[0], "l": [y[1]]}

    module = fx.symbolic_trace(Model(), concrete_args={"x": {"a": fx.PH}, "y": (fx.PH, fx.PH)})
    for run in (module, fx.Interpreter(module).run, fx.Transformer(module).transform()):
        assert run({"a": 1}, (2, [3])) == {"o": 3, "l": [[3]]}


def test_concrete_args_by_position() -> None:
    module = fx.symbolic_trace(lambda a, b: a + b, concrete_args=(fx.PH, 3))
    assert module(1, 3) == 4
    with pytest.raises(RuntimeError, match="Tracing expected 2 arguments but got 1 concrete arguments"):
        fx.symbolic_trace(lambda a, b: a, concrete_args=(fx.PH,))


def test_a_placeholder_with_meta_gives_its_attributes_to_the_node() -> None:
    graph = fx.symbolic_trace(lambda a: a + 1, concrete_args={"a": PHWithMeta("key")}).graph
    assert next(iter(graph.nodes)).ph_key == "key"


def test_annotations_stay() -> None:
    def program(x: tt.Tensor, y: list[tt.Tensor], z: int | None = None) -> tuple[tt.Tensor, int]:
        return x, 1

    assert code(program)[0] == (
        "def forward(self, x : triten.Tensor, y : list[triten.Tensor], z : int|NoneType = None) -> "
        "tuple[triten.Tensor,int]:"
    )


def test_annotations_of_tensors_in_nn_stay() -> None:
    assert code(nn.ReLU())[0] == "def forward(self, input : triten.Tensor) -> triten.Tensor:"
    assert code(nn.Sequential(nn.ReLU()))[0] == "def forward(self, input):"


# Modules


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("b", tt.ones(2))
        self.plain = tt.zeros(2)

    def forward(self, x):
        return self.linear(x) + self.b + self.plain + self.linear.bias


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


def test_modules_of_nn_are_leaves_and_others_are_traced_through() -> None:
    assert nodes(fx.symbolic_trace(Outer()).graph) == [
        ("placeholder", "x", "x"),
        ("call_module", "inner_linear", "inner.linear"),
        ("get_attr", "inner_b", "inner.b"),
        ("call_function", "add", operator.add),
        ("get_attr", "inner_plain", "inner.plain"),
        ("call_function", "add_1", operator.add),
        ("get_attr", "inner_linear_bias", "inner.linear.bias"),
        ("call_function", "add_2", operator.add),
        ("output", "output", "output"),
    ]


def test_a_tracer_chooses_leaves() -> None:
    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "inner" or super().is_leaf_module(m, module_qualified_name)

    tracer = Leaves()
    graph = tracer.trace(Outer())
    assert nodes(graph)[1] == ("call_module", "inner", "inner")
    assert tracer.path_of_module(tracer.root.inner.linear) == "inner.linear"
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        tracer.path_of_module(nn.ReLU())


def test_a_tracer_chooses_arguments() -> None:
    class Text:
        pass

    class Named(fx.Tracer):
        def create_arg(self, a):
            return "text" if isinstance(a, Text) else super().create_arg(a)

    graph = Named().trace(lambda x: x.method(Text()))
    assert list(graph.nodes)[1].args[1] == "text"


def test_modules_and_parameters_from_outside_are_refused() -> None:
    module = Inner()
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        fx.symbolic_trace(lambda x: module(x))
    with pytest.raises(NameError, match="parameter is not a member of this module"):
        fx.symbolic_trace(lambda x: x + module.linear.bias)


def test_tensors_from_outside_become_attributes() -> None:
    outside = tt.arange(2.0)
    module = fx.symbolic_trace(lambda x: x + outside + outside + tt.ones(2))
    assert [name for name, _ in module.named_buffers()] == ["_tensor_constant0", "_tensor_constant1"]
    assert module._tensor_constant0 is outside
    assert module(tt.zeros(2)).tolist() == [1.0, 3.0]


def test_buffers_may_be_proxies() -> None:
    class Buffers(fx.Tracer):
        proxy_buffer_attributes = True

    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", tt.ones(2))

        def forward(self, x):
            return self.b.exp() + x

    assert nodes(Buffers().trace(Reading()))[1:3] == [("get_attr", "b", "b"), ("call_method", "exp", "exp")]
    assert nodes(fx.symbolic_trace(Reading()).graph)[1][0] == "get_attr"


class Shaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(tt.ones(2, 3))

    def forward(self, x):
        return x.view(self.p.shape[0], -1) if self.p.dim() == 2 else x


def test_shapes_of_parameters_may_be_constants() -> None:
    graph = fx.Tracer(param_shapes_constant=True).trace(Shaped())
    assert [(node.op, node.args) for node in graph.nodes][2] == (
        "call_method",
        (next(iter(graph.nodes)), 2, -1),
    )
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(Shaped())


# pytest writes the assertions of its modules anew.
PROGRAM: dict[str, Any] = {}
exec("def asserting(x):\n    assert x.sum() > 0\n    return x", PROGRAM)
asserting = PROGRAM["asserting"]


def test_assertions_may_be_traced() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    graph = Asserting().trace(asserting)
    module = fx.GraphModule(nn.Module(), graph)
    assert [node.name for node in graph.nodes] == ["x", "sum_1", "gt", "assert_fn", "output"]
    assert module(tt.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(AssertionError, match="Assertion failed"):
        module(-tt.ones(2))
    with pytest.raises(fx.proxy.TraceError):
        Asserting().trace(with_if)
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(asserting)


def test_nodes_know_their_module_and_their_line() -> None:
    class Recording(fx.Tracer):
        record_stack_traces = True

    x, linear, *_ = Recording().trace(Outer()).nodes
    assert x.stack_trace is None
    assert linear.stack_trace.splitlines()[-1].strip() == (
        "return self.linear(x) + self.b + self.plain + self.linear.bias"
    )
    assert "triten/fx/" not in linear.stack_trace
    assert list(linear.meta["nn_module_stack"]) == ["inner", "inner.linear"]


def test_a_module_that_is_called_twice_has_two_entries_in_the_stack() -> None:
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.relu(x))

    _, first, second, _ = fx.symbolic_trace(Twice()).graph.nodes
    assert (list(first.meta["nn_module_stack"]), list(second.meta["nn_module_stack"])) == (
        ["relu"],
        ["relu@1"],
    )


def test_lazy_modules_are_steps_and_learn_their_size_later() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.LazyLinear(3)))
    assert nodes(module.graph)[1] == ("call_module", "_0", "0")
    assert module(tt.ones(2, 4)).shape == tt.Size([2, 3])


def test_parameters_of_lists_are_read_one_by_one() -> None:
    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.ps = nn.ParameterList([nn.Parameter(tt.ones(2)) for _ in range(2)])

        def forward(self, x):
            for p in self.ps:
                x = x + p
            return x

    assert [node.name for node in fx.symbolic_trace(Lists()).graph.nodes] == [
        *("x", "ps_0", "add", "ps_1", "add_1", "output"),
    ]


class Held:
    """A value that says itself what it is in a graph."""

    def __init__(self, a):
        self.a = a

    def __fx_create_arg__(self, tracer):
        return tracer.create_node("call_function", Held, (tracer.create_arg(self.a),), {})


def test_values_may_say_what_they_are_in_a_graph() -> None:
    graph = fx.symbolic_trace(lambda x: kept(x, Held(x))).graph
    assert [(node.name, node.target) for node in graph.nodes][1:3] == [("held", Held), ("kept", kept)]


def test_a_tracer_may_answer_for_proxies() -> None:
    class Answering(fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj, 1])

        def keys(self, obj):
            return ["k"]

    graph = Answering().trace(lambda x: (1 if x else 2, [each + 0 for each in x], dict(**x)))
    _, add, item, output = graph.nodes
    assert (item.target, output.args[0]) == (operator.getitem, (1, [add, 1], {"k": item}))


def test_another_method_may_be_traced() -> None:
    class Model(nn.Module):
        def forward(self, x):
            return x

        def other(self, x, y):
            return x - y

    class Other(fx.Tracer):
        traced_func_name = "other"

    assert [node.name for node in Other().trace(Model()).nodes] == ["x", "y", "sub", "output"]
    Other.traced_func_name = "no_such"
    with pytest.raises(AssertionError, match="traced_func_name=no_such doesn't exist in Model"):
        Other().trace(Model())


def test_a_dataclass_and_a_named_tuple_are_made_by_steps() -> None:
    module = fx.symbolic_trace(lambda x: (Pair(x, 1), tt.max(x, dim=0)))
    pair, largest = module(tt.tensor([3.0, 5.0]))
    assert (type(pair), pair.b, largest.values.item()) == (Pair, 1, 5.0)


def test_whether_something_is_traced_is_known() -> None:
    seen = []
    fx.symbolic_trace(lambda x: seen.append(is_fx_tracing()))
    assert (seen, is_fx_tracing()) == ([True], False)


# Public functions


PUBLIC = [
    (name, function)
    for namespace in (tt, nn.functional, tt.Tensor)
    for function in tt.overrides.get_overridable_functions()[namespace]
    if not (name := function.__name__).startswith("__")
]


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: (function(x), x)[1]


def test_every_public_function_is_recorded_as_itself() -> None:
    assert len(PUBLIC) > 1000
    wrong = []
    for name, function in PUBLIC:
        tracer = fx.Tracer()
        graph = tracer.trace(calling(function))
        _, node, *_ = graph.nodes
        is_method = tt.overrides.is_tensor_method_or_property(function)
        if (node.op, node.target) != (("call_method", name) if is_method else ("call_function", function)):
            wrong.append(name)
    assert wrong == []


def test_every_public_function_can_be_written() -> None:
    functions = {
        function for _, function in PUBLIC if not tt.overrides.is_tensor_method_or_property(function)
    }
    for function in functions:
        name = fx.node.Node._pretty_print_target(function)
        assert eval(name, {"triten": tt}) is function


CALLS = Path(__file__).with_name("function_calls.txt").read_text().splitlines()
"""What PyTorch 2.13 records of a call of a function with so many proxies, by position: a line for each."""


def calling_with(path: str, count: int) -> Callable[..., Any]:
    return lambda *args: operator.attrgetter(path)(tt)(*[args[i] for i in range(count)])


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.partition(":")[0])
def test_arguments_are_handed_on_as_in_pytorch(call: str) -> None:
    given, _, expected = call.partition(": ")
    path, count = given.split()
    graph = fx.Tracer().trace(calling_with(path, int(count)))
    (node,) = [node for node in graph.nodes if node.op.startswith("call") and "getitem" not in node.name]
    target = node.target if isinstance(node.target, str) else node.target.__name__
    assert f"{node.op} {target} {len(node.args)} {node.kwargs}" == expected


def test_arguments_stay_as_they_were_written() -> None:
    def program(x, w):
        return (
            tt.sum(x, dim=1),
            tt.cat([x, x], dim=1),
            tt.add(x, other=1),
            nn.functional.conv2d(x, w, stride=1),
        )

    calls = [node for node in fx.symbolic_trace(program).graph.nodes if node.op == "call_function"]
    assert [(len(node.args), node.kwargs) for node in calls] == [
        (1, {"dim": 1}),
        (1, {"dim": 1}),
        (1, {"other": 1}),
        (2, {"stride": 1}),
    ]


def test_operators_of_the_dispatcher_are_recorded() -> None:
    module = fx.symbolic_trace(lambda x: tt.ops.aten.add.Tensor(x, tt.ops.aten.relu.default(x)))
    assert nodes(module.graph)[1:3] == [
        ("call_function", "relu_default", tt.ops.aten.relu.default),
        ("call_function", "add_tensor", tt.ops.aten.add.Tensor),
    ]
    assert "triten.ops.aten.add.Tensor(x, relu_default)" in module.code
    assert module(tt.tensor([-1.0, 2.0])).tolist() == [-1.0, 4.0]


def test_a_factory_without_proxies_is_run() -> None:
    assert nodes(fx.symbolic_trace(lambda: tt.ones(2)).graph)[0][0] == "get_attr"


def test_modes_around_a_trace_see_calls_first() -> None:
    seen = []

    class Log(tt.overrides.TensorFunctionMode):
        def __tensor_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Log():
        graph = fx.symbolic_trace(lambda x: tt.sum(x, dim=1) + 1).graph
    assert seen == ["sum"]
    assert graph.find_nodes(op="call_function", target=tt.sum)[0].kwargs == {"dim": 1}
    with tt.device("meta"):
        module = fx.symbolic_trace(lambda x: tt.relu(x) + tt.ones(2))
    assert module._tensor_constant0.device.type == "meta"


def test_a_traced_module_is_differentiated_and_mapped() -> None:
    module = fx.symbolic_trace(lambda x: (x * x).sum())
    assert tt.func.grad(module)(tt.ones(2)).tolist() == [2.0, 2.0]
    assert tt.vmap(module)(tt.ones(3, 2)).tolist() == [2.0, 2.0, 2.0]
    assert tt.func.make_graph(module, check=True)(tt.ones(2))(tt.ones(2)).item() == 2.0
