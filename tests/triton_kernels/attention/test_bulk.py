"""Attention by tensor descriptors: its supported operands, and agreement with the pointer kernel."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.attention import bulk, forward, tiles
from triten.triton_kernels.attention.bulk import described
from triten.triton_kernels.tuning.choice import make_plans_anew

attention = tt.nn.functional.scaled_dot_product_attention
TOLERANCE = {tt.float16: 3e-3, tt.bfloat16: 2.5e-2}
Operand = Callable[..., tt.Tensor]


@pytest.fixture
def operand(rng: np.random.Generator) -> Operand:
    """Return operand(*sizes), which makes normal numbers on the device."""
    return lambda *sizes, dtype=tt.float16: tt.from_numpy(rng.standard_normal(sizes)).to(dtype).to("cuda")


@pytest.fixture
def bulk_launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record a 1 for each launch by descriptors; use small tiles, and forget earlier plans."""
    seen: list[int] = []
    planned = bulk.plan_bulk

    def noting(*args: Any) -> Any:
        run = planned(*args)

        def noted(*values: Any) -> None:
            seen.append(1)
            run(*values)

        return None if run is None else noted

    monkeypatch.setattr(forward, "plan_bulk", noting)
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    make_plans_anew()
    yield seen
    make_plans_anew()


def check(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, **kwargs: Any) -> None:
    """Compare the result and gradients with the host's in float64."""
    near = [x.detach().requires_grad_() for x in (q, k, v)]
    wide = [x.detach().cpu().double().requires_grad_() for x in (q, k, v)]
    got, expected = (attention(*leaves, **kwargs) for leaves in (near, wide))
    for out in (got, expected):
        out.sum().backward()
    for mine, theirs, scale in (
        (got, expected, 1),
        *((x.grad, y.grad, 8) for x, y in zip(near, wide, strict=True)),
    ):
        tolerance = scale * TOLERANCE[q.dtype]
        np.testing.assert_allclose(
            mine.detach().cpu().double().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        # B, H, heads of keys, L, S, E, Ev
        ((1, 1, 1, 1, 1, 8, 8), True),
        ((2, 2, 2, 17, 19, 16, 24), False),
        ((1, 2, 1, 65, 33, 8, 16), True),
        ((1, 1, 1, 16, 16, 64, 64), True),
    ],
    ids=str,
)
def test_shapes(
    operand: Operand, bulk_launches: list[int], shape: tuple[int, ...], causal: bool, dtype: tt.dtype
) -> None:
    b, h, hk, length, keys, e, ev = shape
    tensors = operand(b, h, length, e, dtype=dtype), operand(b, hk, keys, e, dtype=dtype)
    check(*tensors, operand(b, hk, keys, ev, dtype=dtype), is_causal=causal, enable_gqa=h != hk)
    assert bulk_launches


def test_strides_that_a_tensor_map_has(operand: Operand, bulk_launches: list[int]) -> None:
    inner = [operand(2, n, 2, 8).transpose(1, 2) for n in (5, 19, 19)]
    check(*inner)
    rows = [operand(1, 2, 40, 16)[:, :, ::2, 8:] for _ in range(3)]
    check(*rows, is_causal=True)
    assert len(bulk_launches) == 2


@pytest.mark.parametrize(
    "how",
    [
        lambda x: x.expand(2, 2, 5, 8),
        lambda x: tt.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
        lambda x: tt.cat([x, x[..., :1]], -1)[..., :8],
        lambda x: x.mT.contiguous().mT,
        lambda x: x.float(),
    ],
    ids=["no stride between heads", "unaligned", "rows of nine", "copied first", "float32"],
)
def test_others_go_by_pointers(
    operand: Operand, bulk_launches: list[int], how: Callable[[tt.Tensor], tt.Tensor], request: Any
) -> None:
    tensors = [how(operand(1, 2, 5, 8)) for _ in range(3)]
    expected = attention(*(x.cpu().double() for x in tensors)).numpy()
    np.testing.assert_allclose(attention(*tensors).cpu().double().numpy(), expected, rtol=3e-3, atol=3e-3)
    assert len(bulk_launches) == (request.node.callspec.id == "copied first")


def test_scales(operand: Operand, bulk_launches: list[int]) -> None:
    tensors = [operand(1, 2, 17, 8) for _ in range(3)]
    for scale, count in ((2.5, 1), (0.0, 1), (-0.5, 1)):
        check(*tensors, scale=scale)
        assert len(bulk_launches) == count, "only a positive scale may stand in the exponent"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["query", "key", "value"])
def test_what_is_not_finite_goes_where_it_does_on_the_host(
    operand: Operand, bulk_launches: list[int], place: int, value: float
) -> None:
    tensors = [operand(1, 1, 20, 8) for _ in range(3)]
    tensors[place][0, 0, 2, 1] = value
    expected = attention(*(x.cpu().double() for x in tensors)).numpy()
    got = attention(*tensors).cpu().double().numpy()
    assert bulk_launches
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=5e-3, atol=5e-3)


def test_maps() -> None:
    spec = tt.empty(2, 3, 5, 16, dtype=tt.bfloat16, device="cuda")._spec
    assert described(spec) == ((2, 3, 5, 16), (240, 80, 16, 1))
    single = tt.empty(1, 1, 1, 3, dtype=tt.bfloat16, device="cuda")._spec
    assert described(single) == ((1, 1, 1, 3), (8, 8, 8, 1)), "strides of one row are whatever a map takes"
    for refused in ((2, 3, 5, 12), (2, 3, 0, 16)):
        assert described(tt.empty(*refused, dtype=tt.bfloat16, device="cuda")._spec) is None
