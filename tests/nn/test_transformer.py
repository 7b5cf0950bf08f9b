"""The Transformer's layers by their definition: residuals, norms before or after, masks and hints."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

F = tt.nn.functional
OPTIONS: dict[str, Any] = {"dim_feedforward": 12, "dropout": 0.0, "dtype": tt.float64}


def attended(layer: Any, x: Any, memory: Any, mask: Any) -> Any:
    """Compute attention over (N, L, E) with ordinary operators; `mask` is added to the scores."""
    n, heads = x.shape[0], layer.num_heads
    w, b = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    q, k, v = (
        F.linear(each, w[i], b[i]).reshape(n, each.shape[1], heads, -1).transpose(1, 2)
        for i, each in enumerate((x, memory, memory))
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    weights = (scores if mask is None else scores + mask).softmax(-1)
    out = (weights @ v).transpose(1, 2).reshape(x.shape)
    return F.linear(out, layer.out_proj.weight, layer.out_proj.bias)


def expected(layer: Any, x: Any, memory: Any, masks: tuple[Any, Any]) -> Any:
    """Compute a layer of the encoder, or of the decoder if `memory` is given."""

    def net(y: Any) -> Any:
        return layer.linear2(layer.activation(layer.linear1(y)))

    blocks = [lambda y: attended(layer.self_attn, y, y, masks[0])]
    if memory is not None:
        blocks.append(lambda y: attended(layer.multihead_attn, y, memory, masks[1]))
    for step, block in enumerate([*blocks, net], 1):
        norm = getattr(layer, f"norm{step}")
        x = x + block(norm(x)) if layer.norm_first else norm(x + block(x))
    return x


close = partial(comparison.close, rtol=1e-10, atol=1e-12)


def random(*sizes: int) -> Any:
    return tt.randn(*sizes, dtype=tt.float64)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", tt.tanh])
def test_layers_are_their_definition(norm_first: bool, activation: Any) -> None:
    options = OPTIONS | {"activation": activation, "norm_first": norm_first, "batch_first": True}
    x, y = random(3, 5, 8), random(3, 4, 8)
    hidden = tt.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    padding = tt.zeros(3, 1, 1, 5, dtype=tt.float64).masked_fill(hidden[:, None, None], -math.inf)
    encoder = tt.nn.TransformerEncoderLayer(8, 2, **options)
    close(encoder(x), expected(encoder, x, None, (None, None)))
    close(encoder(x, None, hidden), expected(encoder, x, None, (padding, None)))
    decoder = tt.nn.TransformerDecoderLayer(8, 2, **options)
    causal = tt.nn.Transformer.generate_square_subsequent_mask(4, dtype=tt.float64)
    close(
        decoder(y, x, causal, memory_key_padding_mask=hidden, tgt_is_causal=True),
        expected(decoder, y, x, (causal, padding)),
    )


def test_layouts_and_single_sequences_agree() -> None:
    layer = tt.nn.TransformerEncoderLayer(8, 2, **OPTIONS)
    turned = tt.nn.TransformerEncoderLayer(8, 2, batch_first=True, **OPTIONS)
    turned.load_state_dict(layer.state_dict())
    x = random(5, 3, 8)
    close(layer(x), turned(x.transpose(0, 1)).transpose(0, 1))
    close(layer(x)[:, 1], layer(x[:, 1]))


def test_an_encoder_is_copies_of_its_layer() -> None:
    layer = tt.nn.TransformerEncoderLayer(8, 2, **OPTIONS)
    encoder = tt.nn.TransformerEncoder(layer, 2, tt.nn.LayerNorm(8, dtype=tt.float64))
    x = random(5, 3, 8)
    close(encoder(x), encoder.norm(layer(layer(x))))
    encoder.layers[0].linear1.weight.data.zero_()
    assert layer.linear1.weight.abs().sum().item() > 0


class Asked(tt.nn.TransformerEncoderLayer):
    hints: list[bool]

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: Any = None
    ) -> Any:
        self.hints.append(is_causal)
        return src


@pytest.mark.parametrize("batch_first", [False, True])
def test_causal_masks_are_recognised_unless_a_hint_says_so(batch_first: bool) -> None:
    Asked.hints = []
    encoder = tt.nn.TransformerEncoder(Asked(8, 2, batch_first=batch_first, **OPTIONS), 1)
    x = random(3, 5, 8) if batch_first else random(5, 3, 8)
    causal = tt.nn.Transformer.generate_square_subsequent_mask(5)
    other = causal.clone()
    other[0, 0] = -1.0
    for mask, hint in itertools.product((causal, other, causal.isinf(), None), (None, True, False)):
        encoder(x, mask, is_causal=hint)
    read = [True, True, False], [False, True, False], [True, True, False], [False, True, False]
    assert list(itertools.chain.from_iterable(read)) == Asked.hints


def test_the_whole_model(device: str) -> None:
    model = tt.nn.Transformer(8, 2, 1, 1, **OPTIONS, device=device)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert parameter.abs().max().item() <= bound
    src, tgt = random(5, 2, 8).to(device), random(4, 2, 8).to(device).requires_grad_()
    mask = model.generate_square_subsequent_mask(4, device=device)
    memory = model.encoder(src)
    out = model(src, tgt, tgt_mask=mask.double())
    close(out, model.decoder.norm(model.decoder.layers[0](tgt, memory, mask.double())))
    # Later positions do not affect earlier outputs.
    out[0].sin().sum().backward()
    assert tgt.grad[1:].abs().sum().item() == 0 and tgt.grad[0].abs().sum().item() > 0


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not sin"):
        tt.nn.TransformerEncoderLayer(8, 2, activation="sin")
    model = tt.nn.Transformer(8, 2, 1, 1, **OPTIONS)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(random(5, 2, 8), random(5, 3, 8))
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        model(random(5, 2, 6), random(5, 2, 6))


@pytest.mark.parametrize(("norm_first", "bias"), [(False, True), (True, False)])
def test_beside_pytorch(norm_first: bool, bias: bool) -> None:
    torch = pytest.importorskip("torch")
    options = {
        "dim_feedforward": 12,
        "dropout": 0.0,
        "norm_first": norm_first,
        "bias": bias,
        "batch_first": True,
    }
    ours = tt.nn.Transformer(8, 2, 2, 1, dtype=tt.float64, **options)
    theirs = torch.nn.Transformer(8, 2, 2, 1, dtype=torch.float64, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})
    rng = np.random.default_rng(2)
    src, tgt, hidden = rng.standard_normal((3, 5, 8)), rng.standard_normal((3, 4, 8)), np.zeros((3, 5), bool)
    hidden[1, 3:] = True
    results = []
    for module, model in ((tt, ours), (torch, theirs)):
        mask = model.generate_square_subsequent_mask(4, dtype=module.float64)
        masks = {
            "src_key_padding_mask": module.tensor(hidden),
            "memory_key_padding_mask": module.tensor(hidden),
        }
        out = model(module.tensor(src), module.tensor(tgt), tgt_mask=mask, **masks)
        out.sin().sum().backward()
        results.append([x.detach().numpy() for x in (out, *(p.grad for p in model.parameters()))])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
