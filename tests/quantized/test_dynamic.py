"""Models with dynamically quantized layers, bitwise beside the results of PyTorch 2.13 on x86."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.ao.nn.quantized import dynamic
from triten.ao.quantization import (
    MinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    QConfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    get_default_dynamic_quant_module_mappings,
    per_channel_dynamic_qconfig,
    quantize_dynamic,
)
from triten.tests.shared.processes import run_python

nn = tt.nn
NARROW = MinMaxObserver.with_args(dtype=tt.qint8, qscheme=tt.per_tensor_symmetric).with_args(
    quant_min=-7, quant_max=7
)
AFFINE = PerChannelMinMaxObserver.with_args(dtype=tt.qint8, qscheme=tt.per_channel_affine, reduce_range=True)


def spread(*shape: int, step: int) -> tt.Tensor:
    """Return numbers between -1.3 and 1.4 in no order."""
    count = tt.ones(shape).numel()
    return ((tt.arange(count) * step % 61 - 28) / 23.0).reshape(shape)


def linear() -> nn.Linear:
    layer = nn.Linear(6, 3)
    with tt.no_grad():
        layer.weight.copy_(spread(3, 6, step=17))
        layer.bias.copy_(spread(3, step=5))
    return layer


X = spread(2, 6, step=29)
INTS = [[-119, -47, 26, 98, -89, -17], [55, 127, -59, 13, 85, -102], [-30, 42, 115, -72, 0, 72]]
OF_CHANNELS = [[-128, -50, 27, 105, -96, -18], [55, 127, -59, 13, 85, -102], [-33, 47, 127, -80, 0, 80]]
OUT = [
    [-0.5216620564460754, -1.1848506927490234, 1.045584797859192],
    [-3.1595420837402344, -0.17121893167495728, -0.28696510195732117],
]
OF_8_BITS = [
    [-0.5312697887420654, -1.182405948638916, 1.0487346649169922],
    [-3.165684938430786, -0.15302138030529022, -0.2846597135066986],
]
CHANNELS_OUT = [
    [-0.5341073274612427, -1.1848506927490234, 1.0326045751571655],
    [-3.1792728900909424, -0.17121893167495728, -0.2913731038570404],
]


def test_weights_and_outputs_are_those_of_pytorch() -> None:
    model = quantize_dynamic(nn.Sequential(linear()), {nn.Linear}, dtype=tt.qint8)
    layer: Any = model[0]
    assert layer.weight().int_repr().tolist() == INTS
    assert (layer.weight().q_scale(), layer.weight().q_zero_point()) == (0.010230178944766521, 0)
    assert layer.bias().equal(spread(3, step=5))
    assert model(X).tolist() == OUT
    assert model(X.reshape(1, 2, 6)).tolist() == [OUT]
    assert model(X[:0]).shape == (0, 3)


def test_each_row_has_a_scale() -> None:
    model = quantize_dynamic(nn.Sequential(linear()), {nn.Linear: per_channel_dynamic_qconfig})
    weight = model[0].weight()
    assert weight.int_repr().tolist() == OF_CHANNELS
    assert weight.q_per_channel_scales().tolist() == [
        0.009548166766762733,
        0.010230178944766521,
        0.009207161143422127,
    ]
    assert model(X).tolist() == CHANNELS_OUT


def test_float16_weights_multiply_in_float32() -> None:
    layer: Any = quantize_dynamic(nn.Sequential(linear()), dtype=tt.float16)[0]
    assert layer.weight().dtype is tt.float32
    assert layer.weight()[0].tolist() == [
        *(-1.2177734375, -0.478271484375, 0.260986328125, 1.0, -0.9130859375, -0.1739501953125),
    ]
    want = tt.tensor(
        [
            [-0.5362866520881653, -1.1893575191497803, 1.0415782928466797],
            [-3.170431137084961, -0.16611653566360474, -0.27619731426239014],
        ]
    )
    tt.testing.assert_close(layer(X), want, rtol=1e-6, atol=1e-6)


def test_observers_choose_the_range_of_weights() -> None:
    layer: Any = quantize_dynamic(nn.Sequential(linear()), {"0": QConfig(None, NARROW)})[0]
    assert layer.weight().int_repr().tolist() == [
        [-7, -3, 1, 5, -5, -1],
        [3, 7, -3, 1, 5, -6],
        [-2, 2, 6, -4, 0, 4],
    ]
    assert layer.weight().q_scale() == 0.18633541464805603
    layer = quantize_dynamic(nn.Sequential(linear()), {"0": QConfig(None, AFFINE)})[0]
    assert layer.weight().q_per_channel_zero_points().tolist() == [6, -8, -15]
    assert layer.weight().int_repr()[0].tolist() == [-64, -21, 21, 63, -46, -4]
    assert layer(X).tolist() == [
        [-0.5170875191688538, -1.2077662944793701, 1.0368212461471558],
        [-3.1657609939575195, -0.17480820417404175, -0.28520411252975464],
    ]


@pytest.mark.parametrize(
    ("options", "scale", "zero_point"),
    [
        ({}, 0.012941176071763039, 77),
        ({"reduce_range": True}, 0.025984251871705055, 38),
        ({"dtype": tt.qint8}, 0.012941176071763039, -51),
        ({"qscheme": tt.per_tensor_symmetric}, 0.018039215356111526, 128),
        (
            {"dtype": tt.qint8, "qscheme": tt.per_tensor_symmetric, "reduce_range": True},
            0.03622047230601311,
            0,
        ),
    ],
)
def test_observers_accumulate(options: dict[str, Any], scale: float, zero_point: int) -> None:
    observer = MinMaxObserver(**options)
    for seen in ([-1.0, 0.7], [2.3], []):
        observer(tt.tensor(seen))
    found = observer.calculate_qparams()
    assert (found[0].tolist(), found[1].tolist()) == ([scale], [zero_point])
    assert repr(observer).startswith("MinMaxObserver(min_val=-1.0, max_val=2.2")


def test_observers_without_input_warn() -> None:
    with pytest.warns(UserWarning, match="must run observer before"):
        assert [each.item() for each in MinMaxObserver().calculate_qparams()] == [1.0, 0]


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        (MinMaxObserver, {"dtype": tt.float16}, NotImplementedError),
        (MinMaxObserver, {"qscheme": tt.per_channel_affine}, NotImplementedError),
        (MinMaxObserver, {"qscheme": tt.per_tensor_symmetric, "reduce_range": True}, NotImplementedError),
        (PerChannelMinMaxObserver, {"quant_min": 3, "quant_max": 77}, AssertionError),
    ],
)
def test_observers_refuse(kind: type, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        kind(**options)


def test_qconfig_takes_classes() -> None:
    with pytest.raises(ValueError, match="pass observer class instead"):
        QConfig(PlaceholderObserver(), MinMaxObserver)


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    tt.save(model.state_dict(), file)
    file.seek(0)
    dtype = model[0]._packed_params.dtype
    other = quantize_dynamic(nn.Sequential(nn.Linear(6, 3)), dtype=dtype)
    assert not other(X).equal(model(X))
    other.load_state_dict(tt.load(file, weights_only=True))
    return other


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "state_dict": saved,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [tt.qint8, tt.float16])
def test_a_model_comes_back(dtype: tt.dtype, way: str) -> None:
    model = quantize_dynamic(nn.Sequential(linear()), dtype=dtype)
    assert WAYS[way](model)(X).equal(model(X))


def test_state_is_that_of_pytorch() -> None:
    state = dynamic.Linear(3, 2).state_dict()
    assert list(state) == ["scale", "zero_point", "_packed_params.dtype", "_packed_params._packed_params"]
    assert state._metadata == {"": {"version": 4}, "_packed_params": {"version": 3}}
    weight, bias = state["_packed_params._packed_params"]
    assert (weight.dtype, weight.shape, bias.shape, state["_packed_params.dtype"]) == (
        tt.qint8,
        (2, 3),
        (2,),
        tt.qint8,
    )
    assert list(dynamic.Linear(3, 2).parameters()) == []


def test_layers_of_old_files_quantize_inputs_to_8_bits() -> None:
    layer = quantize_dynamic(nn.Sequential(linear()))[0]
    state = layer.state_dict()
    state._metadata[""]["version"] = 3
    layer.load_state_dict(state)
    assert layer(X).tolist() == OF_8_BITS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("scale"), 'Missing key(s) in state_dict: "scale"'),
        (lambda state: state.update(other=1), 'Unexpected key(s) in state_dict: "other"'),
        (
            lambda state: state.update(dynamic.Linear(4, 2).state_dict()),
            "size mismatch for _packed_params._packed_params",
        ),
    ],
)
def test_states_of_other_layers_are_refused(change: Callable[[Any], Any], message: str) -> None:
    layer = dynamic.Linear(3, 2)
    state = layer.state_dict()
    change(state)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        layer.load_state_dict(state)


def test_names_types_and_parts_choose_layers() -> None:
    def model() -> nn.Module:
        part = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
        return nn.ModuleDict({"a": part, "b": nn.Linear(2, 2), "c": nn.LSTM(2, 2)})

    def quantized(spec: Any) -> list[str]:
        made = quantize_dynamic(model(), spec)
        return [name for name, module in made.named_modules() if isinstance(module, dynamic.Linear)]

    assert quantized({nn.Linear}) == ["a.0", "a.2", "b"]
    assert quantized({"a"}) == ["a.0", "a.2"]
    assert quantized({"a.2", "b"}) == ["a.2", "b"]
    assert quantized({"a": default_dynamic_qconfig, "a.0": None}) == ["a.2"]
    assert quantized({nn.Linear: float16_dynamic_qconfig, "b": None}) == ["a.0", "a.2"]
    assert quantized(set()) == []
    marked = model()
    marked["b"].qconfig = None
    made = quantize_dynamic(marked, {nn.Linear})
    assert type(made["b"]) is nn.Linear and not hasattr(made["b"], "qconfig") and not made.training


def test_a_class_may_have_the_configuration() -> None:
    class Plain(nn.Linear):
        qconfig = None

    class Fine(nn.Sequential):
        qconfig = per_channel_dynamic_qconfig

    made = quantize_dynamic(nn.Sequential(Fine(linear()), Plain(6, 3)), {nn.Linear: None})
    assert type(made[0][0]) is nn.Linear and type(made[1]) is Plain
    made = quantize_dynamic(nn.Sequential(Fine(linear()), nn.LSTM(2, 2)), set())
    assert made[0](X).tolist() == CHANNELS_OUT
    with pytest.raises(NotImplementedError, match="LSTM '0'"):
        quantize_dynamic(nn.Sequential(nn.LSTM(2, 2), Plain(6, 3)))


def test_the_model_changes_only_in_place() -> None:
    model = nn.Sequential(linear())
    made = quantize_dynamic(model)
    assert made is not model and type(model[0]) is nn.Linear and model.training
    assert quantize_dynamic(model, inplace=True) is model and type(model[0]) is dynamic.Linear
    alone = linear()
    assert quantize_dynamic(alone, inplace=True) is alone and not hasattr(alone, "qconfig")


def test_a_shared_layer_is_replaced_under_its_first_name() -> None:
    layer = nn.Linear(2, 2)
    made = quantize_dynamic(nn.Sequential(layer, layer))
    assert [type(each) for each in made] == [dynamic.Linear, nn.Linear]


@pytest.mark.parametrize("dtype", [tt.qint8, tt.float16])
def test_models_are_captured(dtype: tt.dtype) -> None:
    model = quantize_dynamic(nn.Sequential(linear(), nn.ReLU()), dtype=dtype)
    traced = tt.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    assert traced(X).equal(model(X))
    assert tt.compile(model)(X).equal(model(X))


def test_hooks_stay() -> None:
    layer = linear()
    calls: list[str] = []
    layer.register_forward_pre_hook(lambda module, args, kwargs: calls.append("before"), with_kwargs=True)
    layer.register_forward_hook(lambda module, args, out: calls.append("after"))
    quantize_dynamic(nn.Sequential(layer))(X)
    assert calls == ["before", "after"]


def test_a_mapping_gives_other_classes() -> None:
    class Doubled(dynamic.Linear):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return super().forward(x) * 2

    model = nn.Sequential(linear(), nn.LSTM(3, 2))
    made = quantize_dynamic(model, mapping={nn.Linear: Doubled})
    assert made[0](X).tolist() == [[2 * value for value in row] for row in OUT]
    assert type(made[1]) is nn.LSTM
    mapping = get_default_dynamic_quant_module_mappings()
    assert set(mapping) == {nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell])
def test_recurrent_layers_are_refused_by_name(kind: type) -> None:
    model = nn.ModuleDict({"first": linear(), "second": kind(2, 2)})
    with pytest.raises(NotImplementedError, match=f"{kind.__name__} 'second' .* qconfig_spec") as raised:
        quantize_dynamic(model, inplace=True)
    assert "{nn.Linear}" in str(raised.value)
    assert type(model["first"]) is nn.Linear and model.training
    assert not any(hasattr(module, "qconfig") for module in model.modules())
    quantize_dynamic(model, {nn.Linear}, inplace=True)
    assert type(model["first"]) is dynamic.Linear


def test_layers_that_pytorch_leaves_stay() -> None:
    made = quantize_dynamic(nn.Sequential(nn.RNN(2, 2), nn.Embedding(2, 2), nn.Conv1d(2, 2, 1)))
    assert [type(each) for each in made] == [nn.RNN, nn.Embedding, nn.Conv1d]
    encoder = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval()
    made = quantize_dynamic(encoder)
    assert type(made.self_attn.out_proj) is nn.modules.linear.NonDynamicallyQuantizableLinear
    assert type(made.linear1) is type(made.linear2) is dynamic.Linear
    tt.testing.assert_close(made(X[None]), encoder(X[None]), rtol=0.1, atol=0.1)


def test_lower_precision_models_get_float32_biases() -> None:
    made = quantize_dynamic(nn.Sequential(nn.Linear(2, 2).to(tt.bfloat16)))
    assert made[0].bias().dtype is tt.float32


@pytest.mark.parametrize(
    ("spec", "dtype", "error", "message"),
    [
        (None, tt.float32, ValueError, "Don't know how to quantize with default settings"),
        ({nn.Linear}, tt.float32, RuntimeError, "Unknown dtype specified for quantize_dynamic"),
        (None, tt.quint8, NotImplementedError, "embeddings"),
        ([nn.Linear], tt.qint8, TypeError, "should be a set, a dict or None"),
        ({nn.Linear: QConfig(None, MinMaxObserver)}, tt.qint8, AssertionError, "The only supported dtypes"),
    ],
)
def test_wrong_arguments_are_refused(
    spec: Any, dtype: tt.dtype, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        quantize_dynamic(nn.Sequential(linear()), spec, dtype)


def test_layers_refuse() -> None:
    with pytest.raises(AssertionError, match="only works for one of"):
        dynamic.Linear.from_float(nn.ReLU())
    with pytest.raises(AssertionError, match="must have qconfig defined"):
        dynamic.Linear.from_float(linear())
    with pytest.raises(RuntimeError, match="Unsupported dtype specified for quantized Linear!"):
        dynamic.Linear(3, 2, dtype=tt.float32)
    for dtype in (tt.qint8, tt.float16):
        layer = dynamic.Linear(3, 2, dtype=dtype)
        with pytest.raises(RuntimeError, match="expected a float32 input"):
            layer(tt.ones(1, 3, dtype=tt.float64))
        with pytest.raises(RuntimeError):
            layer(tt.ones(1, 4))


def test_float16_operators() -> None:
    ops = tt.ops.quantized
    weight = tt.tensor([[1e6, -1e6, 0.1, 1e-7]])
    packed = ops.linear_prepack_fp16(weight, None)
    want = [[65504.0, -65504.0, 0.0999755859375, 1.1920928955078125e-07]]
    assert ops.linear_unpack_fp16(packed)[0].tolist() == ops.linear_unpack(packed)[0].tolist() == want
    packed = ops.linear_prepack_fp16(tt.tensor([[1.0], [-2.0]]), tt.ones(2))
    assert ops.linear_dynamic_fp16(tt.ones(1, 1), packed).tolist() == [[2.0, -1.0]]
    assert ops.linear_relu_dynamic_fp16(tt.ones(1, 1), packed).tolist() == [[2.0, 0.0]]
    with pytest.raises(RuntimeError, match="that linear_prepack has packed"):
        ops.linear_dynamic(tt.ones(1, 1), packed)
    ints = ops.linear_prepack(tt.quantize_per_tensor(tt.ones(1, 1), 1.0, 0, tt.qint8))
    with pytest.raises(RuntimeError, match="that linear_prepack_fp16 has packed"):
        ops.linear_dynamic_fp16(tt.ones(1, 1), ints)
    with pytest.raises(RuntimeError, match="expected a floating weight with 2 dimensions"):
        ops.linear_prepack_fp16(tt.ones(2))


PROGRAM = """
import sys
import triten
assert not [name for name in sys.modules if name.startswith("triten.ao")]
import triten.as_torch
import torch
assert torch.quantization.quantize_dynamic is torch.ao.quantization.quantize_dynamic
from torch.nn.quantized.dynamic import Linear
from torch.ao.nn.quantized.dynamic.modules.linear import Linear as same
from torch.ao.nn.quantized.modules.linear import LinearPackedParams
import torch.nn.quantized.dynamic as nnqd
assert Linear is same is nnqd.Linear is torch.ao.nn.quantized.dynamic.Linear
model = torch.nn.Sequential(torch.nn.Linear(2, 1))
print(torch.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)[0])
"""


def test_names_of_pytorch() -> None:
    finished = run_python(PROGRAM)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == (
        "DynamicQuantizedLinear(in_features=2, out_features=1, dtype=torch.qint8, "
        "qscheme=torch.per_tensor_affine)\n"
    )
