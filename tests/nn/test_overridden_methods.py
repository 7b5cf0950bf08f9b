"""Methods of layers that subclasses override or call, by PyTorch's names; and constructors of subclasses."""

import pytest

import triten as tt
from triten import nn
from triten.nn import functional as F

CONVOLUTIONS = [nn.Conv1d, nn.Conv2d, nn.Conv3d]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_a_subclass_convolves_with_a_weight_of_its_own(rank: int, padding_mode: str) -> None:
    class Standardized(CONVOLUTIONS[rank - 1]):
        def forward(self, input: tt.Tensor) -> tt.Tensor:
            return self._conv_forward(input, self.weight * 2, None)

    layer = Standardized(2, 3, 3, padding=1, padding_mode=padding_mode)
    plain = CONVOLUTIONS[rank - 1](2, 3, 3, padding=1, padding_mode=padding_mode, bias=False)
    with tt.no_grad():
        plain.weight.copy_(layer.weight)
    x = tt.randn(2, 2, *[5] * rank)
    tt.testing.assert_close(layer(x), plain(x) * 2)
    assert plain._reversed_padding_repeated_twice == [1, 1] * rank


def test_a_convolution_calls_the_method_that_a_subclass_overrides() -> None:
    class Doubled(nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight, bias) * 2

    layer = Doubled(1, 1, 1, bias=False)
    x = tt.ones(1, 1, 2, 2)
    tt.testing.assert_close(layer(x), F.conv2d(x, layer.weight) * 2)


def test_the_output_padding_of_a_transposed_convolution() -> None:
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2, output_padding=1)
    x = tt.ones(1, 1, 4, 4)
    assert layer._output_padding(x, None, (2, 2), (0, 0), (3, 3), 2) == (1, 1)
    assert layer._output_padding(x, [9, 10], (2, 2), (0, 0), (3, 3), 2, (1, 1)) == (0, 1)
    with pytest.raises(ValueError, match="requested an output size of"):
        layer._output_padding(x, [5, 5], (2, 2), (0, 0), (3, 3), 2)


@pytest.mark.parametrize("norm_first", [False, True])
def test_blocks_of_transformer_layers(norm_first: bool) -> None:
    called = []

    class Encoder(nn.TransformerEncoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            called.append("sa")
            return super()._sa_block(x, attn_mask, key_padding_mask, is_causal=is_causal)

        def _ff_block(self, x):
            called.append("ff")
            return tt.zeros_like(x)

    class Decoder(nn.TransformerDecoderLayer):
        def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
            called.append("mha")
            return tt.zeros_like(x)

    x = tt.randn(3, 2, 8)
    layer = Encoder(8, 2, 16, dropout=0.0, norm_first=norm_first)
    first = x + layer._sa_block(layer.norm1(x) if norm_first else x, None, None)
    called.clear()
    expected = first if norm_first else layer.norm2(layer.norm1(first))
    tt.testing.assert_close(layer(x), expected)
    Decoder(8, 2, 16, norm_first=norm_first)(x, x)
    assert called == ["sa", "ff", "mha"]


def test_the_last_dropout_belongs_to_the_feed_forward_block() -> None:
    for layer in (nn.TransformerEncoderLayer(8, 2, 16), nn.TransformerDecoderLayer(8, 2, 16)):
        last = "dropout2" if isinstance(layer, nn.TransformerEncoderLayer) else "dropout3"
        setattr(layer, last, nn.Dropout(1.0))
        assert layer._ff_block(tt.ones(2, 8)).count_nonzero() == 0


@pytest.mark.parametrize("layer", [nn.InstanceNorm1d(3), nn.InstanceNorm2d(3), nn.InstanceNorm3d(3)])
def test_instance_norm_of_one_example(layer: nn.Module) -> None:
    x = tt.randn(3, *[4] * (layer._get_no_batch_dim() - 1))
    expected = layer._apply_instance_norm(x[None])[0]
    assert tt.equal(layer(x), expected) and tt.equal(layer._handle_no_batch_input(x), expected)


def test_indices_of_containers_and_rows_of_padding() -> None:
    assert nn.ModuleList([nn.ReLU(), nn.ReLU()])._get_abs_string_index(-1) == "1"
    with pytest.raises(IndexError, match="index 2 is out of range"):
        nn.Sequential(nn.ReLU(), nn.ReLU())._get_abs_string_index(2)
    for layer in (nn.Embedding(3, 2, padding_idx=1), nn.EmbeddingBag(3, 2, padding_idx=1)):
        nn.init.ones_(layer.weight)
        layer._fill_padding_idx_with_zero()
        assert layer.weight.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_masks_of_attention_are_merged() -> None:
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    query = tt.zeros(5, 3, 4)
    padding = tt.zeros(5, 3)
    padding[0, 2] = -1.0
    causal = tt.full((3, 3), -2.0).triu(1)
    assert layer.merge_masks(None, None, query) == (None, None)
    merged, kind = layer.merge_masks(None, padding, query)
    assert merged is padding and kind == 1
    merged, kind = layer.merge_masks(causal, padding, query)
    assert merged.shape == (5, 2, 3, 3) and kind == 2
    assert merged[0, 1].tolist() == [[0.0, -2.0, -3.0], [0.0, 0.0, -3.0], [0.0, 0.0, -1.0]]
    each = causal.expand(10, 3, 3).clone()
    assert layer.merge_masks(each, None, query)[0].shape == (5, 2, 3, 3)


def test_constructors_of_subclasses_may_have_other_arguments() -> None:
    class OnManifold(nn.Parameter):
        def __new__(cls, data, requires_grad=True, manifold=None):
            made = tt.Tensor._make_subclass(cls, data, requires_grad)
            made.manifold = manifold
            return made

    class Named(nn.Buffer):
        def __new__(cls, data, *, name):
            made = super().__new__(cls, data, persistent=False)
            made.name_given = name
            return made

    class Late(nn.UninitializedParameter):
        def __new__(cls, *, axis):
            made = super().__new__(cls)
            made.axis = axis
            return made

    assert OnManifold(tt.ones(2), manifold="sphere").manifold == "sphere"
    assert OnManifold(tt.ones(2), True, "sphere").requires_grad
    assert Named(tt.ones(2), name="n").name_given == "n" and Late(axis=3).axis == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'manifold'"):
        nn.Parameter(tt.ones(2), manifold="sphere")
