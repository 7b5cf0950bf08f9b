"""Arguments of a call as JSON, and their construction for either library.

Numbers, strings, None and lists are stored as they are. ``{"tensor": [storage, sizes, strides, offset]}`` is
a view of one of the case's storages. A storage is a dtype's name and its bytes in base64. The entry ``"grad":
true`` marks a tensor that requires grad. Every other value is a mapping with one entry that names its kind.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

NARROW = {
    "bfloat16": (ml_dtypes.bfloat16, "int16"),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, "uint8"),
    "float8_e5m2": (ml_dtypes.float8_e5m2, "uint8"),
    "complex32": (ml_dtypes.complex32, "int32"),
}
"""NumPy has no such dtypes; PyTorch gets their bits as integers."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype for a tensor's dtype."""
    return np.dtype(NARROW[name][0] if name in NARROW else name)


def storage_of(name: str, values: np.ndarray) -> list[str]:
    """Return a contiguous storage that holds `values`, cast to that dtype."""
    with np.errstate(all="ignore"):
        flat = np.ascontiguousarray(values).reshape(-1).astype(numpy_dtype(name))
    return [name, base64.b64encode(flat.tobytes()).decode()]


def array_of_storage(storage: list[str]) -> np.ndarray:
    """Return the elements of a storage as a new array."""
    return np.frombuffer(bytearray(base64.b64decode(storage[1])), numpy_dtype(storage[0]))


def is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and "tensor" in value


def array_of_tensor(case: dict[str, Any], value: dict[str, Any]) -> np.ndarray:
    """Return the elements of a tensor as an array of its shape."""
    storage, sizes, strides, offset = value["tensor"]
    flat = array_of_storage(case["storages"][storage])
    if 0 in sizes:
        return np.empty(sizes, flat.dtype)
    places = np.full(sizes, offset)
    for dim, stride in enumerate(strides):
        places += stride * np.arange(sizes[dim]).reshape([-1, *[1] * (len(sizes) - dim - 1)])
    return flat[places]


def contiguous(sizes: list[int]) -> list[int]:
    """Return the strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def new_tensor(case: dict[str, Any], name: str, values: np.ndarray) -> dict[str, Any]:
    """Return a contiguous tensor over a new storage of the case."""
    case["storages"].append(storage_of(name, values))
    sizes = list(values.shape)
    return {"tensor": [len(case["storages"]) - 1, sizes, contiguous(sizes), 0]}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value inside nested lists and tuples with its path, outermost first."""
    yield path, value
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))
    elif isinstance(value, dict) and "tuple" in value:
        for number, item in enumerate(value["tuple"]):
            yield from places(item, (*path, "tuple", number))


def argument_places(case: dict[str, Any]) -> list[tuple[tuple[Any, ...], Any]]:
    """Return every value of a call's positional and named arguments, with its path in the case."""
    found = [place for n, value in enumerate(case["arguments"]) for place in places(value, ("arguments", n))]
    for name, value in case["named"].items():
        found += places(value, ("named", name))
    return found


def tensor_places(case: dict[str, Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(path, value) for path, value in argument_places(case) if is_tensor(value)]


def put(case: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    """Write a value at a path."""
    inside: Any = case
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value


class Builder:
    """Makes one case's arguments for one library (`triten`, or `torch` by the same names) on one device."""

    def __init__(self, case: dict[str, Any], library: Any, device: str = "cpu") -> None:
        self.library, self.device, self._case = library, device, case
        self.storages: dict[int, Any] = {}
        self.tensors: list[Any] = []
        """Those that were made, in order."""

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and named arguments of the call."""
        positional = [self(value) for value in self._case["arguments"]]
        named = {name: self(value) for name, value in self._case["named"].items()}
        if named.get("device") == "cpu":
            named["device"] = self.device
        return positional, named

    def __call__(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self(item) for item in value]
        if not isinstance(value, dict):
            return value
        [kind] = value.keys() - {"grad"}
        return self._made(kind, value[kind], bool(value.get("grad")))

    def _made(self, kind: str, content: Any, grad: bool) -> Any:
        library = self.library
        match kind:
            case "tensor":
                tensor = self._tensor(*content)
                if grad:
                    tensor = tensor.requires_grad_()
                self.tensors.append(tensor)
                return tensor
            case "tuple":
                return tuple(map(self, content))
            case "dtype" | "memory_format" | "layout":
                return getattr(library, content)
            case "device":
                return library.device(self.device if content == "cpu" else content)
            case "complex":
                return complex(*content)
            case "numpy":
                return np.dtype(content[0]).type(content[1])
            case "array":
                return np.array(content)
            case "slice":
                return slice(*content)
            case "ellipsis":
                return ...
            case "object":
                return object()
            case "empty dict":
                return {}
        raise ValueError(f"a value of a known kind expected, {kind!r} given")

    def _tensor(self, storage: int, sizes: list[int], strides: list[int], offset: int) -> Any:
        if self.device == "meta":
            name = self._case["storages"][storage][0]
            if storage not in self.storages:
                length = len(array_of_storage(self._case["storages"][storage]))
                dtype = getattr(self.library, name)
                self.storages[storage] = self.library.empty(length, dtype=dtype, device="meta")
        elif storage not in self.storages:
            self.storages[storage] = self._whole(self._case["storages"][storage])
        return self.storages[storage].as_strided(tuple(sizes), tuple(strides), offset).detach()

    def _whole(self, storage: list[str]) -> Any:
        name, array = storage[0], array_of_storage(storage)
        if self.library.__name__ == "triten":
            whole = self.library.from_numpy(array)
            return whole if self.device == "cpu" else whole.to(self.device)
        dtype = getattr(self.library, name)
        if name in NARROW:
            array = array.view(NARROW[name][1])
        return self.library.from_numpy(array).view(dtype).clone()  # PyTorch resizes no memory of NumPy's


def reached(library: Any, call: str) -> Callable[..., Any]:
    """Return the function of a dotted name. Raises AttributeError if there is none."""
    found = library
    for part in call.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]  # what users call


def encoded(case: dict[str, Any], value: Any, storages: dict[Any, int]) -> Any:
    """Return a value of PyTorch's database as JSON, and add its storages to the case.

    Raises TypeError for values that no case can hold: a generator, a module, a sparse tensor.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return _encoded_tensor(case, value, storages)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if type(value) is list:
        return [encoded(case, item, storages) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(case, item, storages) for item in value]}
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        kind = {torch.dtype: "dtype", torch.memory_format: "memory_format", torch.layout: "layout"}
        return {kind[type(value)]: str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {"numpy": [value.dtype.name, value.item()]}
    raise TypeError(f"a value that JSON can hold expected, {type(value).__name__} given")


def _encoded_tensor(case: dict[str, Any], tensor: Any, storages: dict[Any, int]) -> Any:
    import torch

    if (
        tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.is_nested
        or tensor.device.type != "cpu"
    ):
        raise TypeError("a dense tensor of the host expected")
    plain = tensor.detach().resolve_conj().resolve_neg()
    memory = plain.untyped_storage()
    name = str(plain.dtype).removeprefix("torch.")
    key = (memory._cdata, name)
    if key not in storages:
        flat = torch.empty(0, dtype=plain.dtype).set_(
            memory, 0, (memory.nbytes() // plain.element_size(),), (1,)
        )
        bits = flat.view(getattr(torch, NARROW[name][1])) if name in NARROW else flat
        case["storages"].append([name, base64.b64encode(bits.numpy().tobytes()).decode()])
        storages[key] = len(case["storages"]) - 1
    return {"tensor": [storages[key], list(plain.shape), list(plain.stride()), plain.storage_offset()]}
