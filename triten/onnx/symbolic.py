"""Symbolic functions, which translate custom operators to ONNX and which programs register, as in PyTorch.

A symbolic function takes a `GraphContext` and the operator's arguments. It returns results of ``g.op``::

    @parse_args("v", "f")
    def leaky(g, x, slope):
        return g.op("LeakyRelu", x, alpha_f=slope)

    tt.onnx.register_custom_op_symbolic("mine::leaky", leaky, 18)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from typing import Any

import numpy as np

from ..dispatch.tensor import Tensor
from .builder import Builder
from .errors import UnsupportedOperatorError
from .operators import TRANSLATIONS, Step, Translation

Symbolic = Callable[..., Any]

CUSTOM: dict[str, dict[int, Symbolic]] = {}
"""Symbolic functions by operator name, ``mine::leaky``, and by the first opset version that they support."""

_NAME = re.compile(r"[A-Za-z0-9_]+::[A-Za-z0-9_.-]*[A-Za-z0-9_]")


class TensorProtoDataType(IntEnum):
    """ONNX's dtype enum, ``TensorProto.DataType`` (`torch.onnx.TensorProtoDataType`)."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Symbolic, opset_version: int) -> None:
    """Register a symbolic function for a custom operator (`torch.onnx.register_custom_op_symbolic`).

    Args:
        symbolic_name: The operator's name with its namespace, ``mine::leaky``.
        symbolic_fn: A function of a `GraphContext` and the operator's arguments. Tensor arguments are values of the
            graph. The function returns a value, or a tuple of values for several results.
        opset_version: The first opset version that the function supports.

    Raises:
        ValueError: The name is not of the form ``namespace::operator``.

    Example:
        >>> import triten as tt
        >>> tt.onnx.register_custom_op_symbolic("mine::twice", lambda g, x: g.op("Add", x, x), 18)
        >>> tt.onnx.unregister_custom_op_symbolic("mine::twice", 18)
    """
    _checked(symbolic_name, "register_custom_op_symbolic")
    CUSTOM.setdefault(symbolic_name, {})[int(opset_version)] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Remove a registered symbolic function (`torch.onnx.unregister_custom_op_symbolic`).

    Args:
        symbolic_name: The operator's name with its namespace, ``mine::leaky``.
        opset_version: The opset version that the function was registered for. A version without a function is ignored.

    Raises:
        ValueError: The name is not of the form ``namespace::operator``.
    """
    _checked(symbolic_name, "unregister_custom_op_symbolic")
    versions = CUSTOM.get(symbolic_name, {})
    versions.pop(int(opset_version), None)
    if not versions:
        CUSTOM.pop(symbolic_name, None)


def _checked(name: str, function: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"onnx.{function}: symbolic_name must be 'namespace::operator', got {name!r}")


def custom_translation(target: str, opset: int) -> Translation | None:
    """Return the registered translation of an operator such as ``mine.leaky.default``, or None.

    Among several versions up to `opset` the newest is chosen.
    """
    namespace, _, rest = target.partition(".")
    versions = CUSTOM.get(f"{namespace}::{rest.partition('.')[0]}", {})
    fitting = [each for each in versions if each <= opset]
    if not fitting:
        return None
    function = versions[max(fitting)]
    return lambda builder, step, *args, **kwargs: function(GraphContext(builder, step), *args, **kwargs)


class GraphContext:
    """The graph that a symbolic function adds nodes to, its argument `g` (GraphContext in `torch.onnx`).

    Attributes:
        opset: The opset version of the export.
    """

    def __init__(self, builder: Builder, step: Step) -> None:
        self._builder = builder
        self._step = step
        self.opset = builder.opset

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Add a node.

        Args:
            opname: An ONNX operator, ``Cast``, or one of another domain, ``mine::Leaky``.
            raw_args: The inputs: values of the graph, or numbers, lists and tensors, which become constants. None
                leaves an optional input out.
            outputs: The number of results. Default: 1.
            kwargs: The attributes. The end of a name gives the type: ``_i`` for an integer, ``_f`` for a float, ``_s``
                for a string, ``_t`` for a tensor. A list makes an attribute of several values. None leaves the
                attribute out.

        Returns:
            The value, or a tuple of values if `outputs` is not 1.

        Raises:
            ValueError: An attribute's name does not end with a type, or a Constant has not exactly one attribute.
            UnsupportedOperatorError: An input cannot be a constant of the graph.
        """
        builder = self._builder
        attributes = {name: value for name, value in kwargs.items() if value is not None}
        if opname in ("Constant", "onnx::Constant"):
            return self._constant(attributes)
        domain, _, kind = opname.rpartition("::")
        if domain in ("onnx", "aten"):
            domain = ""
        inputs = [self._input(each) for each in raw_args]
        converted = dict(self._attribute(name, value) for name, value in attributes.items())
        if domain:
            builder.domains.add(domain)
        names = builder.add_node(kind, inputs, outputs, converted, domain)
        return names[0] if outputs == 1 else tuple(names)

    def _constant(self, attributes: dict[str, Any]) -> str:
        if len(attributes) != 1:
            raise ValueError(f"onnx: a Constant has one value, got {sorted(attributes)}")
        (value,) = attributes.values()
        return self._input(value)

    def _input(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if isinstance(value, Tensor):
            return self._builder.constant(value.detach().cpu()._data)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise UnsupportedOperatorError(
                f"onnx.export: {self._step.target}: {value!r} is no value of a graph"
            )
        return self._builder.constant(array.astype(np.float32) if array.dtype.kind == "f" else array)

    def _attribute(self, name: str, value: Any) -> tuple[str, Any]:
        base, _, kind = name.rpartition("_")
        is_list = isinstance(value, (list, tuple))
        readers: dict[str, Callable[[Any], Any]] = {"i": int, "f": float, "s": str, "t": self._tensor}
        read = readers.get(kind)
        if not base or read is None:
            raise ValueError(
                f"onnx: the attribute {name!r} of {self._step.target} must end with _i, _f, _s or _t"
            )
        return base, [read(each) for each in value] if is_list else read(value)

    def _tensor(self, value: Any) -> Any:
        array = value.detach().cpu()._data if isinstance(value, Tensor) else np.asarray(value)
        return self._builder.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))


def parse_args(*arg_descriptors: str) -> Callable[[Symbolic], Symbolic]:
    """Return a decorator that converts a symbolic function's arguments (`torch.onnx.symbolic_helper.parse_args`).

    Args:
        arg_descriptors: The type of each argument after `g`: ``"v"`` for a value of the graph, which is passed as it
            is; ``"i"``, ``"f"``, ``"b"`` or ``"s"`` for an int, a float, a bool or a str; ``"is"`` or ``"fs"`` for a
            list; ``"t"`` for a tensor; ``"none"`` for None.

    Returns:
        The decorator. The decorated function raises TypeError for more arguments than descriptors, and for an argument
        that cannot be converted.

    Raises:
        ValueError: A descriptor is unknown.

    Example:
        >>> import triten as tt
        >>> from triten.onnx.symbolic_helper import parse_args
        >>> @parse_args("v", "i")
        ... def shifted(g, x, by):
        ...     return g.op("Add", x, by)
    """
    unknown = sorted(set(arg_descriptors) - _READERS.keys())
    if unknown:
        raise ValueError(f"onnx: parse_args: {unknown[0]!r} is none of {sorted(_READERS)}")

    def decorate(function: Symbolic) -> Symbolic:
        @wraps(function)
        def parsed(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise TypeError(
                    f"onnx: {function.__name__} reads {len(arg_descriptors)} arguments, got {len(args)}"
                )
            read = [
                _read(function.__name__, kind, value)
                for kind, value in zip(arg_descriptors, args, strict=False)
            ]
            return function(g, *read, **kwargs)

        return parsed

    return decorate


def _read(function: str, kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind != "v" and isinstance(value, str) and kind != "s":
        raise UnsupportedOperatorError(
            f"onnx.export: {function}: an argument must be known when the model is exported, and depends on its inputs"
        )
    try:
        return _READERS[kind](value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"onnx: {function}: {value!r} cannot be read as {kind!r}") from error


def _nothing(value: Any) -> None:
    raise ValueError(f"{value!r} is not None")


_READERS: dict[str, Callable[[Any], Any]] = {
    "v": lambda value: value,
    "i": int,
    "f": float,
    "b": bool,
    "s": str,
    "is": lambda value: [int(each) for each in value],
    "fs": lambda value: [float(each) for each in value],
    "t": lambda value: value,
    "none": _nothing,
}


def _unsqueezed(g: GraphContext, x: Any, dim: int) -> Any:
    return g.op("Unsqueeze", x, [dim])


def _squeezed(g: GraphContext, x: Any, dim: int | None = None) -> Any:
    return g.op("Squeeze", x) if dim is None else g.op("Squeeze", x, [dim])


def _selected(g: GraphContext, x: Any, dim: int, index: Any) -> Any:
    return g.op("Gather", x, index, axis_i=dim)


_OF_ANY_SIZES: dict[str, Symbolic] = {
    "unsqueeze": _unsqueezed, "squeeze": _squeezed, "select": _selected,
}  # fmt: skip
"""Translations that do not need the sizes of their arguments."""


def symbolic_function(name: str) -> Symbolic:
    """Return the symbolic function of an ATen operator, for symbolic functions of custom operators to call.

    Raises:
        AttributeError: The operator has no translation.
    """
    known = _OF_ANY_SIZES.get(name)
    if known is not None:
        return known
    overloads = [each for each in TRANSLATIONS if each.partition(".")[0] == name]
    if not overloads:
        raise AttributeError(f"onnx: no translation of an operator {name!r}")
    translation = TRANSLATIONS[overloads[0]]

    def call(g: GraphContext, *args: Any, **kwargs: Any) -> Any:
        specs = tuple(_spec_of(g, each) for each in args)
        step = Step(overloads[0], next(each for each in specs if each is not None), specs, {})
        return translation(g._builder, step, *args, **kwargs)

    call.__name__ = name
    return call


def _spec_of(g: GraphContext, value: Any) -> Any:
    if not isinstance(value, str):
        return None
    spec = g._builder.specs.get(value)
    if spec is None:
        raise UnsupportedOperatorError(
            f"onnx.export: {g._step.target}: its translation asks for the sizes of {value!r}, which are not known"
        )
    return spec


def symbolic_names() -> Sequence[str]:
    """Return the sorted names that `symbolic_function` accepts."""
    return sorted({*_OF_ANY_SIZES, *(each.partition(".")[0] for each in TRANSLATIONS)})
