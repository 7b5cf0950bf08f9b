"""Protocol buffers of a log: scalars, histograms, images, texts, curves, hyperparameters."""

from __future__ import annotations

import io
import json
import struct
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import as_tensor
from ...runtime import scalar_type as dtypes
from .images import Array, as_bytes, convert_to_HWC, encoded, encoded_video, make_np

MAX_THRESHOLDS = 127
"""More break the protocol buffer of a curve."""

KINDS = {
    dtypes.float16: ("DT_HALF", "half_val"),
    dtypes.bfloat16: ("DT_BFLOAT16", "half_val"),
    dtypes.float32: ("DT_FLOAT", "float_val"),
    dtypes.float64: ("DT_DOUBLE", "double_val"),
    dtypes.int8: ("DT_INT8", "int_val"),
    dtypes.uint8: ("DT_UINT8", "uint32_val"),
    dtypes.int16: ("DT_INT16", "int_val"),
    dtypes.int32: ("DT_INT32", "int_val"),
    dtypes.int64: ("DT_INT64", "int64_val"),
    dtypes.bool_: ("DT_BOOL", "bool_val"),
    dtypes.complex64: ("DT_COMPLEX64", "scomplex_val"),
    dtypes.complex128: ("DT_COMPLEX128", "dcomplex_val"),
}
"""The name of each dtype, and the field that its values stand in."""


def _metadata(plugin: str, content: Any = None) -> Any:
    data = {} if content is None else {"content": content.SerializeToString()}
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, **data))


def _shape(sizes: Sequence[int]) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _summary(tag: str, **content: Any) -> Any:
    return Summary(value=[Summary.Value(tag=tag, **content)])


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """Return the summary of a scalar.

    Raises:
        AssertionError: The tensor has several elements.
    """
    array = make_np(value).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions). "
            f"Was given size: {array.size} and {array.ndim} dimensions."
        )
    number = float(array)
    if not new_style:
        return _summary(tag, simple_value=number)
    if double_precision:
        tensor = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    else:
        tensor = TensorProto(float_val=[number], dtype="DT_FLOAT")
    return _summary(tag, tensor=tensor, metadata=_metadata("scalars"))


def tensor_proto(tag: str, tensor: Tensor) -> Any:
    """Return the summary of a whole tensor.

    Raises:
        ValueError: The tensor has 2 GB or more, or a dtype without a protocol buffer name.
    """
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in KINDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    kind, field = KINDS[tensor.dtype]
    values = tensor.flatten().tolist()
    if field == "half_val":
        # Integers with the bits of the float32 values.
        values = list(struct.unpack(f"{len(values)}i", struct.pack(f"{len(values)}f", *values)))
    elif tensor.dtype.is_complex:
        values = [part for value in values for part in (value.real, value.imag)]
    content = TensorProto(**{"dtype": kind, "tensor_shape": _shape(tensor.shape), field: values})
    return _summary(tag, metadata=_metadata("tensor"), tensor=content)


def histogram_raw(
    tag: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """Return the summary of a precomputed histogram."""
    content = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _summary(tag, histo=content)


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """Return the summary of a histogram, from the first to the last nonempty bin.

    Raises:
        ValueError: There are no values.
    """
    flat = make_np(values).astype(float).reshape(-1)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        several = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % several)).reshape(-1, several).sum(axis=-1)
        limits = np.append(limits[:-1:several], limits[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError(f"histogram {tag}: no value lies in the bins")
    first, last = int(filled[0]), int(filled[-1]) + 1
    # A bin has only its upper limit: an empty one before the first tells where that begins.
    counts = counts[first - 1 : last] if first > 0 else np.concatenate([[0], counts[:last]])
    return histogram_raw(
        tag,
        flat.min(),
        flat.max(),
        len(flat),
        flat.sum(),
        flat.dot(flat),
        limits[first : last + 1].tolist(),
        counts.tolist(),
    )


def _image(tag: str, picture: Array, **drawing: Any) -> Any:
    rows, columns, channels = picture.shape
    content = Summary.Image(
        height=rows, width=columns, colorspace=channels, encoded_image_string=encoded(picture, **drawing)
    )
    return _summary(tag, image=content)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """Return the summary of an image, 8-bit or floating in [0, 1]."""
    return _image(tag, as_bytes(convert_to_HWC(make_np(tensor), dataformats)), rescale=rescale)


def image_boxes(
    tag: str, tensor: Any, boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None
) -> Any:
    """Return the summary of an image with boxes."""
    picture = as_bytes(convert_to_HWC(make_np(tensor), dataformats))
    return _image(tag, picture, rescale=rescale, boxes=make_np(boxes), labels=labels)


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Return the summary of videos (N, T, C, H, W), in a grid."""
    (rows, columns, channels), data = encoded_video(make_np(tensor), fps)
    content = Summary.Image(height=rows, width=columns, colorspace=channels, encoded_image_string=data)
    return _summary(tag, image=content)


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Return the summary of mono audio, in [-1, 1].

    Raises:
        AssertionError: There are several channels.
    """
    array = make_np(tensor).squeeze()
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    samples = (array * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(samples.tobytes())
    content = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _summary(tag, audio=content)


def text(tag: str, text: str) -> Any:
    """Return the summary of a Markdown text."""
    tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    return _summary(
        f"{tag}/text_summary", metadata=_metadata("text", TextPluginData(version=0)), tensor=tensor
    )


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Return the layout of scalars in charts.

    Args:
        layout: Charts by category and title, each ``["Multiline" or "Margin", tags]``.

    Raises:
        AssertionError: A margin chart does not have 3 tags.
    """
    categories = []
    for category, charts in layout.items():
        chart_list = []
        for title, (kind, tags, *_) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"a margin chart takes 3 tags, got {len(tags)}")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            chart_list.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=category, chart=chart_list))
    text = layout_pb2.Layout(category=categories).SerializeToString()
    tensor = TensorProto(dtype="DT_STRING", string_val=[text], tensor_shape=TensorShapeProto())
    return _summary("custom_scalars__config__", tensor=tensor, metadata=_metadata("custom_scalars"))


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = MAX_THRESHOLDS,
) -> Any:
    """Return the summary of a precision-recall curve from counts at each threshold."""
    data = np.stack([make_np(each) for each in (tp, fp, tn, fn, precision, recall)])
    tensor = TensorProto(
        dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape)
    )
    content = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, MAX_THRESHOLDS))
    return _summary(tag, metadata=_metadata("pr_curves", content), tensor=tensor)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = MAX_THRESHOLDS, weights: Any = None
) -> Any:
    """Return the summary of a precision-recall curve from labels, 0 or 1, and predictions in [0, 1]."""
    labels, predictions = make_np(labels).astype(np.float64), make_np(predictions)
    weights = 1.0 if weights is None else make_np(weights)
    count = min(num_thresholds, MAX_THRESHOLDS)
    bucket_indices = np.floor(predictions * (count - 1)).astype(np.int32)

    def above(chosen: Array) -> Array:
        buckets, _ = np.histogram(bucket_indices, bins=count, range=(0, count - 1), weights=chosen * weights)
        return np.cumsum(buckets[::-1])[::-1]

    tp, fp = above(labels), above(1.0 - labels)
    tn, fn = fp[0] - fp, tp[0] - tp
    smallest = 1e-7
    precision, recall = tp / np.maximum(smallest, tp + fp), tp / np.maximum(smallest, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, count)


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config_dict: Mapping[str, Any] | None) -> Any:
    """Return the summary of a 3D mesh: vertices, colors and triangles, each (batch, count, 3)."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    tensors_and_kinds = [
        (as_tensor(each), kind)
        for each, kind in (
            (vertices, MeshPluginData.VERTEX),
            (faces, MeshPluginData.FACE),
            (colors, MeshPluginData.COLOR),
        )
        if each is not None
    ]
    components = metadata.get_components_bitmask([kind for _, kind in tensors_and_kinds])
    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)
    return Summary(
        value=[
            Summary.Value(
                tag=metadata.get_instance_name(tag, kind),
                tensor=TensorProto(
                    dtype="DT_FLOAT",
                    float_val=tensor.reshape(-1).tolist(),
                    tensor_shape=_shape(tensor.shape[:3]),
                ),
                metadata=metadata.create_summary_metadata(
                    tag, None, kind, components, tensor.shape, None, json_config=config
                ),
            )
            for tensor, kind in tensors_and_kinds
        ]
    )


def hparams(
    hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], hparam_domain_discrete: Any = None
) -> tuple[Any, Any, Any]:
    """Return the summaries of a session with hyperparameters: experiment, session start, session end.

    Raises:
        TypeError: An argument is not a dictionary, or a domain has values of another type.
        ValueError: A hyperparameter is not a number, str, bool or tensor.
    """
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import (
        DataType,
        Experiment,
        HParamInfo,
        MetricInfo,
        MetricName,
        Status,
    )
    from tensorboard.plugins.hparams.plugin_data_pb2 import (
        HParamsPluginData,
        SessionEndInfo,
        SessionStartInfo,
    )

    domains = hparam_domain_discrete or {}
    for name, each in (
        ("hparam_dict", hparam_dict),
        ("metric_dict", metric_dict),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(each, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    for key, domain in domains.items():
        if (
            key not in hparam_dict
            or not isinstance(domain, list)
            or not all(isinstance(value, type(hparam_dict[key])) for value in domain)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{key}] should be a list of same type as hparam_dict[{key}]."
            )
    start = SessionStartInfo()
    infos = []
    for key, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, Tensor):
            value, field = make_np(value).reshape(-1)[0], "number_value"
        elif isinstance(value, int | float):
            field = "number_value"
        elif isinstance(value, str):
            field = "string_value"
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        setattr(start.hparams[key], field, value)
        kind = "DATA_TYPE_STRING" if field == "string_value" else "DATA_TYPE_FLOAT64"
        domain = None
        if key in domains:
            domain = struct_pb2.ListValue(values=[struct_pb2.Value(**{field: each}) for each in domains[key]])
        infos.append(HParamInfo(name=key, type=DataType.Value(kind), domain_discrete=domain))
    metrics = [MetricInfo(name=MetricName(tag=key)) for key in metric_dict]

    def of_plugin(tag: str, **content: Any) -> Any:
        data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
        return _summary(tag, metadata=_metadata(metadata.PLUGIN_NAME, data))

    return (
        of_plugin(metadata.EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=metrics)),
        of_plugin(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        of_plugin(
            metadata.SESSION_END_INFO_TAG,
            session_end_info=SessionEndInfo(status=Status.Value("STATUS_SUCCESS")),
        ),
    )
