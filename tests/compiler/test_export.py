"""Exported programs agree with their modules: results, writes, aliases, random numbers, state; and the
errors.
"""

import copy
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.export import InputKind, OutputKind
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.exported_models import CASES, made


def exported(name: str, device: str = "cpu") -> tt.export.ExportedProgram:
    args, kwargs = CASES[name].arguments(device)
    return tt.export.export(made(name, device), args, kwargs)


def without_gradients(value: Any) -> Any:
    with tt.no_grad():
        return tt.utils._pytree.tree_map_only(tt.Tensor, lambda x: x.detach(), value)


@pytest.mark.parametrize("name", CASES)
def test_a_program_does_what_its_module_does(name: str, device: str) -> None:
    module, program = made(name, device), exported(name, device)
    compiled = program.module()
    for call in range(2):
        args, kwargs = CASES[name].arguments(device)
        own_args, own_kwargs = CASES[name].arguments(device)
        tt.manual_seed(call)
        with tt.no_grad():
            expected = module(*args, **kwargs)
        after = tt.rand(1)
        tt.manual_seed(call)
        with tt.no_grad():
            found = compiled(*own_args, **own_kwargs)
        same(found, expected, f"call {call}: result")
        same((own_args, own_kwargs), (args, kwargs), f"call {call}: arguments")
        same(dict(compiled.state_dict()), dict(module.state_dict()), f"call {call}: state")
        same(tt.rand(1), after, "the next random number")


def test_the_signature_has_pytorchs_kinds() -> None:
    program = exported("counter")
    signature = program.graph_signature
    assert signature.buffers == ("calls", "sum") and signature.non_persistent_buffers == ("sum",)
    assert signature.lifted_tensor_constants == ("weights",) and signature.parameters == ()
    assert sorted(signature.buffers_to_mutate.values()) == ["calls", "sum"]
    assert signature.user_inputs == ("x",) and len(signature.user_outputs) == 3
    assert [spec.kind for spec in signature.input_specs] == [
        *[InputKind.BUFFER] * 2,
        InputKind.CONSTANT_TENSOR,
        InputKind.USER_INPUT,
    ]
    assert list(program.state_dict) == ["calls"] and sorted(program.constants) == ["sum", "weights"]
    assert exported("in place").graph_signature.user_inputs_to_mutate == {"copy_": "x"}
    assert OutputKind.USER_INPUT_MUTATION in [
        s.kind for s in exported("in place").graph_signature.output_specs
    ]
    parameters = exported("perceptron").graph_signature.inputs_to_parameters
    assert parameters["p_0_weight"] == "0.weight"


def test_parameters_and_buffers_are_the_modules() -> None:
    module = made("convolutions", "cpu")
    program = tt.export.export(module, *CASES["convolutions"].arguments("cpu"))
    assert [name for name, _ in program.named_parameters()] == [name for name, _ in module.named_parameters()]
    assert all(a is b for a, b in zip(program.parameters(), module.parameters(), strict=True))
    assert dict(program.named_buffers()).keys() == dict(module.named_buffers()).keys()
    names = [name for name, _ in program.module().named_parameters()]
    assert sorted(names) == sorted(name for name, _ in module.named_parameters())


def test_the_namespace_can_be_called_and_a_program_is_printed() -> None:
    program = tt.export(nn.Linear(2, 1), (tt.ones(1, 2),))
    assert isinstance(program, tt.export.ExportedProgram)
    assert "aten.addmm(%p_bias, %input_1, %t)" in str(program) and "PARAMETER target='weight'" in repr(
        program
    )
    assert len(program.graph_module(*program.parameters(), tt.ones(1, 2))) == 1
    with pytest.raises(RuntimeError, match=r"exported_program.module\(\)"):
        program(tt.ones(1, 2))


def test_other_weights_are_used_and_checked() -> None:
    program = tt.export.export(nn.Linear(2, 2), (tt.ones(1, 2),))
    module = program.module()
    module.load_state_dict({"weight": tt.zeros(2, 2), "bias": tt.ones(2)})
    with tt.no_grad():
        same(module(tt.ones(1, 2)), tt.ones(1, 2))
    module.weight = nn.Parameter(tt.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"'weight': expected shape \[2, 2\], got \[2, 3\]"):
        module(tt.ones(1, 2))


def test_a_copy_of_a_module_has_tensors_of_its_own() -> None:
    module = tt.export.export(made("counter", "cpu"), *CASES["counter"].arguments("cpu")).module()
    module(drawn(2, 3))
    copied = copy.deepcopy(module)
    copied(drawn(2, 3))
    assert (module.calls.item(), copied.calls.item()) == (1, 2)


def test_a_tensor_that_is_registered_anew_is_used() -> None:
    module = tt.export.export(nn.Linear(2, 2, bias=False), (tt.ones(1, 2),)).module()
    module(tt.ones(1, 2))
    del module.weight
    module.register_buffer("weight", tt.eye(2))
    same(module(tt.ones(1, 2)), tt.ones(1, 2))


def test_a_compiled_module_is_exported_under_its_own_names() -> None:
    compiled = tt.compile(nn.Linear(2, 2))
    assert tt.export.export(compiled, (tt.ones(1, 2),)).graph_signature.parameters == ("weight", "bias")


def test_a_tensor_given_twice_is_two_inputs() -> None:
    class Two(nn.Module):
        def forward(self, a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
            return a - b

    x = drawn(3)
    module = tt.export.export(Two(), (x, x)).module()
    same(module(x, drawn(3, seed=1)), x - drawn(3, seed=1))
    same(module(x, x), x - x)


def test_results_under_other_modes() -> None:
    module = tt.export.export(nn.ReLU(), (tt.ones(2),)).module()
    with tt.inference_mode():
        assert module(tt.ones(2)).is_inference()
    assert not module(tt.ones(2)).requires_grad
    x = tt.ones(2, requires_grad=True)
    assert module(x).requires_grad
    with tt.no_grad():
        same(module(x), tt.ones(2))


class Views(nn.Module):
    def forward(self, x: tt.Tensor) -> Any:
        return x, x.view_as(x), x.detach(), x[0]


def test_results_that_are_arguments_or_view_them() -> None:
    module, x = tt.export.export(Views(), (tt.ones(2, 3),)).module(), drawn(2, 3)
    found = module(x)
    assert found[0] is x and found[1] is not x and found[2] is not x
    x.add_(1)
    same(found, Views()(x))
    assert tt.compile(Views())(x)[0] is x


X = drawn(2, 3)
WRONG = {
    "shape": (
        lambda: ((X[:1], X[0]), {}),
        RuntimeError,
        r"argument x: expected shape \[2, 3\], got \[1, 3\]",
    ),
    "strides": (
        lambda: ((drawn(3, 2).t(), drawn(3)), {}),
        RuntimeError,
        r"x: expected strides \[3, 1\], got \[1, 2\]",
    ),
    "dtype": (
        lambda: ((drawn(2, 3), drawn(3).double()), {}),
        RuntimeError,
        "argument y: expected dtype .*float32",
    ),
    "device": (
        lambda: ((X, drawn(3).to("meta")), {}),
        RuntimeError,
        "argument y: expected device cpu, got meta",
    ),
    "number": (lambda: ((X, 2.0), {}), TypeError, "argument y: expected a Tensor, got float"),
    "count": (lambda: ((X,), {}), TypeError, "expected the structure"),
    "memory": (
        lambda: ((X, X[0]), {}),
        RuntimeError,
        "argument x is written to and shares memory with argument y",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_are_checked_by_name(what: str) -> None:
    make, error, message = WRONG[what]
    module = exported("in place").module()
    args, kwargs = make()
    with pytest.raises(error, match=message):
        module(*args, **kwargs)


def test_values_and_nested_arguments_are_checked_by_name() -> None:
    module = exported("containers").module()
    args, kwargs = CASES["containers"].arguments("cpu")
    with pytest.raises(
        ValueError, match=r"argument factor: expected 0.5, which is fixed in the exported graph, got 2"
    ):
        module(*args, **{**kwargs, "factor": 2.0})
    with pytest.raises(
        RuntimeError, match=r"argument options\['bias'\]\[0\]: expected shape \[2\], got \[3\]"
    ):
        module(*args, **{**kwargs, "options": {"bias": [tt.ones(3)], "name": "n"}})
    for mode in ("train", "eval"):
        with pytest.raises(NotImplementedError, match=f"{mode}.. is not supported"):
            getattr(module, mode)()


MOVED = [name for name in CASES if name not in ("transformer", "counter")]


@pytest.mark.parametrize("name", MOVED)
def test_a_program_on_another_device(name: str, device: str) -> None:
    program = exported(name)
    moved = tt.export.passes.move_to_device_pass(program, device)
    assert str(moved.graph) == str(exported(name, device).graph)
    assert all(x.device.type == "cpu" for x in program.state_dict.values())
    module, expected = moved.module(), exported(name, device).module()
    (args, kwargs), (own_args, own_kwargs) = (CASES[name].arguments(device) for _ in range(2))
    tt.manual_seed(0)
    found = module(*own_args, **own_kwargs)
    tt.manual_seed(0)
    same(found, expected(*args, **kwargs))
    same(dict(module.state_dict()), dict(expected.state_dict()))


def test_a_program_is_moved_by_a_dict_of_devices() -> None:
    batch = tt.export.Dim("batch")
    program = tt.export.export(nn.Linear(2, 3), (tt.ones(4, 2),), dynamic_shapes=({0: batch},))
    for location in ("meta", {"cpu": "meta"}, {"*": "meta"}, tt.device("meta")):
        moved = tt.export.passes.move_to_device_pass(program, location).module()
        assert (moved(tt.ones(7, 2, device="meta")).shape, moved.weight.device.type) == ((7, 3), "meta")
    same(
        tt.export.passes.move_to_device_pass(program, {"cuda": "meta"}).module()(drawn(4, 2)),
        program.module()(drawn(4, 2)),
    )


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_an_operator_that_the_other_device_has_not_is_named(device: str) -> None:
    moved = tt.export.passes.move_to_device_pass(exported("transformer"), device).module()
    with pytest.raises(
        NotImplementedError, match="Could not run 'aten::_scaled_dot_product_flash_attention_for_cpu' on"
    ):
        moved(*CASES["transformer"].arguments(device)[0])


class Branching(nn.Module):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x * 2 if x.sum() > 0 else x


class WritesToConstant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = tt.zeros(2)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        self.total.add_(x)
        return x


def test_what_cannot_be_captured_is_refused_with_its_line() -> None:
    with pytest.raises(
        tt.compiler.Unsupported,
        match=r"its value, that of %gt : bool\[\] = aten.gt.Tensor.*return x \* 2 if x.sum\(\) > 0",
    ):
        tt.export.export(Branching(), (tt.ones(2),))
    with pytest.raises(
        tt.compiler.Unsupported, match="writes to 'total', which is neither a parameter nor a buffer"
    ):
        tt.export.export(WritesToConstant(), (tt.ones(2),))
    with pytest.raises(tt.compiler.Unsupported, match="argument input is a object, no tensor"):
        tt.export.export(nn.ReLU(), (object(),))


def test_arguments_that_are_no_plain_tensors_are_refused() -> None:
    for tensor in (tt.eye(2).to_sparse(), tt.eye(2).as_subclass(type("Mine", (tt.Tensor,), {}))):
        with pytest.raises(tt.compiler.Unsupported, match="argument input is no plain tensor, but a"):
            tt.export.export(nn.ReLU(), (tensor,))


class Asking(nn.Module):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x + 1 if tt.compiler.is_exporting() and tt.compiler.is_compiling() else x


def test_a_module_can_ask_whether_it_is_exported() -> None:
    same(tt.export.export(Asking(), (tt.ones(2),)).module()(tt.ones(2)), tt.ones(2) + 1)
    assert not tt.compiler.is_exporting()
    same(tt.compile(Asking())(tt.ones(2)), tt.ones(2))


def test_wrong_calls_of_export() -> None:
    with pytest.raises(ValueError, match="`mod` to be an instance"):
        tt.export.export(lambda x: x, (tt.ones(2),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`args` to be a tuple"):
        tt.export.export(nn.ReLU(), tt.ones(2))  # type: ignore[arg-type]


def test_the_captured_module_is_as_it_was() -> None:
    module = made("counter", "cpu")
    tt.export.export(module, *CASES["counter"].arguments("cpu"))
    assert type(module.sum) is tt.Tensor and module.calls.item() == 0
    same(module.sum, tt.zeros(3))
