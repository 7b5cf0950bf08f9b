"""`flex_attention`: results and gradients that PyTorch gives, in one piece and in tiles, and what it refuses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.nn.attention import block_masks
from triten.nn.attention import flex_attention as module
from triten.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
)

INF = math.inf
SLOPES = (0.1, 0.2, 0.3, 0.4)
DOCUMENTS = (0, 0, 1, 1, 1), (0, 1, 1, 2, 0, 1)


def operand(device: str, *shape: int, scale: float = 1.0) -> tt.Tensor:
    """Return numbers between -1 and 1 with a period of eleven."""
    values = (tt.arange(float(math.prod(shape))) * 7 % 11 - 5) / 5 * scale
    return values.reshape(shape).to(device)


def operands(device: str) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor]:
    return (
        operand(device, 2, 4, 5, 3),
        operand(device, 2, 4, 6, 3, scale=0.7).flip(2),
        operand(device, 2, 4, 6, 2),
    )


def alibi(device: str) -> Callable[..., tt.Tensor]:
    slopes = tt.tensor(SLOPES, device=device)
    return lambda score, b, h, q, kv: score - slopes[h] * (q - kv).abs()


def same_document(device: str) -> Callable[..., tt.Tensor]:
    queries, keys = (tt.tensor(each, device=device) for each in DOCUMENTS)
    return lambda b, h, q, kv: (queries[q] == keys[kv]) & (q + 1 >= kv)


def causal(b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
    return q >= kv


def document_mask(device: str, **options: Any) -> BlockMask:
    return create_block_mask(same_document(device), None, None, 5, 6, device=device, BLOCK_SIZE=2, **options)


def softcap(score: tt.Tensor, b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
    return 2 * tt.tanh(score / 2)


# The first head's output, the sum of all outputs by weight, the sums of the last head.
EXPECTED = {
    "plain": (
        [-0.1998, -0.1452, -0.1468, 0.0758, -0.1309, 0.0439, -0.1154, 0.0118, -0.3566, 0.2698],
        0.6938,
        [2.0154, 2.0269, 1.545, 1.5585, 1.5739],
    ),
    "scaled": (
        [-0.2037, -0.1136, -0.1574, 0.0751, -0.1437, 0.0468, -0.1304, 0.0182, -0.3399, 0.2429],
        0.6657,
        [1.9785, 1.989, 1.5776, 1.5896, 1.603],
    ),
    "alibi": (
        [-0.227, -0.0612, -0.1405, 0.0964, -0.0975, 0.0337, -0.0724, 0.0058, -0.3228, 0.2376],
        0.247,
        [1.4065, 1.5582, 1.0339, 1.0217, 0.9624],
    ),
    "softcap": (
        [-0.2002, -0.1409, -0.1476, 0.0752, -0.1325, 0.0443, -0.1177, 0.013, -0.355, 0.2663],
        0.6927,
        [2.008, 2.0194, 1.5466, 1.5597, 1.5748],
    ),
    "documents": (
        [-1.0, 0.4, -1.0, 0.4, 0.0024, -0.0731, 0.0192, -0.1178, -0.2118, 0.1815],
        0.042,
        [0.5173, 0.5658, 0.5404, 0.5155, 0.8781],
    ),
    "alibi in documents": (
        [-1.0, 0.4, -1.0, 0.4, 0.0154, -0.1078, 0.0315, -0.1508, -0.2015, 0.1104],
        -0.1176,
        [0.5173, 0.1658, 0.3682, -0.0615, 0.122],
    ),
    "grouped heads": (
        [-0.227, -0.0612, -0.1405, 0.0964, -0.0975, 0.0337, -0.0724, 0.0058, -0.3228, 0.2376],
        -0.6967,
        [1.3078, 1.4118, 1.0148, 1.02, 0.9463],
    ),
    "keys of one batch": (
        [-1.0, 0.4, -0.6927, 0.7073, -0.2459, 0.0441, 0.1187, 0.0044, -0.3751, 0.4195],
        4.3408,
        [0.9168, 1.2065, 1.1328, 1.3715, 1.695],
    ),
}


def case(name: str, device: str) -> tuple[tuple[tt.Tensor, ...], dict[str, Any]]:
    """Return the operands and options of a row of `EXPECTED`."""
    q, k, v = operands(device)
    options: dict[str, Any] = {}
    if name == "scaled":
        options["scale"] = 0.5
    if name == "softcap":
        options["score_mod"] = softcap
    if name.startswith("alibi") or name == "grouped heads":
        options["score_mod"] = alibi(device)
    if name.endswith("documents"):
        options["block_mask"] = document_mask(device)
    if name == "grouped heads":
        options["enable_gqa"] = True
        k, v = k[:, :2], v[:, :2]
    if name == "keys of one batch":
        k, v = k[:1], v[:1]
        options["block_mask"] = create_block_mask(
            lambda b, h, q, kv: q + b >= kv, 2, None, 5, 6, device=device, BLOCK_SIZE=128
        )
    return (q, k, v), options


def close(result: tt.Tensor, expected: Any, tolerance: float = 1e-4) -> None:
    tt.testing.assert_close(result.cpu().float(), tt.tensor(expected), atol=tolerance, rtol=0)


@pytest.mark.parametrize("tile", [1 << 24, 100, 1], ids=["whole", "tiles", "rows"])
@pytest.mark.parametrize("name", EXPECTED)
def test_results(name: str, tile: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, weighted, sums = EXPECTED[name]
    args, options = case(name, device)
    monkeypatch.setattr(block_masks, "TILE_ELEMENTS", tile)
    output, aux = flex_attention(*args, return_aux=AuxRequest(lse=True), **options)
    assert output.shape == (2, 4, 5, 2)
    assert aux.max_scores is None
    close(output[0, 0].flatten(), first)
    close(aux.lse[1, -1], sums)
    weights = tt.arange(float(output.numel()), device=device).reshape(output.shape)
    close((output * weights).sum() / output.numel(), weighted, 5e-4)


@pytest.mark.parametrize("tile", [1 << 24, 30], ids=["whole", "tiles"])
def test_gradients(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = operands("cuda")
    slopes = tt.tensor(SLOPES, device="cuda")
    leaves = q, k, v, slopes = [one.clone().requires_grad_() for one in (q, k[:, :2], v[:, :2], slopes)]
    mask = document_mask("cuda")
    monkeypatch.setattr(block_masks, "TILE_ELEMENTS", tile)
    output = flex_attention(
        q, k, v, lambda score, b, h, q, kv: score - slopes[h] * (q - kv).abs(), mask, enable_gqa=True
    )
    grads = tt.autograd.grad((output * operand("cuda", 2, 4, 5, 2)).sum(), leaves)
    close(
        grads[0][0, 0],
        [
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0186, 0.0186, -0.1859],
            [0.0078, 0.0078, -0.0783],
            [0.0777, -0.0681, 0.2432],
        ],
    )
    close(grads[1][1, 1, :3], [[0.0, 0.0, 0.0], [-0.0191, -0.0752, 0.1068], [0.0207, 0.0755, -0.1078]])
    close(grads[2][0, 1].flatten()[:6], [-1.4, -0.2, 0.5359, 0.2916, 0.7007, 0.4574])
    close(grads[3], [0.6049, -0.1326, -0.3247, -0.4028])
    squares = tt.stack([grad.square().sum() for grad in grads[:3]])
    close(squares, [0.365335, 1.605960, 7.842731])


def test_a_tensor_of_the_function_has_its_gradient_on_both_devices(device: str) -> None:
    slopes = tt.tensor(SLOPES, device=device, requires_grad=True)
    output = flex_attention(
        *operands(device), score_mod=lambda score, b, h, q, kv: score - slopes[h] * (q - kv).abs()
    )
    (output * operand(device, 2, 4, 5, 2)).sum().backward()
    close(slopes.grad, [1.3637, -0.0659, -0.7989, 0.7508])


def test_second_derivatives() -> None:
    sizes = zip(operands("cuda"), (3, 4, 4), strict=True)
    q, k, v = (one[:1, :1, :length, :2].double().requires_grad_() for one, length in sizes)
    mask = create_block_mask(lambda b, h, q, kv: q // 2 == kv // 2, 1, 1, 3, 4, device="cuda", BLOCK_SIZE=2)

    def attend(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
        return flex_attention(q, k, v, softcap, mask)

    assert tt.autograd.gradgradcheck(attend, (q, k, v))


def test_queries_without_a_score_that_counts(device: str) -> None:
    q, k, v = operands(device)
    q = q.requires_grad_(device == "cuda")
    mask = create_block_mask(lambda b, h, q, kv: q > kv + h, None, 4, 5, 6, device=device, BLOCK_SIZE=2)
    output, aux = flex_attention(q, k, v, block_mask=mask, return_aux=AuxRequest(lse=True))
    assert not output[:, 1, :2].any()
    assert output[:, 1, 2:].any(-1).all()
    assert aux.lse[:, 1, :2].tolist() == [[-INF, -INF]] * 2
    if device == "cuda":
        grad = tt.autograd.grad(output.sum() + aux.lse[:, 0, 1:].sum(), q)[0]
        assert grad.isfinite().all()
        assert not grad[:, 1, :2].any()


def test_greatest_scores() -> None:
    q, k, v = operands("cuda")
    options = {"block_mask": document_mask("cuda"), "score_mod": alibi("cuda")}
    _, aux = flex_attention(q.requires_grad_(), k, v, return_aux=AuxRequest(max_scores=True), **options)
    close(aux.max_scores[0, 0, 2:], [0.5173, 0.4658, 0.2335])
    assert aux.lse is None
    assert not aux.max_scores.requires_grad
    with pytest.raises(NotImplementedError, match="max scores is not supported on CPU"):
        flex_attention(*operands("cpu"), return_aux=AuxRequest(max_scores=True))


def test_narrow_operands_and_autocast(device: str) -> None:
    expected = [-0.2266, -0.0608, -0.1406, 0.0957, -0.0977, 0.0337, -0.0723, 0.0055, -0.3223, 0.2373]
    wide = operands(device)
    narrow = flex_attention(*(one.bfloat16() for one in wide), score_mod=alibi(device))
    with tt.autocast(device, dtype=tt.bfloat16):
        cast = flex_attention(*wide, score_mod=alibi(device))
        assert flex_attention(*(one.double() for one in wide)).dtype is tt.float64
    for result in (narrow, cast):
        assert result.dtype is tt.bfloat16
        close(result[0, 0].flatten(), expected, 2e-3)


def test_operands_of_several_dtypes_give_that_of_the_query(device: str) -> None:
    q, k, v = operands(device)
    assert flex_attention(q.half(), k, v).dtype is tt.float16
    close(flex_attention(q, k.double(), v.half())[0, 0].flatten(), EXPECTED["plain"][0], 1e-3)


def test_vmap(device: str) -> None:
    q, k, v = operands(device)
    mapped = tt.vmap(lambda q: flex_attention(q, k, v, alibi(device), document_mask(device)))(
        tt.stack([q, -q])
    )
    for result, query in zip(mapped, (q, -q), strict=True):
        tt.testing.assert_close(result, flex_attention(query, k, v, alibi(device), document_mask(device)))


@pytest.mark.parametrize(
    ("order", "strides"),
    [
        ((0, 1, 2, 3), (40, 10, 2, 1)),
        ((0, 2, 1, 3), (40, 2, 8, 1)),
        ((3, 2, 1, 0), (2, 4, 16, 1)),
        ((0, 1, 3, 2), (40, 10, 2, 1)),
    ],
)
def test_the_output_lies_as_the_query_does(
    order: tuple[int, ...], strides: tuple[int, ...], device: str
) -> None:
    q, k, v = operands(device)
    q = q.permute(order).contiguous().permute(sorted(range(4), key=order.__getitem__))
    assert flex_attention(q, k, v).stride() == strides


def test_empty_blocks_are_skipped_and_full_ones_ask_no_function(device: str) -> None:
    zeros, ones = (make(1, 1, 2, dtype=tt.int32, device=device) for make in (tt.zeros, tt.ones))
    columns = tt.tensor([[[[0, 1], [1, 0]]]], dtype=tt.int32, device=device)
    v = tt.arange(4.0, device=device).reshape(1, 1, 4, 1)
    diagonal = BlockMask.from_kv_blocks(ones, columns, BLOCK_SIZE=2)
    full = BlockMask.from_kv_blocks(
        zeros, columns, ones, columns, BLOCK_SIZE=2, mask_mod=lambda b, h, q, kv: q < 0
    )
    for mask in (diagonal, full):
        output = flex_attention(tt.zeros_like(v), v, v, block_mask=mask)
        assert output.flatten().tolist() == [0.5, 0.5, 2.5, 2.5]


def test_scores_in_empty_blocks_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def window(b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
        return (q - kv).abs() < 4

    computed = []

    def count(score: tt.Tensor, b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
        return score

    changed = module.over_indices

    def counted(function: Any, *, takes_score: bool) -> Any:
        mapped = changed(function, takes_score=takes_score)

        def call(*args: tt.Tensor) -> tt.Tensor:
            if takes_score:
                computed.append(args[0].numel())
            return mapped(*args)

        return call

    x = tt.arange(512.0).reshape(1, 1, 256, 2) / 512
    mask = create_block_mask(window, None, None, 256, 256, device="cpu", BLOCK_SIZE=8)
    whole = flex_attention(x, x, x, count, mask)
    monkeypatch.setattr(module, "over_indices", counted)
    monkeypatch.setattr(block_masks, "TILE_ELEMENTS", 2048)
    tt.testing.assert_close(flex_attention(x, x, x, count, mask), whole)
    assert len(computed) > 1
    assert max(computed) <= 2048
    assert sum(computed) < 2 * 8 * 8 * mask.to_dense().sum().item() < 256 * 256 / 4


def test_a_mask_whose_blocks_were_exchanged_counts_as_it_is_now(device: str) -> None:
    v = tt.arange(4.0, device=device).reshape(1, 1, 4, 1)
    mask = create_block_mask(causal, None, None, 4, 4, device=device, BLOCK_SIZE=2)
    outputs = [flex_attention(tt.zeros_like(v), v, v, block_mask=mask).flatten().tolist()]
    mask.full_kv_num_blocks.zero_()
    outputs.append(flex_attention(tt.zeros_like(v), v, v, block_mask=mask).flatten().tolist())
    assert outputs == [[0.0, 0.5, 1.0, 1.5], [0.0, 0.5, 2.0, 2.5]]


def test_a_deprecated_way_to_ask_for_sums(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_warned_of_return_lse", False)
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        _, sums = flex_attention(*operands(device), return_lse=True)
    close(sums[1, -1], EXPECTED["plain"][2])


def test_no_queries(device: str) -> None:
    q, k, v = operands(device)
    output, aux = flex_attention(q[:, :, :0], k, v, return_aux=AuxRequest(lse=True))
    assert output.shape == (2, 4, 0, 2)
    assert aux.lse is None


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda q, k, v: ((q[0], k[0], v[0]), {}), NotImplementedError, "must be 4D tensors"),
        (lambda q, k, v: ((q[0, 0, 0], k, v), {}), ValueError, "at least 2 dimensional"),
        (lambda q, k, v: ((q, k[..., :2], v), {}), ValueError, "got E=3 and E=2"),
        (lambda q, k, v: ((q, k[:, :2], v[:, :2]), {}), ValueError, "Try setting enable_gqa=True"),
        (lambda q, k, v: ((q, k[:, :3], v[:, :3]), {"enable_gqa": True}), ValueError, "Hq=4 and Hkv=3"),
        (lambda q, k, v: ((q, k[:1], v[:1]), {}), ValueError, "block_mask=None, Bq=2, and Bkv=1"),
        (lambda q, k, v: ((q, k, v[:, :, :5]), {}), RuntimeError, "a value for each key"),
        (lambda q, k, v: ((q, k[:, :, :0], v[:, :, :0]), {}), IndexError, "at least one key"),
        (lambda q, k, v: ((q, k.to("meta"), v), {}), ValueError, "same device type"),
        (
            lambda q, k, v: ([one.to("meta") for one in (q, k, v)], {}),
            ValueError,
            "input tensors on meta device",
        ),
        (lambda q, k, v: ((q, k, v), {"score_mod": lambda *_: 3.0}), ValueError, "must only return Tensors"),
        (
            lambda q, k, v: ((q, k, v), {"kernel_options": {"BACKEND": "X"}}),
            ValueError,
            "Invalid BACKEND value 'X'",
        ),
        (lambda q, k, v: ((q, k, v), {"kernel_options": {"BACKEND": "FLASH"}}), RuntimeError, "not part of"),
        (
            lambda q, k, v: (
                (q, k, v),
                {"kernel_options": {"BACKEND": "AUTO", "FORCE_USE_FLEX_ATTENTION": True}},
            ),
            RuntimeError,
            "BACKEND cannot be combined",
        ),
        (lambda q, k, v: ((q, k, v), {"kernel_options": {"OUTPUT_MAX": True}}), AssertionError, "OUTPUT_MAX"),
        (
            lambda q, k, v: ((q, k, v), {"return_lse": True, "return_aux": AuxRequest()}),
            ValueError,
            "both return_lse and return_aux",
        ),
    ],
)
def test_refusals(change: Callable[..., Any], error: type[Exception], words: str, device: str) -> None:
    args, options = change(*operands(device))
    with pytest.raises(error, match=words):
        flex_attention(*args, **options)


def test_masks_that_are_refused(device: str) -> None:
    q, k, v = operands(device)

    def mask(queries: int, keys: int, batch: int | None = None, heads: int | None = None) -> BlockMask:
        return create_block_mask(causal, batch, heads, queries, keys, device=device, BLOCK_SIZE=2)

    for wrong, error, words in [
        (mask(4, 6), ValueError, "created for a smaller length"),
        (mask(5, 8), ValueError, "created for a larger length"),
        (mask(5, 6, heads=3), ValueError, "one head or as many as query"),
        (mask(5, 6)[:, :, 0], RuntimeError, "sliced BlockMask"),
        (mask(5, 6).to("meta"), RuntimeError, "on the same device"),
    ]:
        with pytest.raises(error, match=words):
            flex_attention(q, k, v, block_mask=wrong)
    with pytest.raises(ValueError, match="B_block_mask=1"):
        flex_attention(q, k[:1], v[:1], block_mask=mask(5, 6))
    with pytest.raises(RuntimeError, match="Got Bq=1 and Bkv=2"):
        flex_attention(q[:1], k, v, block_mask=mask(5, 6))


def test_masks_have_no_gradients(device: str) -> None:
    far = tt.ones((), device=device)

    def near(limit: tt.Tensor, b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
        return (q - kv).abs() < limit

    for function in (
        and_masks(causal, lambda b, h, q, kv: q - kv < far),
        functools.partial(near, far),
    ):
        mask = create_block_mask(function, None, None, 5, 6, device=device)
        flex_attention(*operands(device), block_mask=mask)
        far.requires_grad_()
        with pytest.raises(AssertionError, match="from mask mod that require grad"):
            flex_attention(*operands(device), block_mask=mask)
        far.requires_grad_(False)


def test_gradients_that_are_refused() -> None:
    q, k, v = operands("cpu")
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q, k, v.requires_grad_())
    q, k, v = operands("cuda")
    blocks = document_mask("cuda").as_tuple()[2:6]
    mask = BlockMask.from_kv_blocks(*blocks, BLOCK_SIZE=2, seq_lengths=(5, 6), compute_q_blocks=False)
    with pytest.raises(RuntimeError, match="q_indices is None"):
        flex_attention(q.requires_grad_(), k, v, block_mask=mask)
    with tt.no_grad():
        flex_attention(q, k, v, block_mask=mask)


def test_names_that_programs_import() -> None:
    assert module._DEFAULT_SPARSE_BLOCK_SIZE == 128
    arguments = [len(one.__args__) - 1 for one in (module._mask_mod_signature, module._score_mod_signature)]
    assert arguments == [4, 5]
