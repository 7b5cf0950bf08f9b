"""Every backend of the key list takes kernels, and calls with its tensors come to them."""

import itertools

import pytest

import triten as tt
from triten.runtime.dispatch_key import BackendComponent

BACKENDS = [b.name for b in BackendComponent]
DEVICE_TYPES = {
    "PrivateUse1": "privateuseone",
    "PrivateUse2": "privateusetwo",
    "PrivateUse3": "privateusethree",
}


def tensor_of(backend):
    """Return a tensor whose bytes are never read."""
    device = tt.device(DEVICE_TYPES.get(backend, backend.lower()))
    if backend == "CPU":
        return tt.ones(2)
    return tt.library.from_blob(tt.library.DataPtr(1 << 40, 8, device), (2,), dtype=tt.float32)


@pytest.fixture
def lib():
    with tt.library.Library("t_every_backend", "DEF") as lib:
        lib.define("f(Tensor x, Tensor? y=None) -> Tensor")
        lib.define("make(int n, *, Device? device=None) -> Tensor")
        yield lib


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_at_the_backends_key_is_reached_and_one_at_its_autograd_key_before(lib, backend):
    seen = []

    def autograd(keys, x, y):
        seen.append(f"Autograd{backend}")
        return tt.ops.t_every_backend.f.default.redispatch(
            keys - getattr(tt.DispatchKey, f"Autograd{backend}"), x, y
        )

    lib.impl("f", lambda x, y: [seen.append(backend), x][1], backend)
    lib.impl("f", autograd, f"Autograd{backend}", with_keyset=True)
    for other in BACKENDS:
        if other != backend:
            lib.impl("f", lambda x, y: pytest.fail("the kernel of another backend"), other)
            lib.impl("f", lambda x, y: pytest.fail("the kernel of another backend"), f"Autograd{other}")
    x = tensor_of(backend)
    assert x.device.backend.name == backend
    assert tt.ops.t_every_backend.f(x) is x and seen.pop() == backend
    seen.clear()
    w = tensor_of(backend).requires_grad_()
    assert tt.ops.t_every_backend.f(w) is w and seen == [f"Autograd{backend}", backend]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_autograd_alias_and_the_composites_serve_every_backend(lib, backend):
    seen = []
    lib.impl("f", lambda x, y: [seen.append("explicit"), x][1], "CompositeExplicitAutograd")
    lib.impl("f", lambda x, y: [seen.append("autograd"), x][1], "Autograd")
    tt.ops.t_every_backend.f(tensor_of(backend))
    tt.ops.t_every_backend.f(tensor_of(backend).requires_grad_())
    assert seen == ["explicit", "autograd"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_kernel_is_refused_by_name(lib, backend):
    lib.impl("f", lambda x, y: x, "QuantizedCPU")
    with pytest.raises(NotImplementedError) as refusal:
        tt.ops.t_every_backend.f(tensor_of(backend))
    assert f"Could not run 't_every_backend::f' with arguments from the '{backend}' backend" in str(
        refusal.value
    )
    assert "available for: [QuantizedCPU]" in str(refusal.value)


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b not in ("CPU", "CUDA", "Meta")])
def test_this_packages_operators_have_no_kernel_for_it(backend):
    x = tensor_of(backend)
    with pytest.raises(NotImplementedError, match=f"Could not run 'aten::add.out'.*'{backend}' backend"):
        x + x
    with pytest.raises(NotImplementedError, match=f"Could not run 'aten::relu.out'.*'{backend}' backend"):
        x.requires_grad_().relu()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_factory_goes_to_the_backend_of_its_device(lib, backend):
    if backend == "CUDA":
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    for each in BACKENDS:
        lib.impl("make", lambda n, device, each=each: tensor_of(each), each)
    made = tt.ops.t_every_backend.make(2, device=DEVICE_TYPES.get(backend, backend.lower()))
    assert made.device.backend.name == backend


def test_a_factory_without_a_device_goes_to_the_default_one(lib):
    for each in BACKENDS:
        lib.impl("make", lambda n, device, each=each: tensor_of(each), each)
    assert tt.ops.t_every_backend.make(2).is_cpu
    tt.set_default_device("hpu:3")
    try:
        assert tt.ops.t_every_backend.make(2).device.type == "hpu"
    finally:
        tt.set_default_device(None)
    assert tt.ops.t_every_backend.make(2).is_cpu


def test_a_backends_kernel_sees_the_default_device_as_an_argument():
    seen = []

    def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        seen.append(device)
        return tensor_of("HPU")

    with tt.library.Library("aten", "IMPL") as lib:
        lib.impl("empty.memory_format", empty, "HPU")
        tt.set_default_device("hpu:3")
        try:
            tt.empty(2)
        finally:
            tt.set_default_device(None)
        tt.empty(2, device="hpu")
        assert tt.empty(2).is_cpu
    assert seen == [tt.device("hpu:3"), tt.device("hpu")]


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
@pytest.mark.parametrize("lower, higher", list(itertools.pairwise(BACKENDS)))
def test_of_two_backends_the_later_one_of_the_list_is_asked(lib, lower, higher):
    lib.impl("f", lambda x, y: "lower", lower)
    lib.impl("f", lambda x, y: "higher", higher)
    assert tt.ops.t_every_backend.f(tensor_of(lower), tensor_of(higher)) == "higher"
    assert tt.ops.t_every_backend.f(tensor_of(higher), tensor_of(lower)) == "higher"
    lib.impl("f", tt.library.fallthrough_kernel, higher, allow_override=True)
    assert tt.ops.t_every_backend.f(tensor_of(higher), tensor_of(lower)) == "lower"


@pytest.mark.parametrize(
    "text", ["xla:1", "mps", "xpu:3", "ipu", "hpu:0", "ve:2", "lazy", "privateusethree:7"]
)
def test_device_strings(text):
    assert str(tt.device(text)) == text


@pytest.mark.parametrize("text", ["lazy:200", "mps:-1", "mps:", "xla:1.5", "tpu"])
def test_device_strings_that_are_refused(text):
    with pytest.raises(RuntimeError):
        tt.device(text)


def test_memory_of_a_backend_without_allocator_is_refused():
    with pytest.raises(NotImplementedError, match="Allocator for ve is not set"):
        tt.empty(2, device="ve")
    with pytest.raises(NotImplementedError, match="Allocator for ve is not set"):
        tt.ones(2).to("ve")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((3, (2,)), {}, TypeError, "must be DataPtr, not int"),
        ((tt.library.DataPtr(0, 64, tt.device("cpu")), (2,)), {}, RuntimeError, "use from_numpy"),
        (
            (tt.library.DataPtr(0, 64, tt.device("hpu")), (17,)),
            {},
            RuntimeError,
            "take 68 bytes, the memory has 64",
        ),
        (
            (tt.library.DataPtr(0, 64, tt.device("hpu")), (2, 2)),
            {"strides": (1,)},
            RuntimeError,
            "as many strides",
        ),
        ((tt.library.DataPtr(0, 64, tt.device("hpu")), (-1,)), {}, RuntimeError, "none negative"),
        (
            (tt.library.DataPtr(0, 64, tt.device("hpu")), (2,)),
            {"strides": (-1,)},
            RuntimeError,
            "none negative",
        ),
    ],
)
def test_from_blob_refuses(arguments, options, error, match):
    with pytest.raises(error, match=match):
        tt.library.from_blob(*arguments, **options, dtype=tt.float32)


def test_from_blob_keeps_memory_until_its_last_view_is_gone():
    gone = []
    pointer = tt.library.DataPtr(1 << 20, 64, tt.device("hpu"), deleter=lambda p: gone.append(p.address))
    x = tt.library.from_blob(pointer, (4, 2), (1, 4), dtype=tt.float32)
    assert (x.stride(), x.data_ptr(), x.shape, x.device) == ((1, 4), 1 << 20, (4, 2), tt.device("hpu"))
    view = x[1:]
    del pointer, x
    assert gone == [] and view.data_ptr() == (1 << 20) + 4
    del view
    assert gone == [1 << 20]
