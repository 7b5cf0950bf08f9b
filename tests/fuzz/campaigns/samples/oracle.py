"""A case's call under both libraries, and where the two differ."""

import functools
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import triten as tt

from ....conformance import known_differences
from ....conformance.conversion import array_of, array_of_ours, flat
from ....conformance.modes.strides import Lie
from ....conformance.nearness import WIDER, as_near, widened
from ....conformance.operators import FREE, RANDOM
from ....conformance.outcome import (
    Difference,
    Outcome,
    ValueDifference,
    compare_values,
    outcome,
    refusal_differs,
)
from ....conformance.ties import differ_in_ties_alone
from ...campaign import AGREED, KNOWN, OUTSIDE, REFUSED_ALIKE, Finding
from ...campaign import Outcome as CaseOutcome
from .operands import oddities
from .values import Builder, argument_places, array_of_storage, is_tensor, reached

INNER = (
    *(AttributeError, KeyError, AssertionError, NameError, ZeroDivisionError, RecursionError, StopIteration),
    *(BufferError, np.exceptions.AxisError, np.linalg.LinAlgError, UnicodeError, SystemError),
)
"""What no user should see, unless PyTorch raises the same."""

FAULTS_OF_PYTORCH = (
    *("INTERNAL ASSERT FAILED", "please report a bug", "Please report a bug", "failed to match any schema"),
    "Could this error message be improved",
    "Expected a proper Tensor but got None",
    "could not create a primitive",
    "'int' object is not callable",
    "object of type 'float' has no len()",
    *(
        "std::",
        "vector::",
        "array::at",
        "basic_string",
        "setStorage: sizes",
        "bad optional access",
        "Pybind",
        "MKL FFT error",
    ),
)
"""What PyTorch says where it fails rather than refuses."""

TAKEN_BY_PYTORCH = {
    "value cannot be converted to type .* without overflow": "complex scale",
    "Input type .* and bias type .* should be the same|Expected A and B to have the same dtype": "mixed dtypes",
    "expected LU_pivots of sizes|expected pivots of linalg.ldl_factor": "other pivots",
    "too large relative to input": "overflowing window",
    "dropout probability has to be between 0 and 1": "unused probability",
    r"adaptive_avg_pool\dd.*(not implemented for 'Complex|to have non-zero size)": "mean of planes",
}
"""Our refusals of what PyTorch takes, and the kinds of these differences."""

KINDS_OF_OUTPUTS = ("fitting", "larger", "empty", "transposed", "stepped", "wide", "expanded")
"""Those of the mode `out` of which something is known."""

Case = dict[str, Any]


class Call:
    """One library's side of a case: what the call gave or raised, and its operands afterwards."""

    def __init__(self, case: Case, library: Any, device: str) -> None:
        self.builder = Builder(case, library, device)
        self._case, self._library = case, library
        self.gradients: list[Any] = []
        self.outcome = outcome(self._made)

    def _made(self) -> Any:
        positional, named = self.builder.arguments()
        value = reached(self._library, self._case["call"])(*positional, **named)
        if self._case["backward"]:
            self._differentiate(value)
        return value

    def _differentiate(self, value: Any) -> None:
        results = [
            leaf for leaf in flat(value) if isinstance(leaf, self._library.Tensor) and leaf.requires_grad
        ]
        leaves = [tensor for tensor in self.builder.tensors if tensor.requires_grad and tensor.is_leaf]
        if not results or not leaves:
            return
        seeds = [self._library.ones_like(result) for result in results]
        given = self._library.autograd.grad(results, leaves, seeds, allow_unused=True)
        self.gradients = [
            self._library.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves, given, strict=True)
        ]


def run(case: Case) -> CaseOutcome:
    """Make the call in both libraries, each over its own memory."""
    ours = Call(case, tt, case["device"])
    theirs = theirs_of(case)
    found = _judge(case, theirs, ours)
    if isinstance(found, Finding) and _reason(case, found, theirs.outcome, ours.outcome):
        return KNOWN
    return found


def theirs_of(case: Case) -> Call:
    """Run PyTorch's call on its CPU; this function's name in a stack identifies PyTorch's crashes and hangs."""
    return Call(case, torch, "cpu")


def _judge(case: Case, theirs: Call, ours: Call) -> CaseOutcome:
    want, got = theirs.outcome, ours.outcome
    meta = case["device"] == "meta"
    if case["call"].startswith("Tensor.") and not (case["arguments"] and is_tensor(case["arguments"][0])):
        return OUTSIDE  # a method of ours, called through the class, does not look at what it is called on
    if want.raised is not None and any(text in str(want.raised) for text in FAULTS_OF_PYTORCH):
        return _inner(want, got) or OUTSIDE
    if meta and got.raised is None and isinstance(want.raised, NotImplementedError):
        return OUTSIDE  # a kernel refuses a dtype, and Meta has none
    on_meta = (
        Call(case, torch, "meta").outcome if meta and (want.raised is None) != (got.raised is None) else None
    )
    if on_meta is not None and (on_meta.raised is None) == (got.raised is None):
        return _inner(want, got) or OUTSIDE
    if got.raised is not None:
        return _inner(want, got) or _refusal(case, theirs, ours)
    if want.raised is not None:
        text = " ".join(str(want.raised).split())[:150]
        return Finding("refused otherwise", f"{type(want.raised).__name__} expected ({text}), nothing raised")
    return _results(case, theirs, ours)


def _inner(want: Outcome, got: Outcome) -> Finding | None:
    if not isinstance(got.raised, INNER) or type(got.raised) is type(want.raised):
        return None
    expected = f"{type(want.raised).__name__} ({want.raised})" if want.raised is not None else "a result"
    return Finding(
        "inner error", f"{expected} expected, {type(got.raised).__name__} raised: {got.raised}"[:400]
    )


def _refusal(case: Case, theirs: Call, ours: Call) -> CaseOutcome:
    want, got = theirs.outcome, ours.outcome
    assert got.raised is not None
    text = " ".join(str(got.raised).split())[:150]
    if want.raised is None and _is_undefined(case) and "single memory location" in text:
        return OUTSIDE
    if want.raised is None:
        return Finding("refused otherwise", f"a result expected, {type(got.raised).__name__} raised: {text}")
    if differs := refusal_differs(want.raised, got.raised):
        if isinstance(want.raised, INNER) and not isinstance(got.raised, INNER):
            return REFUSED_ALIKE  # PyTorch's own inner error
        if case["device"] == "meta":
            other = Call(case, torch, "meta").outcome.raised
            if other is not None and not refusal_differs(other, got.raised):
                return REFUSED_ALIKE
        return Finding("refused otherwise", differs)
    return _changed(case, theirs, ours) or REFUSED_ALIKE


def _changed(case: Case, theirs: Call, ours: Call) -> Finding | None:
    """Return a finding if our failed call wrote to an operand and PyTorch's did not."""
    if case["device"] == "meta":
        return None
    for number, memory in ours.builder.storages.items():
        before = array_of_storage(case["storages"][number]).tobytes()
        their_memory = theirs.builder.storages.get(number)
        if _bytes(memory) != before and (their_memory is None or _bytes(their_memory) == before):
            text = f"storage {number} is not as it was before the refusal: {ours.outcome.raised}"
            return Finding("operand changed", text[:200])
    return None


def _bytes(memory: Any) -> bytes:
    return (array_of(memory) if isinstance(memory, torch.Tensor) else array_of_ours(memory)).tobytes()


def name_of(case: Case) -> str:
    """Return the operator's name in PyTorch's database."""
    name: str = case["call"].removeprefix("Tensor.")
    return name.removesuffix("_") if not name.endswith("__") else name


def _results(case: Case, theirs: Call, ours: Call) -> CaseOutcome:
    name, meta = name_of(case), case["device"] == "meta"
    free = bool(RANDOM.match(name) or FREE.match(name)) or name.startswith("resize")
    try:
        _compare_values(case, theirs, ours, free, meta)
    except ValueDifference as difference:
        return OUTSIDE if _is_undefined(case) else Finding("wrong value", str(difference))
    except Difference as difference:
        return Finding("wrong type", str(difference))
    if not meta and not free and (found := _operands(case, theirs, ours)):
        return OUTSIDE if _is_undefined(case) else found
    return _layout(case, theirs, ours) or AGREED


def _compare_values(case: Case, theirs: Call, ours: Call, free: bool, meta: bool) -> None:
    want, got = theirs.outcome.value, ours.outcome.value
    try:
        computed = _narrowest(case)
        compare_values(want, got, free=free, meta=meta, computed=computed)
        compare_values(
            theirs.gradients, ours.gradients, free=free, meta=meta, computed=computed, what="gradient"
        )
    except ValueDifference:
        if theirs.gradients:
            wide = outcome(lambda: _wide_gradients(case))
            pairs = [*flat(want), *theirs.gradients], [*flat(got), *ours.gradients]
            if wide.raised is None and as_near(lambda: wide.value, *pairs):
                return
        elif as_near(lambda: _wide_call(case), want, got):
            return
        if not _differ_in_ties(case, want, got):
            raise


def _differ_in_ties(case: Case, want: Any, got: Any) -> bool:
    """Return True if the results select other, equal elements; their gradients differ accordingly."""
    positional, named = Builder(case, torch).arguments()
    operator: Any = SimpleNamespace(name=name_of(case))
    try:
        with torch.no_grad():
            return differ_in_ties_alone(operator, positional, named, want, got)
    except (RuntimeError, ValueError, IndexError, TypeError):  # no operand to look the ties up in
        return False


def _narrowest(case: Case) -> torch.dtype | None:
    """Return the lowest-precision dtype that an in-place or `out=` call may have computed in."""
    if "out" not in case["named"] and not case["call"].endswith("_"):
        return None
    names = {name for name, _ in case["storages"]} & {str(dtype).removeprefix("torch.") for dtype in WIDER}
    return min(
        (getattr(torch, name) for name in names), key=lambda dtype: -torch.finfo(dtype).eps, default=None
    )


def _wide_call(case: Case) -> Any:
    """Return PyTorch's result in the widest dtypes, including integers."""
    wide, wide_named = widened(Builder(case, torch).arguments())
    torch.set_default_dtype(torch.float64)
    try:
        return reached(torch, case["call"])(*wide, **wide_named)
    finally:
        torch.set_default_dtype(torch.float32)


def _wide_gradients(case: Case) -> list[Any]:
    call = Call(case, _Widened(), "cpu")
    if call.outcome.raised is not None:
        raise call.outcome.raised
    return [*flat(call.outcome.value), *call.gradients]


class _Widened:
    """PyTorch, whose tensors are made in the widest dtype."""

    __name__ = "torch"

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def from_numpy(array: np.ndarray) -> Any:
        return _Made(torch.from_numpy(array))


class _Made:
    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def view(self, dtype: torch.dtype) -> Any:
        return widened(self._tensor.view(dtype))


def _operands(case: Case, theirs: Call, ours: Call) -> Finding | None:
    """Compare the operands after a successful call: equally written, or unchanged."""
    try:
        compare_values(
            theirs.builder.tensors, ours.builder.tensors, computed=_narrowest(case), what="operand"
        )
    except ValueDifference as difference:
        return _written(case, theirs, ours, difference)
    except Difference as difference:
        return Finding("wrong type", str(difference))
    return _written(case, theirs, ours, None)


def _written(case: Case, theirs: Call, ours: Call, difference: Difference | None) -> Finding | None:
    for number, memory in ours.builder.storages.items():
        before = array_of_storage(case["storages"][number]).tobytes()
        if _bytes(theirs.builder.storages[number]) == before != _bytes(memory):
            return Finding("operand changed", f"storage {number} is written to, which PyTorch leaves alone")
    # If the results agree, the stored values differ at most by rounding.
    if difference is not None and not _near_in_place(case, theirs):
        return Finding("wrong value", str(difference))
    return None


def _near_in_place(case: Case, theirs: Call) -> bool:
    return theirs.outcome.value is not None and (case["call"].endswith("_") or "out" in case["named"])


def _is_undefined(case: Case) -> bool:
    """Return True if the call writes to memory that it also reads, or twice to one element: PyTorch leaves it
    undefined.
    """
    named = case["named"]
    if "out" not in named and not case["call"].endswith("_") and not named.get("inplace"):
        return False
    seen: set[int] = set()
    for _, value in argument_places(case):
        if is_tensor(value):
            storage, sizes, strides, _ = value["tensor"]
            if storage in seen or any(n > 1 and step == 0 for n, step in zip(sizes, strides, strict=True)):
                return True
            seen.add(storage)
    return False


def _layout(case: Case, theirs: Call, ours: Call) -> Finding | None:
    """Compare strides and memory sharing, if PyTorch's CPU and Meta backends agree about them."""
    if case["backward"]:
        return None
    want, got = _lies(theirs), _lies(ours)
    if want == got or case["device"] == "cuda":
        return None
    other = Call(case, torch, "meta")
    if other.outcome.raised is not None or _lies(other) != want:
        return None
    return Finding(
        "wrong layout", f"{'; '.join(map(str, want[:2]))} expected, {'; '.join(map(str, got[:2]))} given"
    )


def _lies(call: Call) -> list[Lie]:
    kind = (
        torch.Tensor
        if isinstance(call.builder.library, type(torch)) and call.builder.library is torch
        else tt.Tensor
    )
    operands = call.builder.tensors
    return [
        Lie(
            tuple(leaf.shape),
            str(leaf.dtype).rpartition(".")[2],
            tuple(leaf.stride()),
            leaf.storage_offset(),
            leaf._is_view(),
            tuple(n for n, operand in enumerate(operands) if _shares(leaf, operand)),
        ).seen()
        for leaf in flat(call.outcome.value)
        if isinstance(leaf, kind) and "sparse" not in str(leaf.layout)
    ]


def _shares(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch._C._is_alias_of(one, other)
    return one.untyped_storage() is other.untyped_storage()


@functools.cache
def _known() -> Any:
    return known_differences.read()


def _reason(case: Case, finding: Finding, want: Outcome, got: Outcome) -> str:
    """Why it differs on purpose; empty where it should not. A mode's whole operator counts, and kinds of our own."""
    dtypes = sorted(
        {case["storages"][value["tensor"][0]][0] for _, value in argument_places(case) if is_tensor(value)}
    )
    kinds = [_label(want, got), _label_of_values(finding), finding.kind]
    if oddly := oddities(case):
        kinds += [f"{finding.kind} {oddity}" for oddity in sorted(oddly)]
    if finding.kind == "wrong type" and _has_no_elements(want) and _has_no_elements(got):
        kinds.append("empty result")
    if "empty" in oddly and want.raised is None and isinstance(got.raised, NotImplementedError):
        kinds.append("empty dtype")
    labels = [("fuzz", kind) for kind in kinds if kind]
    labels += [("errors", ""), *(("dtypes", name) for name in dtypes)]
    labels += [("strides" if finding.kind == "wrong layout" else "layouts", ""), ("forward", "")]
    labels += [("out", kind) for kind in ("", *KINDS_OF_OUTPUTS)] if "out" in case["named"] else []
    labels += [("inplace", "")] if case["call"].endswith("_") else []
    labels += [("gradient", "")] if case["backward"] else []
    reasons = (
        known_differences.reason_for(_known(), mode, label, operator)
        for operator in (name_of(case), "*")
        for mode, label in labels
    )
    return next(filter(None, reasons), "")


def _label_of_values(finding: Finding) -> str:
    """Label a difference of values in which one is infinite and the other is NaN or another infinity."""
    edge = r"\S*(?:nan|inf)\S*"
    differ = re.search(rf"{edge} expected at \(.*\), {edge} given", finding.message)
    return "no number" if finding.kind == "wrong value" and differ else ""


THEIR_TEXTS = {
    "superfluous out": r"got an unexpected keyword argument 'out'|^\w+\(\) received an invalid .* out=Tensor\)",
    "narrow output": r"^std_var_all: Unsupported dtype",
    "bounds of a kernel": r"^INDICES element is out of DATA bounds",
    "no device": r"^Cannot access accelerator device when none is available",
}
"""Kinds that PyTorch's words tell, whatever ours does."""


def _has_no_elements(made: Outcome) -> bool:
    return all(leaf.numel() == 0 for leaf in flat(made.value) if hasattr(leaf, "numel"))


def _label(want: Outcome, got: Outcome) -> str:
    """Label a difference of errors that several operators share."""
    theirs, ours = str(want.raised or ""), str(got.raised or "")
    for label, text in THEIR_TEXTS.items():
        if re.search(text, theirs):
            return label
    if got.raised is None and isinstance(want.raised, TypeError):
        return _label_of_types(theirs)
    if isinstance(got.raised, TypeError):
        if (
            re.search(r"argument 'out' must be Tensor, not|out=(bool|int|float)\)", ours)
            and "can't be cast to the desired output" in theirs
        ):
            return "number as out"
        if "must be bool, not Tensor" in ours and theirs.startswith("Boolean value of Tensor with more"):
            return "bool of a tensor"
        if "argument 'size'" in ours or "tuple of" in ours:
            return "two faults" if theirs.startswith("Expected one of cpu, cuda") else ""
    if "numpy.bool" in theirs and not isinstance(got.raised, INNER):
        return "numpy bool"
    if want.raised is None and (label := _label_of_results(want, ours)):
        return label
    if got.raised is None and re.search(
        "is not differentiable with|returned an invalid gradient|^derivative for .* is not implemented"
        '|_backward" not implemented for',
        theirs,
    ):
        return "more gradients"
    if got.raised is None and re.search("value cannot be converted to type .* without overflow", theirs):
        return "overflowing number"
    kinds = (type(want.raised), type(got.raised))
    if (
        NotImplementedError in kinds
        and issubclass(kinds[0], RuntimeError)
        and issubclass(kinds[1], RuntimeError)
    ):
        return "two refusals"
    if want.raised is None and isinstance(got.raised, NotImplementedError | RuntimeError):
        results = [leaf for leaf in flat(want.value) if isinstance(leaf, torch.Tensor)]
        if results and not any(leaf.numel() for leaf in results) and "implemented" in ours:
            return "empty dtype"
    if re.search(r"for \+: '(bool|NoneType|int|float|list|tuple|dict|complex)' and 'str'", theirs):
        return "text that fails"
    if isinstance(got.raised, TypeError) and re.search(r"out=(bool|int|float|complex)\b", ours):
        return "number as out"
    if re.search("expected offsets that do not descend|expected lengths that add up to", ours):
        return "unordered offsets"
    if want.raised is None:
        for text, kind in TAKEN_BY_PYTORCH.items():
            if re.search(text, ours):
                return kind
    if isinstance(got.raised, MemoryError) and "allocate memory" in theirs:
        return "no memory"
    return ""


def _label_of_types(theirs: str) -> str:
    """Label PyTorch's TypeError when triten raised nothing."""
    if "numpy.bool" in theirs:
        return "numpy bool"
    given = r"(?:bool|int|float|numpy\.(?:u?int|float))"
    if re.search(rf"must be (?!Tensor).*, (?:not|but found element of type) {given}", theirs):
        return "equal number"
    if re.search(r"takes .*positional arguments? but|invalid combination .* NoneType\)", theirs):
        return "superfluous none"
    if re.search(
        r"^(nan)?median\(\) missing 1 required|^where\(\): argument '\w+' .* must be Tensor, not", theirs
    ):
        return "superfluous out"
    return "none among tensors" if re.search(r"^expected Tensor as element .* NoneType", theirs) else ""


def _label_of_results(want: Outcome, ours: str) -> str:
    """Label triten's error when PyTorch returned a result."""
    if "functions with out=... arguments don't support automatic differentiation" in ours:
        return "gradient of out"
    if "is out of bounds for dimension" in ours:
        return "unchecked index"
    if "reach beyond the elements of self" in ours:
        return "own elements"
    results = [leaf for leaf in flat(want.value) if isinstance(leaf, torch.Tensor)]
    if "Storage size calculation overflowed" in ours and not any(leaf.numel() for leaf in results):
        return "empty sizes"
    return ""
