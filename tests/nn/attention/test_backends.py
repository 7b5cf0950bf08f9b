"""Which implementation of attention is taken, by PyTorch's flags and context, and its refusals."""

from collections.abc import Iterator

import pytest

import triten as tt
from triten.nn.attention import SDPBackend, sdpa_kernel
from triten.runtime import attention_backends

MATH, FLASH, EFFICIENT = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
CUDNN = SDPBackend.CUDNN_ATTENTION
attend = tt.nn.functional.scaled_dot_product_attention
choice = tt.ops.aten._fused_sdp_choice.default


@pytest.fixture(autouse=True)
def nothing_is_left_changed() -> Iterator[None]:
    before = attention_backends.permitted()
    yield
    assert attention_backends.permitted() == before


def tensor(device: str = "cuda", dtype: tt.dtype = tt.float16, head: int = 8) -> tt.Tensor:
    return tt.ones(1, 2, 4, head, device=device, dtype=dtype)


@pytest.mark.parametrize("device", ["cuda", "meta"])
@pytest.mark.parametrize(
    ("backends", "expected"),
    [
        (FLASH, FLASH),
        (EFFICIENT, EFFICIENT),
        (MATH, MATH),
        ([MATH, FLASH], FLASH),
        ([CUDNN, FLASH, EFFICIENT], EFFICIENT),
        ([CUDNN, MATH], MATH),
    ],
    ids=str,
)
def test_the_first_permitted_backend_is_taken(
    device: str, backends: SDPBackend | list[SDPBackend], expected: SDPBackend
) -> None:
    q = tensor(device)
    with sdpa_kernel(backends):
        assert choice(q, q, q) == expected
        assert attend(q, q, q).shape == q.shape


def test_order_of_priority() -> None:
    q = tensor()
    with sdpa_kernel([MATH, EFFICIENT, FLASH], set_priority=True):
        assert choice(q, q, q) == MATH
        with sdpa_kernel([FLASH, MATH, EFFICIENT], set_priority=True):
            assert choice(q, q, q) == FLASH
        assert choice(q, q, q) == MATH
    assert choice(q, q, q) == EFFICIENT


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_results_agree(device: str) -> None:
    q = tt.arange(64, device=device).reshape(1, 2, 4, 8) / 64
    results = []
    for backend in (MATH, FLASH if device == "cpu" else EFFICIENT):
        with sdpa_kernel(backend):
            results.append(attend(q, q, q, is_causal=True).cpu())
    assert tt.allclose(*results, atol=1e-6)


def test_what_flash_attention_does_not_take() -> None:
    mask = tt.ones(4, 4, dtype=tt.bool, device="cuda")
    single = tensor(dtype=tt.float32)
    for backends in ([FLASH], [FLASH, CUDNN]):
        with sdpa_kernel(backends):
            with pytest.raises(RuntimeError, match=r"^No available kernel\. Aborting execution\.$"):
                attend(single, single, single)
            with pytest.raises(RuntimeError, match=r"^No available kernel\. Aborting execution\.$"):
                attend(tensor(), tensor(), tensor(), mask)
    with sdpa_kernel(EFFICIENT):
        assert choice(single, single, single, mask) == EFFICIENT
        with pytest.raises(RuntimeError, match="No available kernel"):
            attend(*[tensor(head=257)] * 3)


def test_nothing_that_could_serve_is_permitted() -> None:
    text = (
        r"^No viable backend for scaled_dot_product_attention was found\. This is likely due to turning off both the "
        r"math kernel and the fused kernels\.$"
    )
    for device, backends in (("cpu", [EFFICIENT, CUDNN]), ("cuda", [CUDNN]), ("cuda", [])):
        q = tensor(device, tt.float32)
        with sdpa_kernel(backends), pytest.raises(RuntimeError, match=text):
            attend(q, q, q)
    q = tensor("cpu", tt.float32)
    with (
        sdpa_kernel(FLASH),
        pytest.raises(RuntimeError, match=r"^No available kernel\.  Aborting execution\.$"),
    ):
        attend(q, q, q, dropout_p=0.5)


@pytest.mark.parametrize("name", ["flash", "mem_efficient", "math", "cudnn"])
def test_flags(name: str) -> None:
    backends = tt.backends.cuda
    enable, enabled = getattr(backends, f"enable_{name}_sdp"), getattr(backends, f"{name}_sdp_enabled")
    assert enabled()
    enable(False)
    try:
        assert not enabled()
        others = {"flash", "mem_efficient", "math", "cudnn"} - {name}
        assert all(getattr(backends, f"{other}_sdp_enabled")() for other in others)
    finally:
        enable(True)
    assert enabled()


def test_the_context_refuses_what_is_no_backend_and_ends_with_an_error() -> None:
    for wrong in (3, "flash", (FLASH,), ["flash"]):
        with (
            pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"),
            sdpa_kernel(wrong),
        ):
            pass
    with pytest.raises(ZeroDivisionError), sdpa_kernel(MATH):
        assert attention_backends.permitted() == (MATH,)
        raise ZeroDivisionError
