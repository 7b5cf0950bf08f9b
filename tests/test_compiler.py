"""`tt.compiler`: arguments that are refused, marks, backends, and names that programs ask PyTorch's compiler by."""

import numpy as np
import pytest

import triten as tt


def function(x):
    return x + 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((3,), {}, AssertionError, "A callable function is expected, but <class 'int'> is provided"),
        ((function,), {"mode": "fast"}, RuntimeError, "Unrecognized mode=fast, should be one of: default, lite,"),
        ((function,), {"mode": "default", "options": {}}, RuntimeError, "Either mode or options can be specified"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("disable", [False, True])
def test_compile_refuses(arguments, options, error, said, disable) -> None:
    with pytest.raises(error, match=said):
        tt.compile(*arguments, disable=disable, **options)


def test_disabled_compilation_gives_back_what_it_is_given() -> None:
    module = tt.nn.Linear(2, 3)
    assert tt.compile(module, disable=True) is module
    assert tt.compile(disable=True)(function) is function


def test_backends() -> None:
    compiler = tt.compiler
    assert {"triten", "inductor"} <= set(compiler.list_backends())
    assert not {"eager", "graph"} & set(compiler.list_backends())
    assert {"eager", "graph"} <= set(compiler.list_backends(()))
    with pytest.raises(RuntimeError, match="Invalid backend: 'fast'"):
        tt.compile(function, backend="fast")
    with pytest.raises(ValueError, match="duplicate name: eager"):
        compiler.register_backend(lambda graph, examples: None, name="eager")
    assert compiler.get_default_backend() == "inductor"
    compiler.set_default_backend("eager")
    assert compiler.get_default_backend() == "eager"
    compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "inductor"


def test_a_backend_of_one_s_own_gets_the_graph() -> None:
    seen = []

    def counting(graph, examples):
        seen.append((len(graph.find_nodes(op="call_function")), [tuple(x.shape) for x in examples]))
        return tt.compiler.interpreted(graph)

    compiled = tt.compile(lambda x: (x + 1).exp(), backend=counting)
    x = tt.randn(3)
    assert tt.equal(compiled(x), (x + 1).exp()) and tt.equal(compiled(x + 1), (x + 2).exp())
    assert seen == [(2, [(3,)])]


def test_marks() -> None:
    compiler = tt.compiler
    assert not compiler.is_compiling() and not compiler.is_dynamo_compiling() and not compiler.is_exporting()
    assert compiler.allow_in_graph([function]) == [function]
    with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
        compiler.allow_in_graph(3)
    with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
        compiler.substitute_in_graph(3)
    assert compiler.disable(function)(1) == 2 and compiler.disable()(function)(1) == 2
    assert compiler.compile is tt.compile


def test_a_function_knows_that_it_is_captured() -> None:
    def f(x):
        return x + (1 if tt.compiler.is_compiling() else 2)

    x = tt.zeros(2)
    assert f(x).tolist() == [2, 2] and tt.compile(f)(x).tolist() == [1, 1]


def test_a_stance_is_one_of_pytorch_s() -> None:
    with tt.compiler.set_stance("force_eager"):
        assert function(1) == 2
    assert tt.compiler.set_stance("default")(function)(1) == 2
    with pytest.raises(RuntimeError, match=r"invalid torch\.compile stance 'fast'"):
        tt.compiler.set_stance("fast")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        tt.compiler.set_stance("force_eager", force_backend="eager")


def test_functions_of_arrays_take_tensors() -> None:
    wrapped = tt.compiler.wrap_numpy(lambda a, b, scale: {"sum": (a + b["x"]) * scale, "least": np.min(a)})
    found = wrapped(tt.tensor([1.0, 2.0]), {"x": tt.tensor([3.0, 4.0])}, scale=2)
    assert found["sum"].tolist() == [8.0, 12.0]
    assert found["least"].item() == 1.0


def test_questions_by_the_compiler_s_private_name() -> None:
    from triten import _dynamo
    from triten._dynamo.eval_frame import is_dynamo_supported
    from triten._dynamo.utils import is_compile_supported
    from triten._subclasses.fake_tensor import is_fake

    module = tt.nn.Linear(1, 1)
    assert not isinstance(module, _dynamo.OptimizedModule)
    assert isinstance(tt.compile(module), _dynamo.OptimizedModule)
    assert is_dynamo_supported() and is_compile_supported("cuda") and not is_fake(tt.ones(1))
    with _dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=3):
        assert _dynamo.config.capture_scalar_outputs and _dynamo.config.cache_size_limit == 3
    assert not _dynamo.config.capture_scalar_outputs and _dynamo.config.recompile_limit == 8


def test_modules_are_asked_to_compile_themselves() -> None:
    module = tt.nn.Linear(2, 3)
    assert module.compile(disable=True) is None
    assert module(tt.ones(1, 2)).shape == (1, 3) and list(module.state_dict()) == ["weight", "bias"]
    module.compile(fullgraph=True)
    assert tt.equal(module(tt.ones(1, 2)), tt.nn.functional.linear(tt.ones(1, 2), module.weight, module.bias))
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        module.compile(mode="quick")
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        module.compile(foo=1)
