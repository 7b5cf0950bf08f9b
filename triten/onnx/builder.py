"""An ONNX graph while it is built: nodes, constants, names and the dtypes of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_spec import TensorSpec


def package(name: str = "onnx") -> Any:
    """A module of the package ``onnx``. Raises ModuleNotFoundError, which names it, where that is not installed."""
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
    """The nodes and constants of a graph, in order. A value is its name, a str."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.helper = package("onnx.helper")
        self.numpy_helper = package("onnx.numpy_helper")
        self.domains: set[str] = set()
        """The domains of operators that are not ONNX's own."""
        self.specs: dict[str, TensorSpec] = {}
        """What is known of values."""
        self._names: set[str] = set()

    def name(self, wanted: str) -> str:
        """A name that no other value has."""
        found, number = wanted, 0
        while found in self._names:
            number += 1
            found = f"{wanted}_{number}"
        self._names.add(found)
        return found

    def many(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """The results of a new node. An input that is left out is an empty name."""
        return self.add_node(kind, inputs, outputs, attributes)

    def add_node(
        self, kind: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, Any], domain: str = ""
    ) -> list[str]:
        """The results of a new node, whose operator may be of a domain that is not ONNX's own."""
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
        """The result of a new node."""
        return self.many(kind, inputs, 1, **attributes)[0]

    def constant(self, value: Any, name: str = "constant") -> str:
        """A constant of the graph, an ndarray."""
        found = self.name(name)
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self.initializers.append(self.numpy_helper.from_array(array, found))
        return found

    def integers(self, *values: int) -> str:
        """A constant list of integers, which sizes, dimensions and limits are given as."""
        return self.constant(np.array(values, np.int64), "integers")

    def number(self, value: Any, dtype: ScalarType) -> str:
        """A constant number of a dtype."""
        return self.constant(np.array(value, dtype.np), "number")

    def kind_of(self, dtype: ScalarType) -> int:
        """ONNX's number of a dtype."""
        return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.np)))

    def cast(self, value: str, given: ScalarType, wanted: ScalarType) -> str:
        """A value in another dtype."""
        return value if given is wanted else self("Cast", value, to=self.kind_of(wanted))
