"""`ShapeProp`: runs a graph and notes each result's shape, dtype and strides (torch/fx/passes/shape_prop.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...dispatch.tensor import Tensor
from ...runtime.memory_format import channels_last, channels_last_3d, contiguous_format, memory_format
from ...runtime.scalar_type import dtype
from ...runtime.size import Size
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Tensor metadata that `ShapeProp` stores in ``node.meta["tensor_meta"]``.

    `memory_format` is None for strides that are neither contiguous nor channels-last. There are no quantized tensors.
    """

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor) -> TensorMetadata:
    formats = [(contiguous_format, None), (channels_last, 4), (channels_last_3d, 5)]
    memory_format = next(
        (
            each
            for each, dims in formats
            if dims in (None, result.ndim) and result.is_contiguous(memory_format=each)
        ),
        None,
    )
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), memory_format, False, {}
    )


class ShapeProp(Interpreter):
    """Interpreter that stores each node's result metadata in its `meta`.

    ``meta["tensor_meta"]`` is a `TensorMetadata`, or a container of such for several results; ``meta["type"]`` the
    result's class. A module and arguments on the device ``meta`` cost neither time nor memory.

    Args:
        gm: the module.

    Source: torch.fx.passes.shape_prop.ShapeProp.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.shape_prop import ShapeProp
        >>> module = tt.fx.symbolic_trace(tt.nn.Sequential(tt.nn.Linear(3, 4, device="meta")))
        >>> ShapeProp(module).propagate(tt.ones(2, 3, device="meta")).shape
        triten.Size([2, 4])
        >>> [(node.name, node.meta["tensor_meta"].shape) for node in module.graph.nodes]
        [('input_1', triten.Size([2, 3])), ('_0', triten.Size([2, 4])), ('output', triten.Size([2, 4]))]
    """

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Run one node and store its metadata in `meta`.

        Raises:
            RuntimeError: The node failed; its error is the cause.
        """
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors: list[Tensor] = []

        def described(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            tensors.append(leaf)
            return _extract_tensor_metadata(leaf)

        meta = map_aggregate(result, described)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these arguments. Returns what it returns."""
        return self.run(*args)
