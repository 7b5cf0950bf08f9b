"""Outputs of a replay: tensors over a capture's memory, and the lease that shows that one is alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.tensor import Tensor, blank_tensor
from ...runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ...runtime.data_ptr import DataPtr
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.written_code import defined

Outputs = Callable[..., tuple[Any, ...]]

SMALL_RESULT = 64 << 10
"""Bytes up to which a result is copied out of a capture's memory: a loss that is kept in a list holds no capture."""


class Lease:
    """Lease of a capture's memory: the deleter of each pointer over it, so it lives as long as any pointer."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Sequence[DataPtr]) -> None:
        self.memory = memory

    def __call__(self, data: DataPtr) -> None:
        """Release a pointer; the memory stays the capture's."""


def is_leased(data: Any) -> bool:
    """Return True if a pointer is to the memory of a capture."""
    return isinstance(root_of(data).deleter, Lease)


def source_of(value: Any, static: Sequence[Any]) -> tuple[int, int | None] | None:
    """Return the input that an output views, with the byte offset of its first element, or None for a separate output.

    The offset is None if the output is the input.
    """
    for i, static_input in enumerate(static):
        if static_input is value:
            return i, None
    root = root_of(value._data)
    for i, static_input in enumerate(static):
        if static_input._data.nbytes and root_of(static_input._data) is root:
            return i, value._data.address - static_input._data.address
    return None


def as_given(value: Any, static: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """Return an output of a call on copies of inputs; a copy, or a view of it, is replaced by the input or its view."""
    source = source_of(value, static) if isinstance(value, TensorImpl) else None
    if source is None or static[source[0]] is inputs[source[0]]:
        return value
    original = inputs[source[0]]
    if source[1] is None:
        return original
    view = Tensor.from_data(original._data.offset_by(source[1]), value._spec)
    view._version_cell = None if value._spec.is_inference else original.version_cell()
    return view


def memory_of(outputs: Sequence[Any], static: Sequence[Any]) -> list[DataPtr]:
    """Return the memory of outputs, except memory of inputs."""
    roots = [
        root_of(value._data)
        for value in outputs
        if isinstance(value, TensorImpl) and source_of(value, static) is None
    ]
    return list({id(root): root for root in roots}.values())


def written_outputs(outputs: Sequence[Any], static: Sequence[Any], copied_results: int) -> Outputs:
    """Return a function from ``(inputs, lease, cuda, stream)`` to the outputs of a replay.

    Args:
        outputs: The outputs of the capture.
        static: Its inputs.
        copied_results: The number of first outputs that are copied out if they are small.
    """
    writer = _Writer(outputs, static)
    lines = ["def outputs(inputs, lease, cuda, stream):"]
    results = [writer.output(i, value, i < copied_results) for i, value in enumerate(outputs)]
    lines += [*writer.lines, f"    return ({''.join(f'{name}, ' for name in results)})"]
    made: Outputs = defined("outputs", "\n".join(lines) + "\n", "outputs of a CUDA graph", writer.globals)
    return made


class _Writer:
    """Lines that make the outputs. It is written out, as it runs at every call."""

    def __init__(self, outputs: Sequence[Any], static: Sequence[Any]) -> None:
        self.static = static
        self.globals: dict[str, Any] = {
            "DataPtr": DataPtr, "blank_tensor": blank_tensor, "allocate": CUDA_ALLOCATOR.allocate,
        }  # fmt: skip
        self.lines: list[str] = []
        self.made: dict[tuple[int, bool], str] = {}
        self.roots: dict[tuple[int, bool], str] = {}
        self.cells: dict[int, str] = {}
        self.root_ids = [id(root_of(value._data)) for value in outputs if isinstance(value, TensorImpl)]

    def output(self, i: int, value: Any, is_result: bool) -> str:
        """Return the name of an output, and write its lines unless it is a repeated output."""
        if not isinstance(value, TensorImpl):
            self.globals[f"v{i}"] = value
            return f"v{i}"
        root: DataPtr = root_of(value._data)
        source = source_of(value, self.static)
        if source is not None and source[1] is None:
            return f"inputs[{source[0]}]"
        is_copied = is_result and source is None and root.nbytes <= SMALL_RESULT
        name = self.made.get((id(value), is_copied))
        if name is not None:
            return name
        if source is not None:
            data, cell = (
                f"inputs[{source[0]}]._data.offset_by({source[1]})",
                f"inputs[{source[0]}].version_cell()",
            )
        else:
            data, cell = self._root(i, root, is_copied), self._cell(i, root)
            if value._data is not root:
                data = f"{data}.offset_by({value._data.address - root.address})"
        self.globals[f"s{i}"] = value._spec
        self.lines += [
            f"    v{i} = blank_tensor()",
            f"    v{i}._data = {data}; v{i}._spec = s{i}",
            f"    v{i}._version_cell = {'None' if value._spec.is_inference else cell}",
            f"    v{i}._autograd = v{i}._view_base = None",
        ]
        self.made[id(value), is_copied] = f"v{i}"
        return f"v{i}"

    def _root(self, i: int, root: DataPtr, is_copied: bool) -> str:
        """Return the name of a pointer to an output's memory, or to a copy of it."""
        name = self.roots.get((id(root), is_copied))
        if name is not None:
            return name
        self.globals[f"d{i}"], self.globals[f"b{i}"] = root.device, root.context
        if is_copied:
            self.lines.append(f"    r{i} = allocate({root.nbytes}, d{i})")
            if root.nbytes:
                self.lines.append(
                    f"    cuda.copy_device_to_device(r{i}.address, {root.address}, {root.nbytes}, stream)"
                )
        else:
            self.lines.append(f"    r{i} = DataPtr({root.address}, {root.nbytes}, d{i}, None, lease, b{i})")
        self.roots[id(root), is_copied] = f"r{i}"
        return f"r{i}"

    def _cell(self, i: int, root: DataPtr) -> str:
        """Return the version counter of an output; outputs that share memory share it."""
        if self.root_ids.count(id(root)) == 1:
            return "None"
        if id(root) not in self.cells:
            self.cells[id(root)] = f"c{i}"
            self.lines.append(f"    c{i} = [0]")
        return self.cells[id(root)]
