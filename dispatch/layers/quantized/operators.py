"""`tt.ops.quantized`: which function serves each operator, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....runtime.dispatch_key import BY_NAME
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction
from ...generated import functions as ops
from ...schema import register_type_check
from . import arithmetic, layers, normalization
from .packed import ConvPackedParams, LinearPackedParams, LinearPackedParamsFp16
from .pointwise import leaky_relu
from .pooling import KERNELS as POOLING
from .schemas import ALL


def _pairs() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    for name, function, scalar in (
        ("add", arithmetic.add_on, arithmetic.add_scalar),
        ("mul", arithmetic.mul_on, arithmetic.mul_scalar),
    ):
        for relu in (False, True):
            whole = f"{name}_relu" if relu else name
            by_number = scalar(relu)
            into_number = arithmetic.scalar_into(by_number)
            table |= {
                whole: arithmetic.on_grid(function, relu),
                f"{whole}.out": arithmetic.into(function, relu),
                f"{whole}_out": arithmetic.into(function, relu),
                f"{whole}.Scalar": by_number,
                f"{whole}.Scalar2": arithmetic.exchanged(by_number),
                f"{whole}.Scalar_out": into_number,
            }
            short = f"{name}_scalar_relu" if relu else f"{name}_scalar"
            table |= dict.fromkeys((short, f"{short}.Tensor"), by_number)
            table |= dict.fromkeys((f"{short}_out", f"{short}_out.Tensor"), into_number)
    return table


def _convolutions() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    fields = ("stride", "padding", "output_padding", "dilation", "groups")
    for spatial in (1, 2, 3):
        for transposes in (False, True):
            base = f"conv_transpose{spatial}d" if transposes else f"conv{spatial}d"
            name = f"quantized::{base}"
            table[f"{base}_prepack"] = layers.conv_prepack(spatial, transposes)
            table[f"{base}_unpack"] = layers.unpack
            table[f"{base}_dynamic"] = layers.conv_dynamic(name)
            table |= {f"{base}_{field}": layers.geometry(field) for field in fields}
            table[f"{base}_transpose"] = layers.geometry("transposes_as_int")
            if transposes or spatial == 1:
                table[base] = layers.conv(name, False)
                table[f"{base}_relu"] = layers.conv(name, True)
            else:
                table[f"{base}.new"] = layers.conv(name, False)
                table[f"{base}_relu.new"] = layers.conv(name, True)
                table[base] = layers.conv_at(name, False)
                table[f"{base}_relu"] = layers.conv_at(name, True)
    return table | {"conv_prepack": layers.conv_prepack(2, False), "conv_unpack": layers.unpack}


KERNELS: dict[str, Callable[..., Any]] = {
    **_pairs(),
    **_convolutions(),
    "cat": arithmetic.cat(False),
    "cat_relu": arithmetic.cat(True),
    "cat_out": arithmetic.cat_into(False),
    "cat_relu_out": arithmetic.cat_into(True),
    "matmul": arithmetic.matmul,
    "clamp": arithmetic.clamped,
    "relu6": arithmetic.relu6,
    "threshold": arithmetic.threshold_on_same_grid,
    "dropout": arithmetic.dropout,
    "leaky_relu": arithmetic.leaky_relu_on,
    "prelu": arithmetic.prelu_on,
    "softmax": arithmetic.softmax,
    "hardswish": arithmetic.HARDSWISH,
    "sigmoid": arithmetic.SIGMOID,
    "elu": arithmetic.ELU,
    "celu": arithmetic.CELU,
    "max_pool1d": POOLING["max_pool1d"],
    "max_pool2d": POOLING["max_pool2d"],
    "layer_norm": normalization.layer_norm,
    "group_norm": normalization.group_norm,
    "instance_norm": normalization.instance_norm,
    "batch_norm": normalization.batch_norm(None, False),
    "batch_norm_relu": normalization.batch_norm(None, True),
    **{f"batch_norm{n}d": normalization.batch_norm(n, False) for n in (1, 2, 3)},
    **{f"batch_norm{n}d_relu": normalization.batch_norm(n, True) for n in (1, 2, 3)},
    "linear": layers.linear(False),
    "linear_relu": layers.linear(True),
    "linear_leaky_relu": layers.linear_then(leaky_relu),
    "linear_tanh": layers.linear_then(ops.tanh),
    "linear_dynamic": layers.linear_dynamic(False),
    "linear_relu_dynamic": layers.linear_dynamic(True),
    "linear_dynamic_fp16": layers.linear_dynamic_fp16(False),
    "linear_relu_dynamic_fp16": layers.linear_dynamic_fp16(True),
    "linear_prepack": layers.linear_prepack,
    "linear_prepack_fp16": layers.linear_prepack_fp16,
    "linear_unpack": layers.unpack,
    "linear_unpack_fp16": layers.unpack,
}


def _is_instance(classes: tuple[type, ...], value: object) -> bool:
    return isinstance(value, classes)


def register() -> None:
    """Define the operators; their kernels serve all backends."""
    dispatcher = Dispatcher.singleton()
    for kind, classes in (
        ("Linear", (LinearPackedParams, LinearPackedParamsFp16)),
        ("Conv2d", (ConvPackedParams,)),
        ("Conv3d", (ConvPackedParams,)),
    ):
        name = f"__torch__.torch.classes.quantized.{kind}PackedParamsBase"
        register_type_check(name, partial(_is_instance, classes), exact_types=classes)
    explicit = BY_NAME["CompositeExplicitAutograd"]
    for name, schema in ALL.items():
        dispatcher.install(name, schema, __name__, frozenset())
        namespace, _, short = name.partition("::")
        if namespace == "_quantized" and f"{short}.new" in KERNELS:
            short = f"{short}.new"
        function = KERNELS[short]
        kernel = KernelFunction(function, source=function.__module__)
        dispatcher.install_kernel(name, (explicit,), kernel)
