"""Names that packages written for PyTorch import, public or not, where PyTorch has them."""

import importlib
from collections.abc import Iterator

import pytest

import triten as tt


def test_a_compiled_library_cannot_be_loaded() -> None:
    with pytest.raises(OSError, match=r"Could not load this library: /tmp/_C\.so"):
        tt.ops.load_library("/tmp/_C.so")
    assert tt.ops.loaded_libraries == set()


@pytest.mark.parametrize("name", ["mkl", "mkldnn", "mps", "openmp"])
def test_libraries_that_are_not_used_are_not_available(name: str) -> None:
    assert getattr(tt.backends, name).is_available() is False


def test_tensors_by_device_and_dtype() -> None:
    from triten.utils._foreach_utils import _group_tensors_by_device_and_dtype, _has_foreach_support

    a, b, c = tt.ones(1), tt.ones(1, dtype=tt.float64), tt.zeros(2)
    groups = _group_tensors_by_device_and_dtype([[a, b, c], [c, b, a], []], with_indices=True)
    assert list(groups) == [(tt.device("cpu"), tt.float32), (tt.device("cpu"), tt.float64)]
    lists, places = groups[tt.device("cpu"), tt.float32]
    assert [[each is a for each in given] for given in lists] == [[True, False], [False, True], []]
    assert places == [0, 2]
    assert _has_foreach_support([a, None, tt.nn.Parameter(b)], tt.device("cpu"))


def test_keys_of_the_dispatcher() -> None:
    keys = tt._C.DispatchKeySet(tt._C.DispatchKey.AutocastCPU) | tt._C.DispatchKeySet(
        tt._C.DispatchKey.AutogradCPU
    )
    with tt._C._ExcludeDispatchKeyGuard(keys):
        assert not (tt.ones(1, requires_grad=True) * 2).requires_grad


def test_whether_cuda_was_used_is_an_attribute() -> None:
    assert tt.cuda._initialized is tt.cuda.is_initialized()
    with pytest.raises(AttributeError, match=r"module 'triten\.cuda' has no attribute 'nothing'"):
        _ = tt.cuda.nothing


def test_marks_of_quantized_parts_pass_tensors_on() -> None:
    from triten.ao.quantization import DeQuantStub, QuantStub

    x = tt.ones(2)
    assert DeQuantStub()(QuantStub()(x)) is x
    assert QuantStub("configuration").qconfig == "configuration" and not hasattr(QuantStub(), "qconfig")


def test_functions_of_lists_and_dicts_as_trees() -> None:
    from triten.utils import _pytree as trees

    assert trees._dict_flatten({"a": 1}) == ([1], ["a"]) and trees._dict_unflatten([1], ["a"]) == {"a": 1}
    assert trees._dict_flatten_with_keys({"a": 1}) == ([(trees.MappingKey("a"), 1)], ["a"])
    assert trees._list_flatten([1]) == ([1], None) and trees._list_unflatten([1], None) == [1]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("_custom_ops", "impl_abstract"),
        ("distributions.utils", "_standard_normal _sum_rightmost"),
        ("", "legacy_contiguous_format"),
        ("jit.annotations", "BroadcastingList2 Dict List Optional Tuple"),
        ("nn.init", "_calculate_correct_fan _calculate_fan_in_and_fan_out"),
        ("_utils", "_get_device_module"),
        (
            "nn.modules.module",
            "_EXTRA_STATE_KEY_SUFFIX _IncompatibleKeys _global_forward_hooks _global_parameter_registration_hooks",
        ),
        ("utils.dlpack", "DLDeviceType from_dlpack to_dlpack"),
        ("utils.model_zoo", "load_url tqdm"),
    ],
)
def test_names_are_where_they_are_looked_for(module: str, names: str) -> None:
    found = importlib.import_module(f"triten.{module}".rstrip("."))
    assert all(hasattr(found, name) for name in names.split())


def test_batch_dimensions_are_added_and_removed_by_level() -> None:
    from triten._C._functorch import _add_batch_dim, _remove_batch_dim

    other = tt.arange(6.0).reshape(2, 3)

    def inside(x: tt.Tensor) -> tt.Tensor:
        mapped = _add_batch_dim(other, -1, 1)
        assert mapped.shape == (2,)
        whole = _remove_batch_dim(mapped * 2, 1, 3, 0)
        assert whole.tolist() == (other.T * 2).tolist()
        assert _remove_batch_dim(tt.ones(2), 1, 3, 1).shape == (2, 3)
        return mapped + x

    assert tt.vmap(inside)(tt.zeros(3)).tolist() == other.T.tolist()
    with pytest.raises(RuntimeError, match="number of a vmap in progress, got 1"):
        _add_batch_dim(other, 0, 1)


def test_steps_of_vmap_are_replaced_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    # tensordict replaces them so, to map its containers.
    from triten.dispatch.layers import vmap

    class Box:
        def __init__(self, value: tt.Tensor) -> None:
            self.value = value

    def process(in_dims: object, args: tuple[Box], func: object) -> tuple[object, ...]:
        assert in_dims == 0
        return args[0].value.shape[0], [0], list(args), tt.utils._pytree.tree_structure(args)

    def create(dims: list[int], leaves: list[Box], level: int, spec: object) -> tuple[Box]:
        return (Box(vmap._add_batch_dim(leaves[0].value, dims[0], level)),)

    def unwrap(outputs: Box, out_dims: int, level: int, size: int, func: object) -> Box:
        return Box(vmap._maybe_remove_batch_dim("func", outputs.value, level, size, out_dims))

    monkeypatch.setattr(vmap, "_process_batched_inputs", process)
    monkeypatch.setattr(vmap, "_create_batched_inputs", create)
    monkeypatch.setattr(vmap, "_unwrap_batched", unwrap)
    mapped = tt.vmap(lambda box: Box(box.value.sum()))(Box(tt.ones(3, 4)))
    assert mapped.value.tolist() == [4.0] * 3


def test_what_is_in_progress_is_told() -> None:
    from triten._C import _is_tensor_function_enabled, _is_tensor_function_mode_enabled
    from triten.autograd import forward_ad

    assert forward_ad._current_level == -1 and not _is_tensor_function_mode_enabled()
    with forward_ad.dual_level() as level, tt.overrides.BaseTensorFunctionMode():
        assert forward_ad._current_level == level >= 0
        assert _is_tensor_function_mode_enabled()
        with tt._C.DisableTensorFunctionSubclass():
            assert _is_tensor_function_mode_enabled() and not _is_tensor_function_enabled()
        with tt._C.DisableTensorFunction():
            assert not _is_tensor_function_mode_enabled()
    assert _is_tensor_function_enabled()


def test_what_private_names_tell_of_transforms() -> None:
    from triten._C import _functorch

    def inside(x: tt.Tensor) -> tt.Tensor:
        assert tt._C._are_functorch_transforms_active()
        assert _functorch.is_batchedtensor(x) and _functorch.is_functorch_wrapped_tensor(x)
        assert (_functorch.maybe_get_bdim(x), _functorch.maybe_get_level(x)) == (1, 1)
        assert _functorch.get_unwrapped(x).shape == (2, 3)
        return x * 2

    x = tt.ones(2, 3)
    assert tt.vmap(inside, in_dims=1)(x).shape == (3, 2)
    assert not tt._C._are_functorch_transforms_active()
    assert not (_functorch.is_batchedtensor(x) or _functorch.is_legacy_batchedtensor(x))
    assert (_functorch.maybe_get_bdim(x), _functorch.maybe_get_level(x)) == (-1, -1)
    with pytest.raises(RuntimeError, match="expected a tensor that vmap maps"):
        _functorch.get_unwrapped(x)

    def is_functional(x: tt.Tensor) -> tt.Tensor:
        assert _functorch.is_functionaltensor(x) and not _functorch.is_batchedtensor(x)
        return x + 1

    tt.func.functionalize(is_functional)(x)
    assert not _functorch.is_functionaltensor(x)


def test_what_private_names_tell_of_tensors_and_devices() -> None:
    x = tt.ones(4)
    assert tt._C._is_alias_of(x, x[2:]) and not tt._C._is_alias_of(x, x.clone())
    assert isinstance(tt.Tensor, tt._C._TensorMeta) and tt._C.Generator is tt.Generator
    assert tt._C._get_tracing_state() is None
    device = tt._C._get_accelerator()
    assert device.type == ("cuda" if tt.accelerator.is_available() else "cpu")
    parsed = tt._C._nn._parse_to(x, non_blocking=True)
    assert parsed == (x.device, x.dtype, True, None)
    with pytest.raises(TypeError, match=r"to\(\) got an unexpected keyword argument 'other'"):
        tt._C._nn._parse_to(other=1)


def test_context_managers_that_decorate() -> None:
    from triten.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

    entered: list[str] = []

    class Context(_DecoratorContextManager):
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *error: object) -> None:
            entered.append("out")

    class Plain(Context, _NoParamDecoratorContextManager):
        pass

    @Context()
    def twice(x: int) -> int:
        return 2 * x

    @Plain
    def steps() -> Iterator[int]:
        yield len(entered)

    assert twice(3) == 6 and entered == ["in", "out"]
    assert next(steps()) == 5, "inside the context: one step to make the generator, one to run it"


def test_metadata_operators() -> None:
    aten, sparse = tt.ops.aten, tt.eye(3).to_sparse()
    assert aten.is_same_size(tt.ones(2), tt.zeros(2)) and not aten.is_same_size.default(
        tt.ones(2), tt.ones(3)
    )
    assert (aten._nnz(sparse), aten.sparse_dim(sparse), aten.dense_dim(sparse)) == (3, 2, 0)
    assert aten.is_coalesced(sparse.coalesce()) and aten.is_nonzero(tt.ones(1))
    x = tt.ones(2, dtype=tt.complex64)
    assert aten.is_complex(x) and not aten.is_floating_point(x) and aten.is_signed(x)
    assert not aten.is_inference(x)


def test_metaclasses_of_functions() -> None:
    from triten.autograd.function import Function, FunctionMeta

    class Registered(FunctionMeta):
        names: list[str] = []  # noqa: RUF012

        def __init__(cls, name, bases, namespace):
            super().__init__(name, bases, namespace)
            cls.names.append(name)

    class Double(Function, metaclass=Registered):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = tt.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and Registered.names == ["Double"]


def test_instruction_sets_by_private_names() -> None:
    sets = tt.cpu.get_capabilities()
    assert tt.cpu._is_avx2_supported() is sets.get("avx2", False)
    assert tt.cpu._is_avx512_supported() is sets.get("avx512f", False)


def test_there_are_no_remote_procedure_calls() -> None:
    assert tt.distributed.rpc.is_available() is False


def test_default_tolerances_of_comparisons() -> None:
    from triten import testing

    assert testing._default_tolerances(tt.float16, tt.ones(1)) == (1e-3, 1e-5)
    assert testing._default_tolerances(tt.int64) == (0.0, 0.0)
    assert testing._default_tolerances(tt.int64, dtype_precisions={tt.int64: (1.0, 2.0)}) == (1.0, 2.0)
    assert testing._get_tolerances(tt.float64, rtol=None, atol=None) == (1e-7, 1e-7)
    assert testing._get_tolerances(tt.float64, rtol=0.5, atol=0.25) == (0.5, 0.25)
    with pytest.raises(ValueError, match="but got no atol"):
        testing._get_tolerances(tt.float64, rtol=0.5, atol=None)
    with pytest.raises(TypeError, match="but got <class 'int'>"):
        testing._default_tolerances(3)


def test_an_exception_of_another_thread_is_raised_with_its_traceback() -> None:
    from triten._utils import ExceptionWrapper

    def caught(error: Exception) -> ExceptionWrapper:
        try:
            raise error
        except type(error):
            return ExceptionWrapper(where="in thread 3")

    for error in (ValueError("a"), KeyError("a")):
        with pytest.raises(type(error), match=r"(?s)Caught \w+ in thread 3\.\nOriginal Traceback.*a"):
            caught(error).reraise()
    # This class takes other arguments, so that a text cannot make one.
    with pytest.raises(RuntimeError, match="Caught UnicodeDecodeError in thread 3"):
        caught(UnicodeDecodeError("utf-8", b"", 0, 1, "reason")).reraise()


def test_sizes_are_a_tensor_on_the_cpu(device: str) -> None:
    sizes = tt._shape_as_tensor(tt.ones(2, 0, device=device))
    assert sizes.tolist() == [2, 0] and sizes.dtype is tt.int64 and sizes.device.type == "cpu"
    assert tt._shape_as_tensor(tt.ones(())).shape == (0,)


def test_a_profiler_that_records_is_known() -> None:
    from triten.dispatch.layers.profiler.profile import is_recording

    assert not is_recording()
    with tt.profiler.profile():
        assert is_recording()


def test_hooks_of_a_program_enable_the_cache_of_parametrized_tensors() -> None:
    from triten.nn.utils import parametrize

    class Doubled(tt.nn.Module):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return x * 2

    layer = tt.nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Doubled(), unsafe=True)
    assert layer.weight is not layer.weight
    parametrize._cache_enabled += 1
    try:
        assert layer.weight is layer.weight
    finally:
        parametrize._cache_enabled -= 1
        parametrize._cache = {}
