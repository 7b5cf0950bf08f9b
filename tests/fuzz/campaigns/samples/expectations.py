"""PyTorch's results as stored with a found case and compared without PyTorch."""

from typing import Any

import numpy as np

import triten as tt

from ...campaign import AGREED, REFUSED_ALIKE, Finding, Outcome
from .values import Builder, numpy_dtype, reached, storage_of

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "complex64": 2e-5, "complex32": 2e-3}


def expectation(outcome: Any) -> dict[str, Any]:
    """Return PyTorch's outcome as JSON: the error's built-in type, or the result's tensors and numbers."""
    from ....conformance.conversion import array_of, flat

    if outcome.raised is not None:
        kind = next(kind for kind in type(outcome.raised).__mro__ if kind.__module__ == "builtins")
        return {"raises": kind.__name__, "text": str(outcome.raised)[:300]}
    results: list[Any] = []
    for leaf in flat(outcome.value):
        if hasattr(leaf, "untyped_storage"):
            name = str(leaf.dtype).removeprefix("torch.")
            storage = storage_of(name, array_of(leaf))
            results.append(
                {"dtype": name, "sizes": list(leaf.shape), "strides": list(leaf.stride()), "data": storage[1]}
            )
        else:
            results.append({"value": repr(leaf)})
    return {"results": results}


def replay(case: dict[str, Any]) -> Outcome:
    """Make the call with ours, and compare it with what is stored."""
    expected = case["expected"]
    builder = Builder(case, tt, case["device"])
    try:
        positional, named = builder.arguments()
        value = reached(tt, case["call"])(*positional, **named)
        if case["backward"]:
            results = [r for r in _flat(value) if isinstance(r, tt.Tensor) and r.requires_grad]
            leaves = [t for t in builder.tensors if t.requires_grad and t.is_leaf]
            if results and leaves:
                tt.autograd.grad(results, leaves, [tt.ones_like(r) for r in results], allow_unused=True)
    except Exception as error:  # any type may be the right one
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins").__name__
        if kind == expected.get("raises"):
            return REFUSED_ALIKE
        return Finding(
            "refused otherwise", f"{expected.get('raises', 'a result')} expected, {kind} raised: {error}"
        )
    if "raises" in expected:
        return Finding(
            "refused otherwise", f"{expected['raises']} expected ({expected['text']}), nothing raised"
        )
    given = _flat(value)
    if len(given) != len(expected["results"]):
        return Finding("wrong type", f"{len(expected['results'])} results expected, {len(given)} given")
    for want, got in zip(expected["results"], given, strict=True):
        if found := _differs(want, got, case):
            return found
    return AGREED


def _differs(want: dict[str, Any], got: Any, case: dict[str, Any]) -> Finding | None:
    if "value" in want:
        return (
            None
            if want["value"].replace("torch.", "") == repr(got).replace("triten.", "")
            else Finding("wrong value", f"{want['value']} expected, {got} given")
        )
    if not isinstance(got, tt.Tensor) or list(got.shape) != want["sizes"]:
        return Finding("wrong type", f"a tensor of shape {want['sizes']} expected, {got} given")
    if str(got.dtype).rpartition(".")[2] != want["dtype"]:
        return Finding("wrong type", f"{want['dtype']} expected, {got.dtype} given")
    if case.get("free") or case["device"] == "meta":
        return None
    import base64

    exact = np.frombuffer(base64.b64decode(want["data"]), numpy_dtype(want["dtype"])).reshape(want["sizes"])
    mine = np.asarray(got.detach().cpu().numpy())
    wide: Any = np.complex128 if exact.dtype.kind == "c" else np.float64
    tolerance = TOLERANCES.get(want["dtype"], 1e-7)
    with np.errstate(all="ignore"):
        if exact.dtype.kind in "iub":
            same = np.array_equal(exact, mine)
        else:
            same = np.allclose(mine.astype(wide), exact.astype(wide), tolerance, tolerance, equal_nan=True)
    return None if same else Finding("wrong value", f"{exact} expected, {mine} given")


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flat(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _flat(item)]
    return [value]
