"""`FakeTensorProp`: runs a graph on fake tensors (torch/fx/passes/fake_tensor_prop.py)."""

from __future__ import annotations

from typing import Any

from ...dispatch.layers.fake_tensor_mode import FakeTensorMode
from ...dispatch.tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Interpreter that runs a graph on fake tensors and stores each node's result in ``node.meta["val"]``.

    It takes no memory and computes no elements. Tensors of ``meta["val"]`` are fake and detached, and keep the metadata
    of the time when the node ran.

    Args:
        module: The module.
        mode: The `FakeTensorMode` of the arguments. The module's parameters and buffers must be its fake tensors,
            unless it has `allow_non_fake_inputs`. Default: a new one.

    Source: torch.fx.passes.fake_tensor_prop.FakeTensorProp.

    Example:
        >>> import triten as tt
        >>> from triten._subclasses.fake_tensor import FakeTensorMode
        >>> from triten.fx.passes.fake_tensor_prop import FakeTensorProp
        >>> module = tt.fx.symbolic_trace(lambda x: x.t() + 1)
        >>> FakeTensorProp(module).propagate(tt.ones(2, 3)).shape
        triten.Size([3, 2])
        >>> [node.meta["val"].shape for node in module.graph.nodes if node.op != "output"]
        [triten.Size([2, 3]), triten.Size([3, 2]), triten.Size([3, 2])]
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Run one node and store its result in `meta`."""
        result = super().run_node(n)
        n.meta["val"] = map_aggregate(result, _snapshot)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module on fake tensors like the given tensors, and return its result.

        Args:
            args: The module's arguments; real tensors become fake ones, other values stay.
        """
        return self.propagate_dont_convert_inputs(
            *[self._mode.from_tensor(each) if isinstance(each, Tensor) else each for each in args]
        )

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the module on the given arguments in the mode's block, and return its result."""
        with self._mode:
            return self.run(*args)


def _snapshot(leaf: Any) -> Any:
    """Return a tensor that keeps its metadata if the graph changes that of `leaf` in place."""
    return leaf.detach() if isinstance(leaf, Tensor) else leaf
