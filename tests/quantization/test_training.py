"""Training that expects quantization, and what quantization costs on the digits' network."""

import copy
import importlib.util
import sys
from pathlib import Path

import pytest

import triten as tt
from triten import nn
from triten.quantization import (
    FakeQuantizedLinear,
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    QATConfig,
    quantize_,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIGS = [
    Int8WeightOnlyConfig(),
    Int8DynamicActivationInt8WeightConfig(),
    Int4WeightOnlyConfig(32),
    Float8WeightOnlyConfig(),
    Float8DynamicActivationFloat8WeightConfig(),
    MXDynamicActivationMXWeightConfig(),
    NVFP4DynamicActivationNVFP4WeightConfig(),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_a_prepared_model_computes_what_the_converted_one_will(config):
    tt.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
    x = tt.randn(4, 64)
    before = list(model.parameters())
    quantize_(model, QATConfig(config, step="prepare"))
    assert [type(each) for each in model] == [FakeQuantizedLinear, nn.ReLU, FakeQuantizedLinear]
    assert all(new is old for new, old in zip(model.parameters(), before, strict=True))
    fake = model(x)
    quantize_(model, QATConfig(config, step="convert"))
    assert [type(each) for each in model] == [nn.Linear, nn.ReLU, nn.Linear]
    assert tt.allclose(model(x), fake, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_gradients_pass_straight_through(config):
    tt.manual_seed(4)
    layer = FakeQuantizedLinear(64, 32, config=config)
    x, grad = tt.randn(4, 64, requires_grad=True), tt.randn(4, 32)
    layer(x).backward(grad)
    weight = config.quantized(layer.weight).dequantize()
    assert tt.allclose(x.grad, grad @ weight, rtol=1e-5, atol=1e-6)
    # The weight's gradient has the activations that the product had: within their rounding.
    if getattr(config.quantized(layer.weight), "quantizes_activations", False):
        given = config.quantized(layer.weight).quantized_activations(x.detach()).dequantize()
        assert tt.allclose(layer.weight.grad, grad.t() @ given, rtol=1e-5, atol=1e-6)
    else:
        assert tt.allclose(layer.weight.grad, grad.t() @ x.detach(), rtol=0.1, atol=0.3)
    assert tt.equal(layer.bias.grad, grad.sum(0))


def test_steps():
    model = nn.Sequential(nn.Linear(32, 8), nn.Linear(8, 4))
    quantize_(model, QATConfig(Int8WeightOnlyConfig()), lambda module, name: name == "1")
    assert [type(each) for each in model] == [nn.Linear, FakeQuantizedLinear]
    assert "config=Int8WeightOnlyConfig()" in repr(model)
    assert [type(each) for each in copy.deepcopy(model)] == [nn.Linear, FakeQuantizedLinear]
    quantize_(model, QATConfig(step="convert"))
    assert [type(each) for each in model] == [nn.Linear, nn.Linear]
    assert type(model[1].weight) is nn.Parameter and model[1].weight.requires_grad
    with pytest.raises(ValueError, match="step to be one of"):
        QATConfig(Int8WeightOnlyConfig(), step="go")
    with pytest.raises(ValueError, match="base_config"):
        QATConfig()
    with pytest.raises(TypeError, match="no place to exchange"):
        quantize_(nn.Linear(2, 2), QATConfig(Int8WeightOnlyConfig()))


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location("quantize_digits", EXAMPLES / "quantize_digits.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(EXAMPLES))


def test_digits_lose_little(example):
    """At most 0.3 points by 8-bit integers, one of 360 images, and one point by 4-bit integers in groups."""
    tt.manual_seed(0)
    images, labels, *test = example.load_digits("cpu")
    model = example.ConvNet()
    example.train(model, images, labels, 4, 0.05, 64)
    full = example.accuracy(model, *test)
    assert full > 90
    for config, lost in ((CONFIGS[0], 0.3), (CONFIGS[1], 0.3), (CONFIGS[2], 1.0), (CONFIGS[3], 1.0)):
        quantized = copy.deepcopy(model)
        quantize_(quantized, config)
        assert full - example.accuracy(quantized, *test) <= lost, config
    aware = copy.deepcopy(model)
    quantize_(aware, QATConfig(CONFIGS[2]))
    before = aware.hidden.weight.detach().clone()
    example.train(aware, images, labels, 1, 0.01, 64)
    assert not tt.equal(aware.hidden.weight, before)
    quantize_(aware, QATConfig(CONFIGS[2], step="convert"))
    assert full - example.accuracy(aware, *test) <= 1.0
