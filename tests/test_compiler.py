"""`tt.compile` gives back what it is given, says so once, and refuses what PyTorch refuses."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import triten as tt


def function(x):
    return x + 1


def test_a_module_and_a_function_are_given_back() -> None:
    module = tt.nn.Linear(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tt.compile(module) is module
        assert tt.compile(function, fullgraph=True, dynamic=True, backend="inductor") is function
        assert tt.compile()(function) is function
        assert tt.compile(mode="max-autotune")(module) is module
    assert tt.compiler.disable(function) is function
    assert tt.compiler.disable()(function) is function
    assert tt.compiler.compile is tt.compile


def test_a_process_is_told_once_that_nothing_is_compiled() -> None:
    program = """
import warnings, triten as tt
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    tt.compile(len, disable=True)
    print(len(seen))
    tt.compile(len)
    tt.compile()(len)
    print([str(each.message) for each in seen], [each.filename for each in seen])
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    first, second = said.splitlines()
    assert first == "0"
    assert second.count("nothing is compiled") == 1 and "<string>" in second


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((3,), {}, AssertionError, "A callable function is expected, but <class 'int'> is provided"),
        (
            (function,),
            {"mode": "fast"},
            RuntimeError,
            "Unrecognized mode=fast, should be one of: default, lite,",
        ),
        (
            (function,),
            {"mode": "default", "options": {}},
            RuntimeError,
            "Either mode or options can be specified",
        ),
    ],
)
@pytest.mark.parametrize("disable", [False, True])
def test_compile_refuses(arguments, options, error, said, disable) -> None:
    with pytest.raises(error, match=said):
        tt.compile(*arguments, disable=disable, **options)


def test_nobody_compiles() -> None:
    compiler = tt.compiler
    assert not compiler.is_compiling() and not compiler.is_dynamo_compiling() and not compiler.is_exporting()
    assert compiler.list_backends() == []
    assert compiler.allow_in_graph([function]) == [function]
    assert compiler.get_default_backend() == "inductor"
    compiler.set_default_backend("eager")
    assert compiler.get_default_backend() == "eager"
    compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "inductor"
    with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
        compiler.allow_in_graph(3)
    with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
        compiler.substitute_in_graph(3)


def test_a_stance_is_one_of_pytorch_s() -> None:
    with tt.compiler.set_stance("force_eager"):
        assert function(1) == 2
    assert tt.compiler.set_stance("default")(function) is function
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

    assert not isinstance(tt.nn.Linear(1, 1), _dynamo.OptimizedModule)
    assert not is_dynamo_supported() and not is_compile_supported("cuda") and not is_fake(tt.ones(1))
    with _dynamo.config.patch(capture_scalar_outputs=True):
        assert _dynamo.config.capture_scalar_outputs
    assert not hasattr(_dynamo.config, "capture_scalar_outputs")


def test_modules_are_asked_to_compile_themselves() -> None:
    module = tt.nn.Linear(2, 3)
    assert module.compile(disable=True) is None
    assert module(tt.ones(1, 2)).shape == (1, 3) and list(module.state_dict()) == ["weight", "bias"]
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        module.compile(mode="quick")
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        module.compile(foo=1)
