"""An ONNX graph while it is built: nodes, constants, names and the dtypes of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_spec import TensorSpec


def package(name: str = "onnx") -> Any:
    """Return a module of the package ``onnx``.

    Raises:
        ModuleNotFoundError: ``onnx`` is not installed.
    """
    try:
        import_module("onnx.helper")  # a folder of that name is not the package
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "onnx":
            raise
        raise ModuleNotFoundError(
            "triten.onnx writes through the package onnx, which is not installed: pip install onnx",
            name=error.name,
        ) from error


class Builder:
    """The nodes and initializers of an ONNX graph, in order. A value of the graph is its name, a str."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.helper = package("onnx.helper")
        self.numpy_helper = package("onnx.numpy_helper")
        self.domains: set[str] = set()
        """Operator domains other than ONNX's own."""
        self.specs: dict[str, TensorSpec] = {}
        """The known specs of values, by name."""
        self._names: set[str] = set()

    def name(self, base: str) -> str:
        """Return a unique name: `base`, with a numeric suffix if it is taken."""
        name, number = base, 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def many(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Add a node of ONNX's domain and return its results. An empty name leaves an input out."""
        return self.add_node(kind, inputs, outputs, attributes)

    def add_node(
        self, kind: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, Any], domain: str = ""
    ) -> list[str]:
        """Add a node, of ONNX's domain by default, and return its results. Attributes that are None are dropped."""
        names = [self.name(kind.lower()) for _ in range(outputs)]
        node = self.helper.make_node(
            kind, list(inputs), names, name=self.name(f"node_{kind}"), domain=domain or None
        )
        node.attribute.extend(
            self.helper.make_attribute(key, value)
            for key, value in sorted(attributes.items())
            if value is not None
        )
        self.nodes.append(node)
        return names

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result and return that result."""
        return self.many(kind, inputs, 1, **attributes)[0]

    def constant(self, value: Any, name: str = "constant") -> str:
        """Add an initializer and return its name."""
        initializer_name = self.name(name)
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self.initializers.append(self.numpy_helper.from_array(array, initializer_name))
        return initializer_name

    def integers(self, *values: int) -> str:
        """Add a 1D int64 initializer, as ONNX takes sizes, dimensions and limits."""
        return self.constant(np.array(values, np.int64), "integers")

    def number(self, value: Any, dtype: ScalarType) -> str:
        """Add a scalar initializer of a dtype."""
        return self.constant(np.array(value, dtype.np), "number")

    def kind_of(self, dtype: ScalarType) -> int:
        """Return the ``TensorProto.DataType`` of a dtype."""
        return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.np)))

    def cast(self, value: str, source: ScalarType, target: ScalarType) -> str:
        """Return a value in the target dtype; add a Cast node if the dtypes differ."""
        return value if source is target else self("Cast", value, to=self.kind_of(target))
