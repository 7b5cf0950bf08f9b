"""`Traced`: a recorded program that can be called (torch/fx/graph_module.py), and its check against the function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....runtime.device import CPU
from ....runtime.generator import Generator, default_generator
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ....runtime.traceback_filter import hide_inner_frames
from ....runtime.written_code import defined
from ..pytree import TreeSpec, tree_flatten, tree_unflatten
from .graph import Graph
from .pickling import packed, unpacked

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


class InputLeaf(NamedTuple):
    """Leaf of a traced function's arguments: the spec of a tensor, or the fixed value of another leaf."""

    name: str
    spec: TensorSpec | None
    value: Any


class Traced:
    """A graph as a function of arguments with the metadata of those on which it was recorded.

    `graph` may be rewritten; call `recompile` afterwards. A `Traced` is copied and pickled with its constants.

    Example:
        >>> import copy, pickle
        >>> import triten as tt
        >>> traced = tt.func.make_graph(lambda x: {"y": x.exp() * 2})(tt.zeros(2))
        >>> print(traced.code, end="")
        def forward(self, x):
            exp = tt.ops.aten.exp.default(x);  x = None
            mul = tt.ops.aten.mul.Tensor(exp, 2);  exp = None
            return (mul,)
        >>> pickle.loads(pickle.dumps(traced))(tt.zeros(2))
        {'y': tensor([2., 2.])}
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[InputLeaf], in_spec: TreeSpec, out_spec: TreeSpec
    ) -> None:
        self.graph = graph
        self.inputs = tuple(inputs)
        self.in_spec = in_spec
        self.out_spec = out_spec
        self._forward: Callable[..., Any] | None = None
        self._tensors = [i for i, leaf in enumerate(self.inputs) if leaf.spec is not None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Raises:
            TypeError: for arguments of another structure than those of the recording.
            ValueError: for a non-tensor argument of another value.
            RuntimeError: for a tensor of another shape, stride, dtype or device, all of which the graph has fixed.
        """
        try:
            leaves, spec = tree_flatten((args, kwargs))
            if spec != self.in_spec:
                raise TypeError(
                    f"this graph was recorded on arguments of the structure {self.in_spec} (args, kwargs), got {spec}"
                )
            for leaf, expected in zip(leaves, self.inputs, strict=True):
                _check_leaf(leaf, expected)
            forward = self._forward or self.recompile()
            results = forward(_Constants(self.graph.constants), *[leaves[i] for i in self._tensors])
            return tree_unflatten(results, self.out_spec)
        except BaseException:
            hide_inner_frames()
            raise

    @property
    def code(self) -> str:
        """The program as Python source over ``tt.ops``: the inputs' tensors in order, to the results in order."""
        return self.graph.python_code

    def recompile(self) -> Callable[..., Any]:
        """Rebuild the callable after the graph was changed."""
        self._forward = forward_of(self.graph)
        return self._forward

    def print_readable(self) -> str:
        """Print the graph, a line for each step, and return the text."""
        text = str(self.graph)
        print(text)
        return text

    def __copy__(self) -> Traced:
        return Traced(self.graph.copy(), self.inputs, self.in_spec, self.out_spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Traced:
        from copy import deepcopy

        return Traced(deepcopy(self.graph, memo), self.inputs, self.in_spec, self.out_spec)

    def __reduce__(self) -> tuple[Any, ...]:
        inputs = [(leaf.name, packed(leaf.spec), leaf.value) for leaf in self.inputs]
        return _traced, (self.graph, inputs, self.in_spec, self.out_spec)

    def __repr__(self) -> str:
        return f"Traced(\n{self.graph}\n)"


def forward_of(graph: Graph) -> Callable[..., Any]:
    """Return a graph's code as a function of an object with the constants as attributes, and of the inputs in order."""
    namespace: dict[str, Any] = {"tt": package()}
    forward: Callable[..., Any] = defined("forward", graph.python_code, "graph", namespace)
    return forward


def package() -> Any:
    """Return the package, regardless of the name under which it was imported."""
    return sys.modules[__name__.partition(".dispatch.")[0]]


def _traced(graph: Graph, inputs: Sequence[Any], in_spec: TreeSpec, out_spec: TreeSpec) -> Traced:
    leaves = [InputLeaf(name, unpacked(spec), value) for name, spec, value in inputs]
    return Traced(graph, leaves, in_spec, out_spec)


class _Constants:
    """The `self` of a compiled graph."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self.__dict__ = constants


def _check_leaf(leaf: Tensor | Number, expected: InputLeaf) -> None:
    spec = expected.spec
    if spec is None:
        if isinstance(leaf, TensorImpl):
            raise TypeError(f"input '{expected.name}' was {expected.value!r} when recorded, got a tensor")
        if leaf is not expected.value and (
            leaf.__class__ is not expected.value.__class__ or leaf != expected.value
        ):
            raise ValueError(
                f"input '{expected.name}' was {expected.value!r} when recorded, which is fixed in the graph; "
                f"got {leaf!r}"
            )
        return
    if not isinstance(leaf, TensorImpl):
        raise TypeError(f"input '{expected.name}' must be a Tensor, got {type(leaf).__name__}")
    actual = leaf._spec
    for noun, want, have in (
        ("shape", spec.sizes, actual.sizes),
        ("strides", spec.strides, actual.strides),
        ("dtype", spec.dtype, actual.dtype),
        ("device", spec.device, actual.device),
    ):
        if want != have and not (noun == "strides" and not spec.numel):
            raise RuntimeError(
                f"input '{expected.name}': this graph was recorded for {noun} {_plain(want)}, got {_plain(have)}; "
                "record another one"
            )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def check_against(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Traced], None]:
    """Copy the arguments now; the function returned compares a graph with `f` on them, and raises RuntimeError."""
    first, second = _copied((args, kwargs)), _copied((args, kwargs))
    before = _random_state((args, kwargs))

    def compare(traced: Traced) -> None:
        after = _random_state((args, kwargs))
        held = {name: _cloned(v) for name, v in traced.graph.constants.items() if isinstance(v, TensorImpl)}
        try:
            _set_random_state(before)
            expected = f(*first[0], **first[1])
            _restore(traced.graph.constants, held)
            _set_random_state(before)
            got = traced(*second[0], **second[1])
        finally:
            _restore(traced.graph.constants, held)
            _set_random_state(after)
        _compare("output", expected, got)
        _compare("input", first, second)

    return compare


def _cloned(tensor: Any) -> Any:
    """Return a tensor over a copy of the memory between its first and last element, with the same geometry and no
    history.
    """
    spec = tensor._spec
    plain = tensor.detach()
    if spec.numel:
        reach = sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)) + 1
        plain = (
            plain._strided_from((reach,), (1,), 0).clone()._strided_from(spec.sizes, spec.strides, 0).detach()
        )
    else:
        plain = plain.clone()
    return plain._set_requires_grad() if spec.requires_grad else plain


def _copied(tree: Any) -> Any:
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([_cloned(v) if isinstance(v, TensorImpl) else v for v in leaves], spec)


def _restore(constants: dict[str, Any], held: dict[str, Any]) -> None:
    for name, value in held.items():
        tensor = constants[name].detach()
        if not _same_elements(tensor, value):
            tensor.copy_(value)


def _random_state(tree: Any) -> list[tuple[Generator, bytes]]:
    """Return the states of the generators that a call may use: the given ones, and those of its devices."""
    leaves = tree_flatten(tree)[0]
    devices = {CPU, *(v._spec.device for v in leaves if isinstance(v, TensorImpl))}
    generators = [default_generator(d) for d in devices] + [v for v in leaves if isinstance(v, Generator)]
    return [(generator, generator.state_bytes()) for generator in generators]


def _set_random_state(states: list[tuple[Generator, bytes]]) -> None:
    for generator, state in states:
        generator.set_state_bytes(state)


def _same_elements(a: Any, b: Tensor) -> bool:
    if a._spec.is_meta:
        return True
    x, y = np.ascontiguousarray(a.detach().host_array()), np.ascontiguousarray(b.detach().host_array())
    return bool(x.tobytes() == y.tobytes()) or bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))


def _compare(noun: str, expected: Any, got: Any) -> None:
    expected_leaves, structure = tree_flatten(expected)
    values, other = tree_flatten(got)
    if structure != other:
        raise RuntimeError(
            f"make_graph(check=True): {noun} has the structure {other}, the function's {structure}"
        )
    for i, (a, b) in enumerate(zip(expected_leaves, values, strict=True)):
        if not isinstance(a, TensorImpl):
            if a is not b and a != b:
                raise RuntimeError(f"make_graph(check=True): {noun} {i} is {b!r}, the function's {a!r}")
            continue
        s, t = a._spec, b._spec
        if (s.sizes, s.strides, s.dtype, s.device) != (t.sizes, t.strides, t.dtype, t.device):
            raise RuntimeError(f"make_graph(check=True): {noun} {i} is {t!r}, the function's {s!r}")
        if not _same_elements(a, b):
            raise RuntimeError(f"make_graph(check=True): the values of {noun} {i} differ from the function's")
