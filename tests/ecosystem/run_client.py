"""Makes one client's calls, in a process of its own: some clients read the environment when they are imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import triten as tt

from .client import Call, Client, Finding
from .clients import CLIENTS

__all__ = ["main"]


def _arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 6)).astype(np.float32)
    square = rng.standard_normal((6, 6)).astype(np.float32)
    return {
        "x": x,
        "y": rng.uniform(0.5, 2, (4, 6)).astype(np.float32),
        "m": square @ square.T + 6 * np.eye(6, dtype=np.float32),
        "v": rng.standard_normal(24).astype(np.float32),
        "w": rng.standard_normal(24).astype(np.float32),
        "k": rng.integers(0, 3, 24),
    }


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from (key, *_parts(each))
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _parts(each)
    else:
        yield value


def _kind(value: Any, device: str) -> str:
    parts = list(_parts(value))
    if all(isinstance(part, tt.Tensor) and part.device.type == device for part in parts):
        return "tensor"
    return "array" if all(isinstance(part, np.ndarray) for part in parts) else "other"


def _to_array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, tt.Tensor) else np.asarray(value)


def _address(value: Any) -> int:
    return value.data_ptr() if isinstance(value, tt.Tensor) else value.__array_interface__["data"][0]


def _shares(value: Any, operands: Mapping[str, Any]) -> bool:
    parts = [part for part in _parts(value) if isinstance(part, (tt.Tensor, np.ndarray))]
    ranges = [(_address(each), _address(each) + each.nbytes) for each in operands.values()]
    return bool(parts) and all(any(low <= _address(part) < high for low, high in ranges) for part in parts)


def _difference(found: Any, expected: Any, tolerance: float) -> str:
    found_parts, expected_parts = list(_parts(found)), list(_parts(expected))
    if len(found_parts) != len(expected_parts):
        return f"{len(found_parts)} results, expected {len(expected_parts)}"
    for one, other in zip(map(_to_array, found_parts), map(np.asarray, expected_parts), strict=True):
        if one.shape != other.shape:
            return f"shape {one.shape}, expected {other.shape}"
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance * np.max(np.abs(other), initial=0.0)):
            return f"{one}, expected {other}"
    return ""


def _finding(call: Call, client: Client, device: str) -> Finding:
    arrays = _arrays()
    of_arrays: dict[str, Any] = {"xp": np, **arrays}
    tensors = {name: tt.from_numpy(array.copy()).to(device) for name, array in arrays.items()}
    of_tensors: dict[str, Any] = {"xp": tt.array_api, **tensors}
    exec(client.preparation, of_tensors)
    exec(client.preparation, of_arrays)
    gives, shares, wrong = "", False, ""
    try:
        with tt.device(device):
            found = eval(call.text, of_tensors)
        gives, shares = _kind(found, device), _shares(found, tensors)
        if call.expected is not None:
            expected = eval(call.expected or call.text, of_arrays)
            wrong = _difference(found, expected, call.tolerance)
    except Exception as error:  # whatever a client does with our tensors is a finding
        wrong = f"{type(error).__name__}: {error}"
    return Finding(call.text, gives, shares, wrong)


def main(name: str) -> dict[str, list[Finding]]:
    """Return the results of one client's calls, on the CPU and on CUDA."""
    client = next(each for each in CLIENTS if each.name == name)
    return {
        "cpu": [_finding(call, client, "cpu") for call in client.calls],
        "cuda": [_finding(call, client, "cuda") for call in client.calls if call.cuda],
    }
