"""Inputs of a call, restored before each run: tensors that it writes to, and random number generators."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.layers.pytree import tree_leaves
from ...runtime.generator import Generator
from ...runtime.tensor_impl import TensorImpl


class Inputs:
    """The tensors among a call's arguments, and the states of the generators.

    Copies of all tensors are kept until the first run has shown, by their versions, which of them it writes to.

    Args:
        arguments: any nesting of tensors and other things.
        generators: Random generators that the call may use, in addition to those among the arguments.
    """

    def __init__(self, arguments: object, generators: Iterable[Generator]) -> None:
        leaves = tree_leaves(arguments)
        tensors: dict[int, Any] = {id(leaf): leaf for leaf in leaves if isinstance(leaf, TensorImpl)}
        self._kept = [(tensor, tensor.detach().clone(), tensor._version) for tensor in tensors.values()]
        every = [*generators, *(leaf for leaf in leaves if isinstance(leaf, Generator))]
        self._states = [(generator, generator.state_bytes()) for generator in dict.fromkeys(every)]
        self._is_fresh = True

    def written(self) -> list[Any]:
        """Return the tensors that the run has written to, and drop copies of the others."""
        if self._is_fresh:
            self._is_fresh = False
            self._kept = [each for each in self._kept if each[0]._version != each[2]]
        return [tensor for tensor, _, _ in self._kept]

    def restore(self) -> None:
        """Everything as it was at first."""
        for generator, state in self._states:
            generator.set_state_bytes(state)
        if self._is_fresh:
            return
        with no_grad():
            for tensor, copy, _ in self._kept:
                tensor.detach().copy_(copy)

    def __enter__(self) -> Inputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.written()
        self.restore()
