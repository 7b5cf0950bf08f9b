"""`tt.cuda` has PyTorch's names and signatures; a build without CUDA suffices to compare them."""

import inspect

import pytest

import triten as tt

torch = pytest.importorskip("torch", reason="PyTorch is what is compared with")

FUNCTIONS = [
    "can_device_access_peer",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "reset_accumulated_host_memory_stats",
    "reset_peak_host_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
CLASSES = ["Event", "ExternalStream", "Stream", "StreamContext", "device", "device_of"]


def parameters(function):
    """Return the names, kinds and defaults of the parameters; devices print the same in both libraries."""
    return [
        (p.name, p.kind, repr(p.default).replace("torch.", "triten."))
        for p in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_signatures(name):
    assert parameters(getattr(tt.cuda, name)) == parameters(getattr(torch.cuda, name))
    assert name in tt.cuda.__all__


@pytest.mark.parametrize("name", CLASSES)
def test_methods(name):
    ours, theirs = getattr(tt.cuda, name), getattr(torch.cuda, name)
    for method, function in vars(theirs).items():
        if method.startswith("__") and method not in ("__eq__", "__hash__", "__cuda_stream__", "__enter__"):
            continue
        assert hasattr(ours, method), method
        if inspect.isfunction(function) and method != "_get_device_index":
            assert len(parameters(getattr(ours, method))) == len(parameters(function)), method


@pytest.mark.parametrize("name", ["record_stream", "is_pinned", "pin_memory", "_pin_memory"])
def test_schemas(name):
    ours, theirs = getattr(tt.ops.aten, name).default, getattr(torch.ops.aten, name).default
    assert str(ours._schema) == str(theirs._schema)


def test_out_of_memory_is_a_runtime_error():
    assert issubclass(tt.cuda.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.cuda.set_device(None),
        lambda t: t.cuda.device("cpu"),
        lambda t: t.cuda.set_stream(3),
        lambda t: t.ones(2).record_stream(3).missing,
        lambda t: t.ones(2).cuda("cpu"),
        lambda t: t.ones(2, device="meta").pin_memory(),
        lambda t: t.ones(2).__cuda_array_interface__,
    ],
)
def test_bad_input_is_refused_by_the_same_type(call):
    errors = []
    for package in (torch, tt):
        with pytest.raises(Exception) as error:
            call(package)
        errors.append(error.type)
    # PyTorch's parser gives up on a number for a stream with a RuntimeError of its own.
    assert errors[0] is errors[1] or errors == [RuntimeError, TypeError]
