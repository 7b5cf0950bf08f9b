"""Models with weights of few bits: their products, gradients, moves and files."""

import copy
import io
import pickle

import numpy as np
import pytest

import triten as tt
from triten import nn
from triten.quantization import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8Tensor,
    Float8WeightOnlyConfig,
    Int4Tensor,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8Tensor,
    Int8WeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    MXTensor,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4Tensor,
    NVFP4WeightOnlyConfig,
    PerRow,
    PerTensor,
    QuantizedTensor,
    ScaleCalculationMode,
    quantize_,
)

CONFIGS = {
    "int8": Int8WeightOnlyConfig(),
    "int8 dynamic": Int8DynamicActivationInt8WeightConfig(),
    "int4": Int4WeightOnlyConfig(32),
    "e4m3": Float8WeightOnlyConfig(),
    "e5m2": Float8WeightOnlyConfig(tt.float8_e5m2),
    "float8 by tensor": Float8DynamicActivationFloat8WeightConfig(),
    "float8 by row": Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    "mxfp8": MXDynamicActivationMXWeightConfig(),
    "mxfp8 floor": MXDynamicActivationMXWeightConfig(
        32, tt.float8_e5m2, scaling_mode=ScaleCalculationMode.FLOOR
    ),
    "mxfp4": MXDynamicActivationMXWeightConfig(32, tt.float4_e2m1fn_x2, tt.float4_e2m1fn_x2),
    "mxfp4 weights": MXDynamicActivationMXWeightConfig(32, None, tt.float4_e2m1fn_x2),
    "nvfp4": NVFP4DynamicActivationNVFP4WeightConfig(),
    "nvfp4 of one level": NVFP4DynamicActivationNVFP4WeightConfig(False),
    "nvfp4 weights": NVFP4WeightOnlyConfig(),
}
IN_BLOCKS = {name for name in CONFIGS if name[:2] in ("mx", "nv")}
UNIT = {tt.float32: 1e-6, tt.float16: 2e-3, tt.bfloat16: 1.6e-2}
DEVICES = ["cpu", "cuda"]


def drawn(rng, *shape, dtype=tt.float32, device="cpu"):
    return tt.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(device, dtype)


def layer_of(rng, config, rows=32, columns=64, dtype=tt.float32, device="cpu"):
    layer = nn.Linear(columns, rows, dtype=dtype, device=device)
    with tt.no_grad():
        layer.weight.copy_(drawn(rng, rows, columns))
        layer.bias.copy_(drawn(rng, rows))
    model = nn.Sequential(layer)
    quantize_(model, config)
    return model


def rounded_activations(x, config):
    """Compute the activations of a dynamic configuration in float64."""
    wide = x.double()
    if isinstance(config, Int8DynamicActivationInt8WeightConfig):
        scale = wide.abs().amax(-1, keepdim=True) / 127
        return (wide / scale).round() * scale
    if isinstance(config, Float8DynamicActivationFloat8WeightConfig):
        by_row = isinstance(config.granularity, PerRow)
        largest = x.float().abs().amax(-1, keepdim=True) if by_row else x.float().abs().amax()
        scale = largest / 448
        return (x.float() / scale).to(tt.float8_e4m3fn).double() * scale.double()
    rows = x.float().reshape(-1, x.shape[-1])
    if isinstance(config, MXDynamicActivationMXWeightConfig) and config.activation_dtype is not None:
        made = MXTensor.from_float(rows, config.activation_dtype, scaling_mode=config.scaling_mode)
        return made.dequantize().double().reshape(x.shape)
    if isinstance(config, NVFP4DynamicActivationNVFP4WeightConfig):
        made = NVFP4Tensor.from_float(rows, two_levels=config.use_dynamic_per_tensor_scale)
        return made.dequantize().double().reshape(x.shape)
    return wide


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shape", [(64,), (1, 64), (5, 64), (2, 3, 64)], ids=str)
def test_a_layer_multiplies_with_what_is_left_of_its_weight(rng, name, shape, dtype, device):
    config = CONFIGS[name]
    model = layer_of(rng, config, dtype=dtype).to(device)
    x = drawn(rng, *shape, dtype=dtype)
    if device == "cuda" and dtype is tt.float32 and name == "int4":
        with pytest.raises((RuntimeError, NotImplementedError), match="float32"):
            model(x.to(device))
        return
    weight = model[0].weight.dequantize().cpu()
    got = model(x.to(device))
    assert got.dtype is dtype and got.shape == (*shape[:-1], 32)
    expected = rounded_activations(x, config) @ weight.double().t() + model[0].bias.double().cpu()
    largest = expected.abs().max().item()
    # The weight is rounded to the layer's dtype by `dequantize`, and by tensor cores, and the result twice.
    assert (got.double().cpu() - expected).abs().max().item() <= 4 * UNIT[dtype] * largest


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in IN_BLOCKS])
def test_the_weight_is_rounded_to_its_nearest(rng, name):
    weight = drawn(rng, 40, 64)
    found = CONFIGS[name].quantized(weight)
    error = (found.dequantize() - weight).abs()
    if name.startswith("int"):
        step = 1 / 14 if name == "int4" else 1 / 127.5
        span = weight.reshape(40, 2, 32).amax(2) - weight.reshape(40, 2, 32).amin(2)
        allowed = span.amax(1, keepdim=True) if name == "int4" else weight.abs().amax(1, keepdim=True)
        assert bool((error <= step * allowed * 0.5 * 1.001).all())
    else:
        relative = 2.0**-3 if name == "e5m2" else 2.0**-4
        least = weight.abs().max() * (2.0**-16 if name == "e5m2" else 2.0**-17)
        assert bool((error <= relative * weight.abs() + least).all())


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_reach_the_activations_and_the_bias(rng, name):
    model = layer_of(rng, CONFIGS[name])
    for shape in ((3, 64), (2, 3, 64), (64,)):
        x = drawn(rng, *shape).requires_grad_()
        model.zero_grad()
        grad = drawn(rng, *shape[:-1], 32)
        model(x).backward(grad)
        expected = grad @ model[0].weight.dequantize()
        assert tt.allclose(x.grad, expected, rtol=1e-5, atol=1e-5)
        assert tt.allclose(model[0].bias.grad, grad.reshape(-1, 32).sum(0), rtol=1e-5, atol=1e-5)
        assert model[0].weight.grad is None and not model[0].weight.requires_grad


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_is_saved_and_loaded(rng, name, tmp_path):
    model, x = layer_of(rng, CONFIGS[name], rows=24), drawn(rng, 3, 64)
    expected = model(x)
    tt.save(model.state_dict(), tmp_path / "model.pt")
    state = tt.load(tmp_path / "model.pt", weights_only=True)
    assert type(state["0.weight"]) is type(model[0].weight)
    other = layer_of(np.random.default_rng(9), CONFIGS[name], rows=24)
    assert not tt.equal(other(x), expected)
    other.load_state_dict(state)
    assert tt.equal(other(x), expected)
    fresh = nn.Sequential(nn.Linear(64, 24))
    fresh.load_state_dict(state, assign=True)
    assert tt.equal(fresh(x), expected) and isinstance(fresh[0].weight, nn.Parameter)
    for found in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert tt.equal(found(x), expected)
        assert isinstance(found[0].weight, nn.Parameter) and found[0].weight is not model[0].weight
        with tt.no_grad():
            found[0].weight.parts[0].zero_()
        assert tt.equal(model(x), expected)
    with pytest.raises(RuntimeError, match=r"copy_\(\): expected a "):
        model.load_state_dict(nn.Sequential(nn.Linear(64, 24)).state_dict())


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_is_moved(rng, name):
    model, x = layer_of(rng, CONFIGS[name], rows=48), drawn(rng, 3, 64)
    before = model[0].weight.dequantize()
    weight = model[0].weight
    assert model.to("cuda") is model and model[0].weight.device.type == "cuda"
    assert all(part.device.type == "cuda" for part in model[0].weight.parts)
    assert tt.equal(model[0].weight.dequantize().cpu(), before)
    model.to(tt.bfloat16)
    assert model[0].weight.dtype is tt.bfloat16 and model(x.to("cuda", tt.bfloat16)).dtype is tt.bfloat16
    model.to("cpu", tt.float32)
    assert model[0].weight is weight and weight.dtype is tt.float32
    if name != "int4":  # whose scales have the dtype
        assert tt.equal(weight.dequantize(), before)
    assert model.to("meta")(x.to("meta")).shape == (3, 48)


@pytest.mark.parametrize("name", CONFIGS)
def test_other_products_are_those_of_what_the_weight_stands_for(rng, name):
    weight = CONFIGS[name].quantized(drawn(rng, 32, 64))
    full = weight.dequantize()
    assert weight.t().shape == (64, 32) and tt.equal(weight.t().dequantize(), full.t())
    assert tt.equal(weight.transpose(-1, 0).dequantize(), full.t())
    assert tt.equal(weight.mT.mT.dequantize(), full)
    left, right = drawn(rng, 3, 32), drawn(rng, 64, 5)
    assert tt.equal(left @ weight, left @ full)
    assert tt.equal(weight @ right, full @ right)
    assert tt.equal(tt.addmm(left[:, :1], left, weight, beta=2, alpha=3), 2 * left[:, :1] + 3 * (left @ full))
    assert weight.is_floating_point() and weight.numel() == 2048
    copied = weight.clone()
    assert copied.parts[0] is not weight.parts[0] and tt.equal(copied.dequantize(), full)
    assert weight.to(weight.dtype) is weight
    with pytest.raises(
        NotImplementedError, match=f"aten::add.Tensor: not supported for {type(weight).__name__}"
    ):
        weight + 1


def test_printing():
    weight = Int8Tensor.from_float(tt.ones(2, 3))
    assert repr(weight) == (
        "Int8Tensor(shape=[2, 3], dtype=triten.float32, device='cpu', int_data=triten.int8[2, 3], "
        "scale=triten.float32[2], dynamic=False)"
    )
    assert f"{weight}" == str(weight) == repr(weight)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_are_not_finite(device):
    inf, nan = float("inf"), float("nan")
    x = tt.tensor([[1.0, 2.0] * 32, [inf] + [1.0] * 63, [nan] + [1.0] * 63, [0.0] * 64], device=device)
    for name in ("int8 dynamic", "float8 by row"):
        weight = CONFIGS[name].quantized(tt.ones(16, 64, device=device))
        got = x @ weight.t()
        assert bool(got[[0, 3]].isfinite().all()) and bool(got[[1, 2]].isnan().all()), name
        assert got[3].tolist() == [0.0] * 16
    zero = Int8Tensor.from_float(tt.zeros(16, 64, device=device))
    assert zero.dequantize().tolist() == tt.zeros(16, 64).tolist()


def test_empty_activations(rng):
    for name, config in CONFIGS.items():
        model = layer_of(rng, config)
        assert model(tt.ones(0, 64)).shape == (0, 32), name


def test_the_bits_are_torchaos(rng):
    """By its formulas: 127.5 steps to a row's largest magnitude, and 15 between a group's extremes."""
    weight = drawn(rng, 16, 64)
    int8 = Int8Tensor.from_float(weight)
    scale = weight.abs().amax(1) / 127.5
    assert tt.equal(int8.scale, scale)
    assert tt.equal(int8.int_data, (weight / scale[:, None]).round().clamp(-128, 127).to(tt.int8))
    int4 = Int4Tensor.from_float(weight, 64)
    low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    step = (high - low) / 15
    integers = int4.integers()
    assert integers.amin(1).tolist() == [0] * 16 and integers.amax(1).tolist() == [15] * 16
    assert bool((integers.float() * step + low - weight).abs().max() <= 0.51 * step.max())


def test_what_a_filter_chooses(rng):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 4)))
    quantize_(model, Int8WeightOnlyConfig(), lambda module, name: name == "2.0")
    kinds = [type(each.weight) for each in (model[0], model[2][0], model[2][1])]
    assert kinds == [nn.Parameter, Int8Tensor, nn.Parameter]
    # What is quantized already stays as it is.
    quantize_(model, Float8WeightOnlyConfig())
    assert [type(each.weight) for each in (model[0], model[2][0])] == [Float8Tensor, Int8Tensor]
    assert not model.requires_grad_(False)[0].weight.requires_grad
    assert len(list(model.parameters())) == 6
    with pytest.raises(TypeError, match="linear layers, got ReLU '1'"):
        quantize_(model, Int8WeightOnlyConfig(), lambda module, name: name == "1")


def test_devices(rng):
    model = nn.Sequential(nn.Linear(64, 32))
    quantize_(model, Int8WeightOnlyConfig(), device="cuda")
    assert model[0].weight.device.type == model[0].bias.device.type == "cuda"


@pytest.mark.parametrize(
    "act, error, words",
    [
        (lambda: Int4WeightOnlyConfig(48), ValueError, "group_size to be one of"),
        (lambda: Float8WeightOnlyConfig(tt.float16), ValueError, "weight_dtype"),
        (lambda: Float8DynamicActivationFloat8WeightConfig(tt.float32), ValueError, "activation_dtype"),
        (lambda: Float8DynamicActivationFloat8WeightConfig(granularity="row"), ValueError, "granularity"),
        (lambda: PerRow(0), ValueError, "dim=-1, got 0"),
        (lambda: quantize_(nn.Linear(2, 2), "int8"), TypeError, "configuration, got str"),
        (lambda: Int8Tensor.from_float(tt.ones(2)), ValueError, "two dimensions"),
        (lambda: Int8Tensor.from_float(tt.ones(2, 2, dtype=tt.float64)), ValueError, "float64"),
        (lambda: Int4Tensor.from_float(tt.ones(2, 48), 32), ValueError, r"got 32 and \[2, 48\]"),
        (lambda: Float8Tensor.from_float(tt.ones(2, 2), tt.int8), ValueError, "Float8Tensor"),
        (lambda: Float8Tensor.from_float(tt.ones(2, 2), activations="all"), ValueError, "'all'"),
        (
            lambda: quantize_(nn.Sequential(nn.Linear(48, 4)), Int4WeightOnlyConfig(32)),
            ValueError,
            "layer '0': ",
        ),
        (
            lambda: tt.ones(2, 4).half() @ Int8Tensor.from_float(tt.ones(3, 4)).t(),
            RuntimeError,
            "float32, got",
        ),
        (lambda: tt.ones(2, 5) @ Int8Tensor.from_float(tt.ones(3, 4)).t(), RuntimeError, r"\(2x5 and 4x3\)"),
        (lambda: Int8Tensor.from_float(tt.ones(3, 4)).to(tt.int32), TypeError, "got triten.int32"),
        (
            lambda: Int8Tensor.of_parts((3, 4), tt.float32, (tt.ones(3, 4), tt.ones(3)), (False,)),
            ValueError,
            "`int_data` of triten.int8",
        ),
        (
            lambda: tt.ones(2, 4, device="cuda") @ Int8Tensor.from_float(tt.ones(3, 4)).t(),
            RuntimeError,
            "on cpu",
        ),
    ],
)
def test_refusals(act, error, words):
    with pytest.raises(error, match=words):
        act()


def test_a_file_is_checked():
    """A file that lies about its parts is refused."""

    class Lying:
        def __reduce__(self):
            from triten.quantization.quantized_tensor import rebuilt

            parts = tt.ones(2, 2, dtype=tt.int8), tt.ones(3)
            return rebuilt, ("Int8Tensor", (2, 2), tt.float32, False, parts, (False,), True)

    buffer = io.BytesIO()
    tt.save({"weight": Lying()}, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="`scale`"):
        tt.load(buffer, weights_only=True)


def test_parameters_keep_their_class():
    weight = Int8Tensor.from_float(tt.ones(2, 4))
    assert not isinstance(weight, nn.Parameter)
    parameter = nn.Parameter(weight, requires_grad=False)
    assert isinstance(parameter, nn.Parameter) and isinstance(parameter, Int8Tensor)
    assert isinstance(parameter, QuantizedTensor) and not isinstance(parameter, nn.UninitializedParameter)
    assert not isinstance(weight, nn.Parameter) and not isinstance(3, nn.Parameter)
    layer = nn.Linear(4, 2)
    layer.weight = parameter
    assert dict(layer.named_parameters())["weight"] is parameter
    assert isinstance(PerTensor(), PerTensor)
