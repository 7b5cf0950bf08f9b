"""A call visits the keys of its set in one order; a thread includes and excludes keys."""

import threading

import pytest

import triten as tt
from triten.dispatch.core.operator_entry import fallbacks
from triten.runtime.dispatch_key import PER_BACKEND, Functionality
from triten.runtime.local_dispatch_key_set import local, modes

ORDER = [
    "Dense", "Quantized", "Sparse", "SparseCsr", "BackendSelect", "Python", "FuncTorchDynamicLayerBackMode",
    "Functionalize", "Named", "ADInplaceOrView", "AutogradOther", "Autograd", "ForwardAD", "Tracer", "Profiler",
    "Autocast", "Batched", "VmapMode", "PythonTLSSnapshot", "PreDispatch", "PythonDispatcher",
]  # fmt: skip
"""The functionalities, lowest first; those of each backend by their prefix."""
OF_EACH_BACKEND = {"Dense", "Quantized", "Sparse", "SparseCsr", "Autograd", "Autocast"}


def key_of(name, backend="CPU"):
    prefix = "" if name == "Dense" else name
    return getattr(tt.DispatchKey, prefix + backend if name in OF_EACH_BACKEND else name)


KEYS = [key_of(name) for name in ORDER]
seen = []


def hop(key):
    def kernel(keys, x):
        seen.append(key)
        assert keys.highest_priority() is key
        return tt.ops.t_key_order.f.default.redispatch(keys - key, x)

    return kernel


@pytest.fixture
def lib():
    seen.clear()
    with tt.library.Library("t_key_order", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.define("nested(Tensor x) -> Tensor")
        lib.impl("f", lambda x: [seen.append(tt.DispatchKey.CPU), x][1], "CPU")
        for key in KEYS[1:]:
            lib.impl("f", hop(key), key, with_keyset=True)
        yield lib
    assert (local.included, local.excluded, modes) == (0, 0, [])


def test_the_list_is_the_designs():
    spelt = [f.name.removesuffix("Functionality") for f in Functionality][: len(ORDER)]
    assert spelt == ORDER
    assert {PER_BACKEND[f].format("") or "Dense" for f in PER_BACKEND} == OF_EACH_BACKEND


def test_a_call_with_every_key_goes_through_all_of_them_in_order(lib):
    x = tt.ones(2)
    with tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKeySet(KEYS)):
        tt.ops.t_key_order.f(x)
    assert seen == KEYS[::-1]


@pytest.mark.parametrize("key", KEYS[1:], ids=str)
def test_a_key_that_is_included_is_reached_before_what_the_call_has(lib, key):
    x = tt.ones(2)
    with tt.dispatch.IncludeDispatchKeyGuard(key):
        tt.ops.t_key_order.f(x)
    always = [tt.DispatchKey.ADInplaceOrView, tt.DispatchKey.BackendSelect]
    assert seen == sorted({key, *always, tt.DispatchKey.CPU}, key=KEYS.index, reverse=True)
    seen.clear()
    tt.ops.t_key_order.f(tt.ones(2))
    assert seen == [*always, tt.DispatchKey.CPU]


@pytest.mark.parametrize("key", KEYS[1:], ids=str)
def test_a_key_that_is_excluded_is_passed_by(lib, key):
    x = tt.ones(2)
    with (
        tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKeySet(KEYS)),
        tt.dispatch.ExcludeDispatchKeyGuard(key),
    ):
        tt.ops.t_key_order.f(x)
    assert seen == [k for k in KEYS[::-1] if k is not key]


# The Python key has nothing to ask here; autograd's fallback records that there is no derivative.
ASK = (Functionality.Python, Functionality.AutogradOther, Functionality.AutogradFunctionality)


@pytest.mark.parametrize("key", [k for k in KEYS[4:] if k.functionality not in ASK], ids=str)
def test_a_key_without_kernel_is_fallen_through(key):
    with tt.library.Library("t_key_order", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x, "CPU")
        x = tt.ones(2)
        with tt.dispatch.IncludeDispatchKeyGuard(key):
            assert tt.ops.t_key_order.f(x) is x


@pytest.mark.parametrize("key", [k for k in KEYS[4:] if k is not tt.DispatchKey.Python], ids=str)
def test_kernels_at_keys_of_layers_serve_this_packages_operators_too(key):
    calls = []

    def kernel(op, keys, stack):
        calls.append(op.name)
        arguments = list(stack)
        stack[:] = [op.call_with_keys((keys - key).raw_repr(), arguments)]

    with tt.library.Library("aten", "IMPL", key) as lib:
        lib.impl("mul.Tensor", kernel, boxed=True)
        lib.impl("relu", kernel, boxed=True)
        x = tt.ones(2)
        with tt.dispatch.IncludeDispatchKeyGuard(key):
            assert (x * x).relu().tolist() == [1, 1]
        assert calls == ["aten::mul.Tensor", "aten::relu"]
    assert (x * x).relu().tolist() == [1, 1] and len(calls) == 2


def test_guards_nest_and_restore_after_an_error(lib):
    guard = tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKey.Tracer)
    with guard, tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKey.Profiler):
        with tt.dispatch.ExcludeDispatchKeyGuard(tt.DispatchKey.Tracer), guard:
            assert local.excluded == tt.DispatchKey.Tracer.bits
        with pytest.raises(ZeroDivisionError), tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKey.Named):
            raise ZeroDivisionError
        tt.ops.t_key_order.f(tt.ones(2))
    assert seen[:2] == [tt.DispatchKey.Profiler, tt.DispatchKey.Tracer]
    assert tt.DispatchKey.Named not in seen


def test_another_thread_includes_nothing(lib):
    found = []

    def work():
        tt.ops.t_key_order.f(tt.ones(2))
        found.append(tt.DispatchKey.Tracer in seen)

    with tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKey.Tracer):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [False]


def test_what_is_no_key_is_refused():
    with pytest.raises(TypeError, match="expected DispatchKey or DispatchKeySet, not str"):
        tt.dispatch.IncludeDispatchKeyGuard("Tracer")


@pytest.mark.parametrize(
    "key", [tt.DispatchKey.CompositeExplicitAutograd, tt.DispatchKey.CompositeImplicitAutograd]
)
def test_an_empty_key_set_runs_the_composite_kernel(lib, key):
    x = tt.zeros(3)
    aten = tt.ops.aten
    assert aten.copy_.default.redispatch(tt.DispatchKeySet(key), x, tt.ones(3), False) is x
    assert x.tolist() == [1, 1, 1]
    assert aten.dropout.default.redispatch(tt.DispatchKeySet(key), x, 0.5, False).tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match="names no backend"):
        aten.nonzero.default.redispatch(tt.DispatchKeySet(key), x)


OWN_KERNELS = {"Dense", "Quantized", "Sparse", "SparseCsr"}
FALLBACKS = {
    "Python": "modes and subclasses",
    "FuncTorchDynamicLayerBackMode": "batching rules of vmap",
    "Functionalize": "functionalize",
    "Named": "named tensors",
    "AutogradOther": "autograd fallback",
    "Autograd": "autograd fallback",
    "ForwardAD": "forward mode",
}


@pytest.mark.parametrize("backend", ["CPU", "CUDA", "PrivateUse1"])
@pytest.mark.parametrize("name", ORDER)
def test_fallbacks_of_keys(name, backend):
    found = fallbacks.get(key_of(name, backend))
    if name in OWN_KERNELS:
        assert found is None
    else:
        assert found.source == FALLBACKS.get(name, "functionality without kernel")
        assert found.is_fallthrough == (name not in FALLBACKS)
