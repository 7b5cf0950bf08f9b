"""The schemas of `tt.ops.quantized` (ATen/native/quantized/library.cpp), known before their kernels are loaded.

Outputs of overloads named ``out`` are given by keyword.
"""

from __future__ import annotations

_LINEAR, _CONV2D, _CONV3D = (
    f"__torch__.torch.classes.quantized.{kind}PackedParamsBase" for kind in ("Linear", "Conv2d", "Conv3d")
)

SCHEMAS = (
    "add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "add.Scalar(Tensor qa, Scalar b) -> Tensor qc",
    "add.Scalar2(Scalar b, Tensor qa) -> Tensor qc",
    "add.Scalar_out(Tensor qa, Scalar b, *, Tensor(a!) out) -> Tensor(a!) out",
    "add.out(Tensor qa, Tensor qb, *, Tensor(a!) out) -> Tensor(a!) out",
    "add_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
    "add_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "add_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
    "add_relu.Scalar2(Scalar b, Tensor qa) -> Tensor qc",
    "add_relu.Scalar_out(Tensor qa, Scalar b, *, Tensor(a!) out) -> Tensor(a!) out",
    "add_relu.out(Tensor qa, Tensor qb, *, Tensor(a!) out) -> Tensor(a!) out",
    "add_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
    "add_scalar(Tensor qa, Scalar b) -> Tensor qc",
    "add_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
    "add_scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
    "add_scalar_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
    "add_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
    "add_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
    "add_scalar_relu_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
    "add_scalar_relu_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
    (
        "batch_norm(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm1d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm1d_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm2d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm2d_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm3d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm3d_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "batch_norm_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    "cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor",
    "cat_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)",
    "cat_relu(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor",
    "cat_relu_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)",
    "celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1) -> Tensor",
    "clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy",
    f"conv1d(Tensor qx, {_CONV2D} packed_weight, float output_scale, int output_zero_point) -> Tensor",
    f"conv1d_dynamic(Tensor qx, {_CONV2D} packed_weight, bool reduce_range=False) -> Tensor",
    (
        "conv1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        f"int groups) -> {_CONV2D}"
    ),
    f"conv1d_relu(Tensor qx, {_CONV2D} packed_weight, float output_scale, int output_zero_point) -> Tensor",
    f"conv1d_unpack({_CONV2D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        f"conv2d(Tensor qx, {_CONV2D} weight, int[] stride, int[] padding, int[] dilation, int groups, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    f"conv2d.new(Tensor qx, {_CONV2D} packed_weight, float output_scale, int output_zero_point) -> Tensor",
    f"conv2d_dilation({_CONV2D} packed_weights) -> int[]",
    f"conv2d_dynamic(Tensor qx, {_CONV2D} packed_weight, bool reduce_range=False) -> Tensor",
    f"conv2d_groups({_CONV2D} packed_weights) -> int",
    f"conv2d_output_padding({_CONV2D} packed_weights) -> int[]",
    f"conv2d_padding({_CONV2D} packed_weights) -> int[]",
    (
        "conv2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        f"int groups) -> {_CONV2D}"
    ),
    (
        f"conv2d_relu(Tensor qx, {_CONV2D} weight, int[] stride, int[] padding, int[] dilation, "
        "int groups, float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        f"conv2d_relu.new(Tensor qx, {_CONV2D} packed_weight, float output_scale, int output_zero_point) "
        "-> Tensor"
    ),
    f"conv2d_stride({_CONV2D} packed_weights) -> int[]",
    f"conv2d_transpose({_CONV2D} packed_weights) -> int",
    f"conv2d_unpack({_CONV2D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        f"conv3d(Tensor qx, {_CONV3D} weight, int[] stride, int[] padding, int[] dilation, int groups, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    f"conv3d.new(Tensor qx, {_CONV3D} packed_weight, float output_scale, int output_zero_point) -> Tensor",
    f"conv3d_dilation({_CONV3D} packed_weights) -> int[]",
    f"conv3d_dynamic(Tensor qx, {_CONV3D} packed_weight, bool reduce_range=False) -> Tensor",
    f"conv3d_groups({_CONV3D} packed_weights) -> int",
    f"conv3d_output_padding({_CONV3D} packed_weights) -> int[]",
    f"conv3d_padding({_CONV3D} packed_weights) -> int[]",
    (
        "conv3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        f"int groups) -> {_CONV3D}"
    ),
    (
        f"conv3d_relu(Tensor qx, {_CONV3D} weight, int[] stride, int[] padding, int[] dilation, "
        "int groups, float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        f"conv3d_relu.new(Tensor qx, {_CONV3D} packed_weight, float output_scale, int output_zero_point) "
        "-> Tensor"
    ),
    f"conv3d_stride({_CONV3D} packed_weights) -> int[]",
    f"conv3d_transpose({_CONV3D} packed_weights) -> int",
    f"conv3d_unpack({_CONV3D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        "conv_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        f"int groups) -> {_CONV2D}"
    ),
    (
        f"conv_transpose1d(Tensor qx, {_CONV2D} packed_weight, float output_scale, "
        "int output_zero_point) -> Tensor"
    ),
    f"conv_transpose1d_dynamic(Tensor qx, {_CONV2D} packed_weight, bool reduce_range=False) -> Tensor",
    (
        "conv_transpose1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, "
        f"int[] output_padding, int[] dilation, int groups) -> {_CONV2D}"
    ),
    f"conv_transpose1d_unpack({_CONV2D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        f"conv_transpose2d(Tensor qx, {_CONV2D} packed_weight, float output_scale, "
        "int output_zero_point) -> Tensor"
    ),
    f"conv_transpose2d_dilation({_CONV2D} packed_weights) -> int[]",
    f"conv_transpose2d_dynamic(Tensor qx, {_CONV2D} packed_weight, bool reduce_range=False) -> Tensor",
    f"conv_transpose2d_groups({_CONV2D} packed_weights) -> int",
    f"conv_transpose2d_output_padding({_CONV2D} packed_weights) -> int[]",
    f"conv_transpose2d_padding({_CONV2D} packed_weights) -> int[]",
    (
        "conv_transpose2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, "
        f"int[] output_padding, int[] dilation, int groups) -> {_CONV2D}"
    ),
    f"conv_transpose2d_stride({_CONV2D} packed_weights) -> int[]",
    f"conv_transpose2d_transpose({_CONV2D} packed_weights) -> int",
    f"conv_transpose2d_unpack({_CONV2D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        f"conv_transpose3d(Tensor qx, {_CONV3D} packed_weight, float output_scale, "
        "int output_zero_point) -> Tensor"
    ),
    f"conv_transpose3d_dilation({_CONV3D} packed_weights) -> int[]",
    f"conv_transpose3d_dynamic(Tensor qx, {_CONV3D} packed_weight, bool reduce_range=False) -> Tensor",
    f"conv_transpose3d_groups({_CONV3D} packed_weights) -> int",
    f"conv_transpose3d_output_padding({_CONV3D} packed_weights) -> int[]",
    f"conv_transpose3d_padding({_CONV3D} packed_weights) -> int[]",
    (
        "conv_transpose3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, "
        f"int[] output_padding, int[] dilation, int groups) -> {_CONV3D}"
    ),
    f"conv_transpose3d_stride({_CONV3D} packed_weights) -> int[]",
    f"conv_transpose3d_transpose({_CONV3D} packed_weights) -> int",
    f"conv_transpose3d_unpack({_CONV3D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    f"conv_unpack({_CONV2D} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)",
    (
        "dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, "
        "bool training=False) -> Tensor"
    ),
    (
        "elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, Scalar scale=1, "
        "Scalar input_scale=1) -> Tensor"
    ),
    (
        "group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    "hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor",
    (
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, "
        "int output_zero_point) -> Tensor"
    ),
    (
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    ),
    (
        "leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, "
        "int output_zero_point) -> Tensor"
    ),
    f"linear(Tensor X, {_LINEAR} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y",
    f"linear_dynamic(Tensor X, {_LINEAR} W_prepack, bool reduce_range=False) -> Tensor Y",
    f"linear_dynamic_fp16(Tensor X, {_LINEAR} W_prepack) -> Tensor Y",
    (
        f"linear_leaky_relu(Tensor X, {_LINEAR} W_prepack, float Y_scale_i, int Y_zero_point_i, "
        "float negative_slope) -> Tensor Y"
    ),
    f"linear_prepack(Tensor W, Tensor? B=None) -> {_LINEAR} W_prepack",
    f"linear_prepack_fp16(Tensor W, Tensor? B=None) -> {_LINEAR} W_prepack",
    f"linear_relu(Tensor X, {_LINEAR} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y",
    f"linear_relu_dynamic(Tensor X, {_LINEAR} W_prepack, bool reduce_range=False) -> Tensor Y",
    f"linear_relu_dynamic_fp16(Tensor X, {_LINEAR} W_prepack) -> Tensor Y",
    f"linear_tanh(Tensor X, {_LINEAR} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y",
    f"linear_unpack({_LINEAR} W_prepack) -> (Tensor W_origin, Tensor? B_origin)",
    f"linear_unpack_fp16({_LINEAR} W_prepack) -> (Tensor W_origin, Tensor? B_origin)",
    "matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    (
        "max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
        "bool ceil_mode) -> Tensor"
    ),
    (
        "max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
        "bool ceil_mode) -> Tensor"
    ),
    "mul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "mul.Scalar(Tensor qa, Scalar b) -> Tensor qc",
    "mul.Scalar2(Scalar b, Tensor qa) -> Tensor qc",
    "mul.Scalar_out(Tensor qa, Scalar b, *, Tensor(a!) out) -> Tensor(a!) out",
    "mul.out(Tensor qa, Tensor qb, *, Tensor(a!) out) -> Tensor(a!) out",
    "mul_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
    "mul_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "mul_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
    "mul_relu.Scalar2(Scalar b, Tensor qa) -> Tensor qc",
    "mul_relu.Scalar_out(Tensor qa, Scalar b, *, Tensor(a!) out) -> Tensor(a!) out",
    "mul_relu.out(Tensor qa, Tensor qb, *, Tensor(a!) out) -> Tensor(a!) out",
    "mul_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
    "mul_scalar(Tensor qa, Scalar b) -> Tensor qc",
    "mul_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
    "mul_scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
    "mul_scalar_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
    "mul_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
    "mul_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
    "mul_scalar_relu_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
    "mul_scalar_relu_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
    "prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor",
    "relu6(Tensor qx, bool inplace=False) -> Tensor",
    "sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor",
    "softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor",
    "threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy",
)

PRIVATE = frozenset(
    {
        *("add", "linear", "linear_dynamic", "linear_prepack", "linear_prepack_fp16"),
        *(
            "conv2d.new",
            "conv2d_relu.new",
            "conv2d_prepack",
            "conv3d.new",
            "conv3d_relu.new",
            "conv3d_prepack",
        ),
        *("conv_transpose1d", "conv_transpose1d_prepack", "conv_transpose2d", "conv_transpose2d_prepack"),
        "conv_transpose3d_prepack",
    }
)
"""Operators that are in `tt.ops._quantized` too, as their only overload."""

ALL = {f"quantized::{schema.partition('(')[0]}": f"quantized::{schema}" for schema in SCHEMAS} | {
    f"_quantized::{name.removesuffix('.new')}": f"_quantized::{name.removesuffix('.new')}{schema[len(name) :]}"
    for schema in SCHEMAS
    if (name := schema.partition("(")[0]) in PRIVATE
}
"""All of them: full names, to schemas with these."""

NAMES = tuple(ALL)
