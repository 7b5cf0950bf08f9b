"""`tt.onnx.export`: ONNX's reference evaluator gives what the model gives. Skipped without the package ``onnx``."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten import nn
from triten.nn import functional as F

onnx = pytest.importorskip("onnx.reference", reason="the package onnx is not installed")
ReferenceEvaluator = onnx.ReferenceEvaluator


def exported(model, *args, axes=None, longer=None, **options):
    """Export a model, and check its results for its arguments and for longer ones."""
    names = [f"x{i}" for i in range(len(args))]
    program = tt.onnx.export(model, args, input_names=names, dynamic_axes=axes, **options)
    if isinstance(model, nn.Module):
        model.eval()
    evaluator = ReferenceEvaluator(program.model_proto)
    for given in (args, longer) if longer is not None else (args,):
        with tt.no_grad():
            wanted = model(*given)
        found = evaluator.run(None, {name: value.numpy() for name, value in zip(names, given, strict=True)})
        for each, expected in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert each.dtype == expected.numpy().dtype
            np.testing.assert_allclose(each, expected.numpy(), rtol=1e-4, atol=1e-5)
    return program


@pytest.fixture(autouse=True)
def seed():
    tt.manual_seed(0)


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
        nn.Softmax(-1),
    )


def test_a_convolutional_network_of_any_batch():
    program = exported(
        convolutional(), tt.randn(2, 3, 8, 8), axes={"x0": {0: "batch"}}, longer=(tt.randn(5, 3, 8, 8),)
    )
    graph = program.model_proto.graph
    assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == [
        "batch",
        3,
        8,
        8,
    ]
    assert {"0.weight", "1.running_mean", "7.bias"} <= {each.name for each in graph.initializer}
    assert "Dropout" not in {node.op_type for node in graph.node}


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_of_any_batch(norm_first):
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu")
    exported(model, tt.randn(2, 4, 8), axes={"x0": [0]}, longer=(tt.randn(3, 4, 8),))


def test_sizes_of_several_dynamic_axes_are_told_apart():
    exported(
        lambda x: (x.reshape(x.shape[1], x.shape[0]), x.unsqueeze(0).expand(2, *x.shape), x.reshape(-1, 2)),
        tt.randn(4, 6),
        axes={"x0": [0, 1]},
        longer=(tt.randn(6, 10),),
    )
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="give another one"):
        exported(lambda x: (x.reshape(x.shape[1], x.shape[0]), x + 1), tt.randn(4, 4), axes={"x0": [0, 1]})


def test_an_embedding_of_any_length():
    model = nn.Sequential(nn.Embedding(10, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    exported(
        model, tt.randint(0, 10, (2, 3)), axes={"x0": {0: "b", 1: "t"}}, longer=(tt.randint(0, 10, (4, 5)),)
    )


FUNCTIONS = {
    "activations": lambda x: (
        *(F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.elu(x), F.selu(x), F.leaky_relu(x, 0.2)),
        *(
            F.softplus(x),
            F.softplus(x, 2),
            F.hardswish(x),
            F.hardsigmoid(x),
            F.hardtanh(x),
            F.relu6(x),
            F.mish(x),
        ),
        *(x.clamp(min=-0.5), x.clamp(max=0.5), F.logsigmoid(x), F.prelu(x, tt.tensor([0.25])), x.relu()),
    ),
    "arithmetic": lambda x: (
        *(x + 1, 1 - x, x * 2.5, x / 3, 3 / x.abs(), x**2, 2**x, x.pow(3), tt.maximum(x, -x), x.int() + 0.5),
        *(
            tt.add(x, x, alpha=2),
            tt.rsub(x, x, alpha=3),
            x.abs().sqrt(),
            x.abs().rsqrt(),
            x.exp(),
            x.sigmoid(),
        ),
        *(x.tanh(), x.sin(), tt.erf(x), x.int() / 2, x.square()),
    ),
    "comparisons": lambda x: (
        *(x > 0, x <= x.mean(), x != 0, (x > 0) & (x < 1), ~(x > 0), tt.where(x > 0, x, -x), x.int() > 0.5),
        *(x.masked_fill(x > 0, 3.0), (x > 0).float(), x.int(), x.eq(x), x.int() & 3),
    ),
    "reductions": lambda x: (
        *(
            x.sum(),
            x.sum(1),
            x.mean(),
            x.mean((1, 2)),
            x.amax(1),
            x.amin((0, 1)),
            x.max(),
            x.argmax(1),
            x.argmin(),
        ),
        *(x.var(1), x.std(-1), x.var(), x.std((1, 2), correction=0), (x > 0).sum(), F.normalize(x, dim=1)),
        *(x.norm(p=1, dim=1), x.norm(p=float("inf"), dim=-1)),
    ),
    "shapes": lambda x: (
        *(
            x.permute(3, 0, 1, 2),
            x.squeeze(),
            x[:, 0],
            x[..., -1],
            x.unsqueeze(1),
            x[:, :1].expand(2, 3, 4, 6),
        ),
        *(x.repeat(2, 1, 1, 1), tt.stack([x, x], 1), x.split([1, 2], 1)[1], x.unbind(0)[1], x.chunk(2, 1)[0]),
        *(
            F.pad(x, (1, 2, 0, 1), value=3.0),
            x[:, [0, 2]],
            x.flatten(1),
            x[:, :, ::2],
            x.tril(),
            x.transpose(0, 1),
        ),
        *(
            x.index_select(1, tt.tensor([2, 0])),
            x.gather(1, tt.zeros(2, 1, 4, 6, dtype=tt.int64)),
            x.reshape(-1),
        ),
        *(tt.cat([x, x.int()], 1), x[:, :0].reshape(0, 6)),
    ),
    "normalization": lambda x: (
        *(F.group_norm(x, 3, tt.arange(3.0), tt.ones(3)), F.layer_norm(x, (4, 6)), F.instance_norm(x)),
        *(F.softmax(x, 1), F.log_softmax(x, 1), F.batch_norm(x, tt.zeros(3), tt.ones(3))),
    ),
    "constants": lambda x: (x + tt.arange(6.0), x * tt.ones(4, 1), x + tt.linspace(0, 1, 6)),
    "in place": lambda x: (x.clone().add_(1).mul_(2), F.relu(x + 1, inplace=True)),
    "products": lambda x: (
        *(
            x @ x.transpose(-1, -2),
            tt.einsum("abcd,abed->abce", x, x),
            F.linear(x, tt.ones(5, 6), tt.ones(5)),
        ),
        tt.baddbmm(tt.ones(3, 4, 4), x[0], x[0].transpose(1, 2), beta=2, alpha=3),
    ),
    "attention": lambda x: (
        *(F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention(x, x, x, is_causal=True)),
        F.scaled_dot_product_attention(x, x, x, attn_mask=tt.ones(4, 4).tril(), scale=0.3),
        F.scaled_dot_product_attention(x, x, x, attn_mask=tt.ones(4, 4).tril().bool()),
    ),
    "convolutions": lambda x: (
        F.conv_transpose2d(
            x, tt.arange(54.0).reshape(3, 2, 3, 3) / 54, stride=2, padding=1, output_padding=1
        ),
        F.conv1d(x[:, :, 0], tt.arange(18.0).reshape(6, 1, 3) / 18, groups=3, dilation=2, padding=2),
    ),
    "windows": lambda x: (
        *(
            F.adaptive_avg_pool2d(x, (2, 3)),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.max_pool1d(x[:, 0], 2),
        ),
        *(F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    ),
    "resizing": lambda x: (
        *(F.interpolate(x, scale_factor=2.0), F.interpolate(x, scale_factor=2.0, mode="bilinear")),
        F.interpolate(x, (8, 9), mode="bilinear", align_corners=True),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators(name):
    x = tt.randn(2, 3, 4, 6)
    for i in range(len(FUNCTIONS[name](x))):
        exported(lambda x, i=i: FUNCTIONS[name](x)[i], x)


def test_an_operator_without_translation_is_named():
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match=r"aten\.cumsum\.default has no translation"):
        tt.onnx.export(lambda x: x.cumsum(0), tt.ones(3))
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="rand"):
        tt.onnx.export(lambda x: x + tt.rand(3), tt.ones(3))
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="writes to a tensor that has views"):
        tt.onnx.export(lambda x: x.clone().t().add_(1), tt.ones(3, 3))
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match=r"sizes .* are no multiples of"):
        tt.onnx.export(lambda x: F.adaptive_avg_pool2d(x, 3), tt.ones(1, 1, 4, 4))


def test_what_depends_on_a_dynamic_axis_is_refused_where_it_cannot_be_written():
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="depends on the size of a dynamic axis"):
        tt.onnx.export(lambda x: x[:, : x.shape[1] // 2], tt.ones(2, 4), dynamic_axes={"input": [1]})
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="several sizes"):
        tt.onnx.export(
            lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2),
            tt.ones(2, 4),
            dynamic_axes={"input": [0, 1]},
        )
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="calls other operators"):
        tt.onnx.export(lambda x: x + 1 if len(x) > 2 else x * 2, tt.ones(2), dynamic_axes={"input": [0]})


def test_names_files_and_modes(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.9))
    model.train()
    seen = []
    model.register_forward_hook(lambda *given: seen.append((tt.onnx.is_in_onnx_export(), model.training)))
    tt.onnx.export(
        model,
        tt.ones(1, 3),
        tmp_path / "model.onnx",
        input_names=["features"],
        output_names=["scores"],
        opset_version=20,
        keep_initializers_as_inputs=True,
        do_constant_folding=True,
    )
    assert seen == [(True, False)] and model.training and model[1].training
    assert not tt.onnx.is_in_onnx_export()
    written = __import__("onnx").load(str(tmp_path / "model.onnx"))
    assert written.graph.input[0].name == "features" and len(written.graph.input) > 1
    assert [each.name for each in written.graph.output] == ["scores"]
    assert written.opset_import[0].version == 20
    file = io.BytesIO()
    program = tt.onnx.export(model, tt.ones(1, 3), file)
    assert file.getvalue() == program.model_proto.SerializeToString() and "nodes" in repr(program)


def test_arguments_by_name_and_nested_results():
    class Net(nn.Module):
        def forward(self, pair, *, scale):
            return {"a": pair[0] * scale, "b": pair[1]}

    program = tt.onnx.export(
        Net(), ((tt.ones(2), tt.zeros(3)),), kwargs={"scale": tt.tensor(2.0)}, output_names=["a"]
    )
    found = ReferenceEvaluator(program.model_proto).run(
        None, {"input_0": np.ones(2, "f"), "input_1": np.zeros(3, "f"), "input_2": np.array(3, "f")}
    )
    assert found[0].tolist() == [3, 3] and [each.name for each in program.model_proto.graph.output] == [
        "a",
        "output_1",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset_version": 9}, "opset_version must be from 18 to"),
        ({"export_params": False}, "export_params must be True"),
        ({"input_names": ["a", "b"]}, "input_names has 2 names for 1 tensors"),
        ({"output_names": ["a", "b"]}, "output_names has 2 names for 1 tensors"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tt.onnx.export(lambda x: x + 1, tt.ones(1), **options)


def test_without_the_package_the_error_names_it():
    program = (
        "import sys\n"
        "sys.modules['onnx'] = None\n"
        "import triten as tt\n"
        "try:\n"
        "    tt.onnx.export(tt.relu, tt.ones(1))\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tt.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True
    )
    assert "pip install onnx" in done.stdout, done.stderr


@pytest.fixture(scope="module")
def leaky_library():
    """Define a custom operator with arguments that are not tensors."""
    library = tt.library.Library("onnx_test", "DEF")
    library.define("leaky(Tensor self, float slope, int[] shape) -> Tensor")
    library.impl("leaky", lambda x, slope, shape: tt.where(x > 0, x, x * slope).reshape(shape), "CPU")
    library.impl("leaky", lambda x, slope, shape: x.new_empty(shape), "Meta")
    return library


@pytest.fixture
def custom_operator(leaky_library):
    """Yield the custom operator, and undo its registrations."""
    yield tt.ops.onnx_test.leaky
    tt.onnx.unregister_custom_op_symbolic("onnx_test::leaky", 18)
    tt.onnx.unregister_custom_op_symbolic("onnx_test::leaky", 9)


def test_custom_operators_have_registered_translations(custom_operator):
    from triten.onnx import symbolic_opset11
    from triten.onnx.symbolic_helper import parse_args

    def model(x):
        return custom_operator(x, 0.25, [3, 2]) + 1

    x = tt.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match=r"onnx_test.leaky.default has no translation"):
        tt.onnx.export(model, x)

    @parse_args("v", "f", "is")
    def leaky(g, value, slope, shape):
        assert (slope, shape) == (0.25, [3, 2])
        active = g.op("LeakyRelu", value, alpha_f=slope)
        lines = symbolic_opset11.unsqueeze(g, active, 0)
        lines = symbolic_opset11.squeeze(g, lines, 0)
        return g.op("Reshape", lines, g.op("Constant", value_t=tt.tensor(shape)))

    tt.onnx.register_custom_op_symbolic("onnx_test::leaky", lambda *_: pytest.fail("of another version"), 9)
    tt.onnx.register_custom_op_symbolic("onnx_test::leaky", leaky, 18)
    program = exported(model, x)
    assert [node.op_type for node in program.model_proto.graph.node][:4] == [
        "LeakyRelu", "Unsqueeze", "Squeeze", "Reshape",
    ]  # fmt: skip


def test_translations_of_custom_operators_may_use_ours(custom_operator):
    from triten.onnx import symbolic_opset9

    def leaky(g, x, slope, shape):
        return symbolic_opset9.view(g, symbolic_opset9.relu(g, x), shape)

    x = tt.tensor([[1.0, -2.0, 3.0]])
    tt.onnx.register_custom_op_symbolic("onnx_test::leaky", leaky, 18)
    with pytest.raises(tt.onnx.UnsupportedOperatorError, match="sizes of 'relu', which are not known"):
        tt.onnx.export(lambda x: custom_operator(x, 0.0, [3]), x)
    tt.onnx.register_custom_op_symbolic(
        "onnx_test::leaky", lambda g, x, slope, shape: symbolic_opset9.relu(g, x), 18
    )
    exported(lambda x: custom_operator(x, 0.0, [1, 3]), x)


def test_what_a_translation_may_not_do(custom_operator):
    with pytest.raises(ValueError, match="symbolic_name must be 'namespace::operator', got 'leaky'"):
        tt.onnx.register_custom_op_symbolic("leaky", print, 18)
    with pytest.raises(ValueError, match="'tensor' is none of"):
        tt.onnx.symbolic_helper.parse_args("v", "tensor")
    with pytest.raises(AttributeError, match="no translation of an operator 'nothing_like_it'"):
        tt.onnx.symbolic_opset9.nothing_like_it  # noqa: B018 - the look is what raises
    tt.onnx.register_custom_op_symbolic(
        "onnx_test::leaky", lambda g, x, *_: g.op("LeakyRelu", x, alpha=0.5), 18
    )
    with pytest.raises(ValueError, match=r"'alpha' of onnx_test.leaky.default must end with"):
        tt.onnx.export(lambda x: custom_operator(x, 0.5, [1]), tt.ones(1))
    parsed = tt.onnx.symbolic_helper.parse_args("v", "i", "is")(lambda g, *args: args)
    with pytest.raises(TypeError, match="cannot be read as 'is'"):
        parsed(None, "x", 1, 2)
    tt.onnx.register_custom_op_symbolic(
        "onnx_test::leaky", lambda g, x, *_: g.op("mine::Leaky", x, outputs=1, sizes_i=[1, 2], name_s="a"), 18
    )
    with pytest.raises(Exception, match="mine"):  # nothing evaluates another domain's operator
        exported(lambda x: custom_operator(x, 0.5, [1]), tt.ones(1))
