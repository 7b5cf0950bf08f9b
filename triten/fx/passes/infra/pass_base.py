"""`PassBase`: a pass with what it needs of a graph and what it promises (torch/fx/passes/infra/pass_base.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """Result of a pass: the module, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase(ABC):
    """A pass: calling it checks the module, runs `call`, and checks the module again.

    Source: torch.fx.passes.infra.pass_base.PassBase.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.infra.pass_base import PassBase, PassResult
        >>> class RemoveDeadCode(PassBase):
        ...     def call(self, graph_module):
        ...         changed = graph_module.graph.eliminate_dead_code()
        ...         graph_module.recompile()
        ...         return PassResult(graph_module, changed)
        >>> def f(x):
        ...     x.exp()
        ...     return x
        >>> RemoveDeadCode()(tt.fx.symbolic_trace(f)).modified
        True
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass; a subclass overrides this method."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise for a module that the pass cannot work on; by default none is refused."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise if the module is not as the pass promises; by default it promises nothing."""
