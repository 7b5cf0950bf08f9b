"""Modules of graphs: their code, attributes, submodules, copies, pickles, and errors (torch.fx.GraphModule)."""

import copy
import gc
import importlib
import io
import linecache
import operator
import pickle
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.patching import wrapped_globals

fx = tt.fx


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.p = nn.Parameter(tt.ones(2))
        self.register_buffer("b", tt.ones(2))
        self.sub = nn.Sequential(nn.ReLU(), nn.Dropout(0.0))

    def forward(self, x):
        return self.sub(self.linear(x) * self.p + self.b)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def traced(model: Model) -> fx.GraphModule:
    return fx.symbolic_trace(model)


X = tt.tensor([[1.0, -2.0], [3.0, 4.0]])

CODE = """


def forward(self, x):
    linear = self.linear(x);  x = None
    p = self.p
    mul = linear * p;  linear = p = None
    b = self.b
    add = mul + b;  mul = b = None
    sub_0 = getattr(self.sub, "0")(add);  add = None
    sub_1 = getattr(self.sub, "1")(sub_0);  sub_0 = None
    return sub_1
    """


def test_code(traced: fx.GraphModule) -> None:
    assert traced.code == CODE


def test_attributes_are_shared_with_the_traced_module(model: Model, traced: fx.GraphModule) -> None:
    assert traced.p is model.p
    assert traced.linear is model.linear
    assert list(traced.state_dict()) == ["p", "b", "linear.weight", "linear.bias"]
    assert type(traced).__name__ == "Model"
    assert traced.training
    assert not fx.symbolic_trace(model.eval()).training


def test_text(traced: fx.GraphModule) -> None:
    assert str(traced) == repr_of(traced) + "\n" + CODE + (
        "\n# To see more debug info, please use `graph_module.print_readable()`"
    )


def repr_of(module: nn.Module) -> str:
    return nn.Module.__repr__(module)


def test_recompile_after_a_change(traced: fx.GraphModule) -> None:
    before = traced(X)
    node = traced.graph.find_nodes(op="call_function", target=operator.add)[0]
    node.target = operator.sub
    assert traced(X).equal(before)
    code = traced.recompile()
    assert "mul - b" in traced.code == code.src
    assert traced(X).equal((traced.linear(X) * traced.p - 1).relu())
    assert traced.code in str(traced)


def test_another_graph_may_be_assigned(traced: fx.GraphModule) -> None:
    traced.graph = fx.symbolic_trace(lambda x: x + 1).graph
    assert traced(1) == 2
    assert traced.graph.owning_module is traced
    with pytest.raises(AssertionError, match="expected a Graph instance"):
        traced.graph = None


def test_modules_of_one_class_have_codes_of_their_own() -> None:
    first, second = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x + 2)
    assert (first(1), second(1), first.forward(1)) == (2, 3, 2)
    assert isinstance(first, fx.GraphModule)


def test_hooks_of_modules_are_called(traced: fx.GraphModule) -> None:
    seen = []
    traced.register_forward_hook(lambda module, args, output: seen.append(output))
    result = traced(X)
    assert seen == [result] or seen[0] is result


def test_a_root_may_be_a_dict() -> None:
    graph = fx.Graph()
    relu = graph.call_module("a.relu", (graph.placeholder("x"),))
    graph.output(graph.call_function(operator.add, (relu, graph.get_attr("a.b.w"))))
    module = fx.GraphModule({"a.relu": nn.ReLU(), "a.b.w": tt.ones(1)}, graph, "Named")
    assert (module(tt.tensor([-1.0])).tolist(), type(module).__name__) == ([1.0], "Named")
    assert [name for name, _ in module.named_buffers()] == ["a.b.w"]
    with pytest.raises(
        RuntimeError, match=r"Node a_b_w referenced target a\.b\.w but that target was not provided"
    ):
        fx.GraphModule({"a.relu": nn.ReLU()}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root"):
        fx.GraphModule(3, graph)


# Submodules


def test_submodules_come_and_go(traced: fx.GraphModule) -> None:
    assert traced.add_submodule("a.b.c", nn.ReLU())
    assert isinstance(traced.get_submodule("a.b.c"), nn.ReLU)
    assert not traced.add_submodule("p.x", nn.ReLU())
    assert traced.delete_submodule("a.b")
    assert [name for name, _ in traced.named_modules()] == ["", "linear", "sub", "sub.0", "sub.1", "a"]
    assert not traced.delete_submodule("a.b")
    assert not traced.delete_submodule("no.such")
    assert not traced.delete_submodule("p")


def test_unused_submodules_go(traced: fx.GraphModule) -> None:
    traced.add_submodule("un.used", nn.ReLU())
    node = traced.graph.find_nodes(op="call_module", target="sub.1")[0]
    node.replace_all_uses_with(node.args[0])
    traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "linear", "sub", "sub.0"]


def test_a_get_attr_without_a_reference_warns(traced: fx.GraphModule) -> None:
    with pytest.warns(UserWarning, match="no underlying reference in the owning GraphModule"):
        traced.graph.get_attr("no.such")
    with pytest.raises(AttributeError):
        traced.graph.call_module("no_such")
    traced.graph.get_attr("linear.weight")


def test_a_subclass_may_begin_without_a_graph(model: Model) -> None:
    """Check a subclass with a graph for each mode, as in torchvision's feature extraction."""

    class TwoGraphs(fx.GraphModule):
        def __init__(self, root, train_graph, eval_graph):
            super(fx.GraphModule, self).__init__()
            type(self).__name__ = "Two"
            for node in [*train_graph.nodes, *eval_graph.nodes]:
                if node.op in ("get_attr", "call_module"):
                    fx.graph_module._copy_attr(root, self, node.target)
            self.train_graph, self.eval_graph = train_graph, eval_graph
            self.train()
            self.graph = train_graph

        def train(self, mode=True):
            if mode != self.training:
                self.graph = self.train_graph if mode else self.eval_graph
            return super().train(mode)

    graph = fx.Tracer().trace(model)
    other = fx.Tracer().trace(nn.Sequential(nn.Identity()))
    for node in other.find_nodes(op="call_module"):
        node.target = "sub.0"
    two = TwoGraphs(model, graph, other)
    assert two(X).equal(model(X))
    assert two.eval()(X).tolist() == [[1.0, 0.0], [3.0, 4.0]]
    assert two.train()(X).equal(model(X))


def test_a_traced_module_moves(model: Model, device: str) -> None:
    moved = fx.symbolic_trace(model).to(device)
    result = moved(X.to(device))
    assert result.device.type == device
    tt.testing.assert_close(result.cpu(), model.cpu()(X))


# Copies and pickles


def test_deepcopy_has_its_own_parameters(traced: fx.GraphModule) -> None:
    traced.meta["note"] = [1]
    made = copy.deepcopy(traced)
    assert made.code == traced.code
    assert made.p is not traced.p
    assert made(X).equal(traced(X))
    assert made.meta == {"note": [1]}
    assert made.graph.owning_module is made
    assert list(made.state_dict()) == list(traced.state_dict())


def test_copy_shares_parameters(traced: fx.GraphModule) -> None:
    made = copy.copy(traced)
    assert made.p is traced.p
    assert made(X).equal(traced(X))


def test_a_subclass_stays_one(model: Model) -> None:
    class Greeting(fx.GraphModule):
        def hello(self):
            return "hello"

    made = Greeting(model, fx.Tracer().trace(model))
    copied = copy.deepcopy(made)
    assert (made.hello(), copied.hello(), type(copied).__mro__[1]) == ("hello", "hello", Greeting)


@fx.wrap
def doubled(x):
    return 2 * x


def test_a_pickle_holds_code_that_is_traced_anew(traced: fx.GraphModule) -> None:
    made = pickle.loads(pickle.dumps(traced))
    assert made.code == traced.code
    assert made(X).equal(traced(X))
    assert [(n.op, n.name) for n in made.graph.nodes] == [(n.op, n.name) for n in traced.graph.nodes]
    assert type(made.graph._tracer_cls) is type and made._tracer_cls is fx.Tracer


def test_a_pickle_of_containers_and_operators() -> None:
    def program(x):
        return {"k": abs(x["a"]) + x["b"].sum(dim=0, dtype=tt.float64) * float("inf")}

    module = fx.symbolic_trace(program, concrete_args={"x": {"a": fx.PH, "b": fx.PH}})
    made = pickle.loads(pickle.dumps(module))
    assert made({"a": -1.0, "b": tt.ones(2)})["k"].item() == float("inf")


def test_a_pickle_needs_functions_that_can_be_imported() -> None:
    def local(x):
        return x

    graph = fx.Graph()
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    module = fx.GraphModule({}, graph)
    assert module(3) == 3
    with pytest.raises(ValueError, match="which cannot be imported"):
        pickle.dumps(module)


def test_save_and_load(traced: fx.GraphModule) -> None:
    file = io.BytesIO()
    tt.save(traced, file)
    file.seek(0)
    assert tt.load(file, weights_only=False)(X).equal(traced(X))


def test_the_state_is_that_of_the_module(model: Model, traced: fx.GraphModule) -> None:
    other = fx.symbolic_trace(Model())
    assert str(other.load_state_dict(traced.state_dict())) == "<All keys matched successfully>"
    assert other(X).equal(model(X))


def test_to_folder(traced: fx.GraphModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced.to_folder(tmp_path / "written_model", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("written_model").Written()
    assert module(X).equal(traced(X))
    assert (
        "self.linear = Linear(in_features=2, out_features=2, bias=True)"
        in (tmp_path / "written_model" / "module.py").read_text()
    )


# Errors


def test_an_error_shows_the_line_of_generated_code(capsys: pytest.CaptureFixture[str]) -> None:
    module = fx.symbolic_trace(lambda x, y: tt.relu(x) + y)
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        module(tt.ones(2), tt.ones(3))
    shown = capsys.readouterr().err
    assert (
        "Call using an FX-traced Module, line 6 of the traced Module's generated forward function:" in shown
    )
    assert "    add = relu + y;  relu = y = None\n" in shown
    assert "<--- HERE" in shown


def test_an_error_below_the_generated_code_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError("own")

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    root = nn.Sequential(Failing())
    with pytest.raises(KeyError, match="own"):
        fx.GraphModule(root, Leaves().trace(root))(1)
    assert capsys.readouterr().err == ""


def test_the_lines_go_with_the_module() -> None:
    def lines() -> set[str]:
        gc.collect()
        return {name for name in linecache.cache if name.startswith("<eval_with_key>")}

    before, wrapped = lines(), set(wrapped_globals)
    module: Any = fx.symbolic_trace(lambda x: doubled(x))
    (file,) = lines() - before
    assert "test_graph_module.py" in file
    assert len(set(wrapped_globals) - wrapped) == 1
    del module
    assert not lines() - before
    assert not set(wrapped_globals) - wrapped


# Reading


def test_print_readable(traced: fx.GraphModule, capsys: pytest.CaptureFixture[str]) -> None:
    text = traced.print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert text.splitlines()[:4] == [
        "class Model(triten.nn.Module):",
        "    def forward(self, x):",
        "        # No stacktrace found for following nodes",
        "        linear = self.linear(x);  x = None",
    ]


def test_print_readable_knows_shapes(traced: fx.GraphModule) -> None:
    from triten.fx.passes.shape_prop import ShapeProp

    ShapeProp(traced).propagate(X)
    lines = [line.strip() for line in traced.print_readable(print_output=False).splitlines()]
    assert 'def forward(self, x: "f32[2, 2]"):' in lines
    assert 'mul: "f32[2, 2]" = linear * p;  linear = p = None' in lines
    colored = traced.print_readable(print_output=False, colored=True)
    assert "\033[31mf32[2, 2]\033[0m" in colored


def test_print_readable_has_the_modules_below() -> None:
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = fx.symbolic_trace(nn.Sequential(nn.ReLU()))

        def forward(self, x):
            return self.inner(x)

    class Leaves(fx.Tracer):
        record_stack_traces = True

        def is_leaf_module(self, m, module_qualified_name):
            return True

    outer = Outer()
    text = fx.GraphModule(outer, Leaves().trace(outer)).print_readable(print_output=False)
    assert "class inner(triten.nn.Module):" in text
    assert "in forward, code: return self.inner(x)" in text


# Hooks of passes


def test_changes_of_the_graph_are_told(traced: fx.GraphModule) -> None:
    told: list[Any] = []
    traced._register_create_node_hook(lambda node: told.append(("created", node.name)))
    traced._register_erase_node_hook(lambda node: told.append(("erased", node.name)))
    node = traced.graph.find_nodes(op="call_module", target="sub.1")[0]
    with (
        traced._set_replace_hook(lambda old, new, user: told.append((old.name, new, user.name))),
        traced.graph.inserting_after(node),
    ):
        made = traced.graph.call_method("exp", (node.args[0],))
        node.replace_all_uses_with(made)
        traced.graph.erase_node(node)
    assert told == [("created", "exp"), ("sub_1", "exp", "output"), ("erased", "sub_1")]


def test_a_code_generation_of_ones_own() -> None:
    class TakesList(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, given):\n    {', '.join(free_vars)}, = given"

        def generate_output(self, output_args):
            return f"return given_back([{output_args}])"

        def additional_globals(self):
            return [("given_back", tuple)]

        def process_inputs(self, given):
            return given

        def process_outputs(self, outputs):
            return (outputs,)

    module = fx.symbolic_trace(lambda x, y: x - y)
    module.graph.set_codegen(TakesList())
    module.recompile()
    assert module([3, 1]) == (2,)
    assert fx.Interpreter(module).run([3, 1]) == (2,)
    assert fx.Transformer(module).transform()([3, 1]) == (2,)
    assert copy.deepcopy(module)([3, 1]) == (2,)


def test_a_loaded_module_is_a_graph_module_by_name() -> None:
    import io

    file = io.BytesIO()
    tt.save(tt.fx.symbolic_trace(tt.nn.Linear(2, 2)), file)
    file.seek(0)
    assert type(tt.load(file, weights_only=False)).__name__ == "GraphModule"
