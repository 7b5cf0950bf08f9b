"""One case in all its forms: the functional call, in place, with `out=`, and the gradients."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import triten as tt

from .arguments import DEVICE, DTYPE, SMALL, B, D, I, Sizes, T, draw, map_leaves
from .brief import takes_gradients
from .cases import Case, table, terms_of
from .device_errors import is_fatal, is_missing_library
from .layouts import (
    CONTIGUOUS,
    EXPANDED,
    NO_DIMENSION,
    SPECIAL,
    ZERO_SIZE,
    expanded_values,
    fetch,
    place_of,
    poisoned,
    put,
)  # fmt: skip
from .operators import Forms, all_forms, overload
from .reference import as_wide, bound, disagreement, gradient_bound, reference_dtype, wide
from .samples import EXACT, RANDOM, ROUNDED, SHAPE, Sample

EITHER_ZERO = frozenset(
    {
        "fmax",
        "fmin",
        "maximum",
        "minimum",
        "max",
        "min",
        "amax",
        "amin",
        "clamp",
        "clip",
        "clamp_min",
        "clamp_max",
    }
)
"""Operators that may give either of two equal zeros (C17 7.12.12, fmax)."""

PASSED, FAILED, REFUSED, NOT_BUILT = "passed", "failed", "refused", "not built"
Array = np.ndarray[Any, Any]


@dataclass
class Outcome:
    """Outcome of a case. `fatal` means that the device's context may be lost."""

    status: str
    forms: list[str] = field(default_factory=list)
    reason: str = ""
    fatal: bool = False


@dataclass
class Operand:
    """An argument that is a tensor: its values, in the case's dtype."""

    values: Array
    leaf: Any

    @property
    def differentiable(self) -> bool:
        return isinstance(self.leaf, T) and self.leaf.grad and self.values.dtype.kind not in "biu"


class Call:
    """A case's operator and drawn arguments, and how they become tensors on a device."""

    def __init__(self, case: Case, seed: int, sizes: Sizes) -> None:
        self.case, self.seed = case, seed
        sample = table()[case.operator, case.row]
        if case.layout == NO_DIMENSION:
            sample = sample.without_dimensions()
        self.sample: Sample = sample
        self.dtype: tt.dtype = getattr(tt, case.dtype)
        self.sizes = dict(sizes) | ({"a": 0} if case.layout == ZERO_SIZE else {})
        self.forms: Forms = all_forms()[case.operator]
        rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
        self.rng = rng
        self.args = map_leaves(list(sample.args), lambda leaf: self._draw(leaf, rng))
        self.kwargs = {
            name: map_leaves(value, lambda leaf: self._draw(leaf, rng))
            for name, value in sample.kwargs.items()
        }

    def _draw(self, leaf: Any, rng: np.random.Generator) -> Any:
        value = draw(rng, leaf, self.dtype, self.sizes)
        if not isinstance(leaf, T | I | B):
            return value
        if isinstance(leaf, T):
            if self.case.layout == EXPANDED:
                value = expanded_values(value)
            elif self.case.layout == SPECIAL and value.size and leaf.dtype is None and leaf.dims:
                strange = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], np.float32)
                places = rng.permutation(value.size)[: min(5, value.size)]
                value.reshape(-1)[places] = strange[: len(places)].astype(value.dtype)
        return Operand(value, leaf)

    def arguments(
        self, device: str, dtype: tt.dtype | None, gradients: bool
    ) -> tuple[list[Any], dict[str, Any], list[tt.Tensor]]:
        """Return the arguments on a device, and the leaves that require grad; `dtype` replaces the case's dtype."""
        leaves: list[tt.Tensor] = []

        def make(value: Any) -> Any:
            if value is DTYPE:
                return dtype or self.dtype
            if value is DEVICE:
                return tt.device(device)
            if not isinstance(value, Operand):
                return value
            values = value.values
            if dtype is not None and isinstance(value.leaf, T) and value.leaf.dtype is None:
                values = values.astype(dtype.np)
            layout = self.case.layout
            if layout == EXPANDED and not isinstance(value.leaf, T):
                layout = CONTIGUOUS
            if device == "meta":
                place = place_of(values.shape, layout)
                found = tt.from_numpy(np.empty(0, values.dtype)).dtype
                return tt.empty_strided(values.shape, place.strides, dtype=found, device="meta")
            made = put(values, layout, device)
            if gradients and value.differentiable:
                made = made.detach().requires_grad_()
                leaves.append(made)
            return made

        args = map_leaves(self.args, make)
        kwargs = {name: map_leaves(value, make) for name, value in self.kwargs.items()}
        return args, kwargs, leaves

    @property
    def largest(self) -> float:
        """Return the largest absolute value among the floating-point operands."""
        found = 0.0
        for operand in operands_in([self.args, list(self.kwargs.values())]):
            if operand.values.dtype.kind not in "biu" and operand.values.size:
                size = np.abs(as_wide(operand.values))
                found = max(found, float(np.max(size, where=np.isfinite(size), initial=0.0)))
        return found

    def target(self, name: str, device: str) -> dict[str, Any]:
        """Return `device=` for a factory."""
        names = {argument.name for argument in self.forms.schemas[name].arguments}
        return {"device": device} if "device" in names and not names & {"self", "out"} else {}


def tensors_in(result: Any) -> list[tt.Tensor]:
    """Return the tensors of a result, in order."""
    if isinstance(result, tt.Tensor):
        return [result]
    if isinstance(result, list | tuple):
        return [tensor for item in result for tensor in tensors_in(item)]
    return []


def seed_generators(seed: int) -> None:
    """Seed the CPU's and the device's generators alike."""
    tt.manual_seed(seed)
    tt.cuda.manual_seed(seed)


def functional(
    call: Call, device: str, dtype: tt.dtype | None = None, gradients: bool = False
) -> tuple[Any, list[tt.Tensor]]:
    """Run the functional form, or the in-place form if it is the only one; return the result and the leaves."""
    args, kwargs, leaves = call.arguments(device, dtype, gradients)
    name = call.forms.functional or call.forms.inplace
    assert name is not None
    if call.sample.kind == RANDOM and device != "meta":
        seed_generators(call.seed % 2**31)
    if name == call.forms.inplace:
        args[0] = args[0].clone() if gradients else args[0]
        return overload(name)(*args, **kwargs), leaves
    return overload(name)(*args, **kwargs, **call.target(name, device)), leaves


def inplace(call: Call, device: str, dtype: tt.dtype | None = None) -> tt.Tensor:
    """Run the in-place form and return the first argument."""
    args, kwargs, _ = call.arguments(device, dtype, False)
    if call.sample.kind == RANDOM:
        seed_generators(call.seed % 2**31)
    overload(call.forms.inplace or "")(*args, **kwargs)
    written: tt.Tensor = args[0]
    return written


def with_out(
    call: Call, device: str, outs: list[tt.Tensor], dtype: tt.dtype | None = None
) -> list[tt.Tensor]:
    """Run the `out=` form on the given tensors and return its result."""
    args, kwargs, _ = call.arguments(device, dtype, False)
    kwargs.pop("dtype", None) if "dtype" not in argument_names(call, call.forms.out) else None
    if call.sample.kind == RANDOM:
        seed_generators(call.seed % 2**31)
    result = overload(call.forms.out or "")(
        *args, **kwargs, **dict(zip(call.forms.out_names, outs, strict=True))
    )
    for given, returned in zip(outs, tensors_in(result), strict=True):
        if given is not returned:
            raise AssertionError("out= returned another tensor than the given one")
    return outs


def argument_names(call: Call, name: str | None) -> set[str]:
    return {argument.name for argument in call.forms.schemas[name or ""].arguments}


class Judge:
    """Runs the forms of one case and collects what they came to."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.outcome = Outcome(PASSED)
        self.results: list[str] = []
        self.reasons: list[str] = []
        self.expected: list[Array] | None = None
        self.magnitudes: list[Array] | None = None

    def note(self, form: str, status: str, reason: str = "") -> None:
        self.results.append(status)
        if status == PASSED:
            self.outcome.forms.append(form)
        else:
            self.reasons.append(f"{form}: {status}: {reason}")

    def finish(self) -> Outcome:
        for status in (FAILED, NOT_BUILT, PASSED, REFUSED):
            if status in self.results:
                self.outcome.status = status
                break
        kept = [r for r in self.reasons if f": {REFUSED}: " not in r] or self.reasons[:1]
        self.outcome.reason = "; ".join(kept)[:1500]
        return self.outcome

    def attempt(self, form: str, on_device: Any, on_host: Any) -> Any:
        """Return `on_device()`, or None if it raised; then `on_host()`, in the case's dtype, must raise the
        same error.
        """
        try:
            result = on_device()
            tt.cuda.synchronize()
            return result
        except Exception as error:  # whatever an operator raises is what became of this form
            self.outcome.fatal |= is_fatal(error)
            told = f"{type(error).__name__}: {error}".split("\n")[0][:400]
            if self.outcome.fatal:
                self.note(form, FAILED, told)
                return None
            try:
                on_host()
            except Exception:
                self.note(form, REFUSED, told)
            else:
                lacking = isinstance(error, NotImplementedError) or is_missing_library(error)
                self.note(form, NOT_BUILT if lacking else FAILED, told)
            return None

    def reference(self) -> list[Array] | None:
        """Return the functional form's CPU results, computed once; None if the CPU cannot compute them."""
        if self.expected is None:
            call, sample = self.call, self.call.sample
            dtype = reference_dtype(sample, call.dtype)
            with tt.no_grad():
                result, _ = functional(call, "cpu", None if dtype is call.dtype else dtype)
                self.expected = [tensor.resolve_conj().numpy() for tensor in tensors_in(result)]
                if (
                    terms_of(sample, call.sizes) > 1
                    and (dtype.is_floating_point or dtype.is_complex)
                    and sample.kind not in (EXACT, RANDOM)
                ):
                    self.magnitudes = magnitude(call, dtype, self.expected)
        return self.expected

    def compare(self, form: str, got: list[tt.Tensor], expected: list[Array]) -> None:
        sample = self.call.sample
        for i, (tensor, right) in enumerate(zip(got, expected, strict=True)):
            if sample.kind == SHAPE:
                wrong = (
                    None
                    if tuple(tensor.shape) == right.shape
                    else f"shape {tuple(tensor.shape)}, expected {right.shape}"
                )
            else:
                dtype = tensor.dtype
                exact = sample.kind == EXACT or not (dtype.is_floating_point or dtype.is_complex)
                allowed = None
                if not exact and right.dtype.kind not in "biu":
                    sums = None if self.magnitudes is None else as_wide(self.magnitudes[i])
                    allowed = bound(
                        sample,
                        dtype,
                        as_wide(right),
                        sums,
                        terms_of(sample, self.call.sizes),
                        self.call.largest,
                        self.call.dtype.is_complex,
                    )
                either = sample.operator.partition(".")[0] in EITHER_ZERO
                zeros = self.call.case.layout == SPECIAL and sample.kind in (EXACT, ROUNDED) and not either
                wrong = disagreement(fetch(tensor), right, allowed, dtype, zeros=zeros)
            if wrong:
                self.note(form, FAILED, f"result {i}: {wrong}" if len(got) > 1 else wrong)
                return
        self.note(form, PASSED)

    def run_functional(self) -> list[tt.Tensor] | None:
        call = self.call
        result = self.attempt(
            "functional", lambda: functional(call, "cuda")[0], lambda: functional(call, "cpu")
        )
        if result is None:
            return None
        got = tensors_in(result)
        try:
            expected = self.reference()
        except Exception as error:  # whatever the CPU raises where the device gave a result
            self.note("functional", FAILED, f"the CPU raises {type(error).__name__}: {error}")
            return None
        if len(got) != len(expected or ()):
            self.note("functional", FAILED, f"{len(got)} results, expected {len(expected or ())}")
            return None
        if not got:
            self.note("functional", PASSED)
            return None
        off = [str(tensor.device) for tensor in got if not tensor.is_cuda]
        if off:
            self.note("functional", FAILED, f"results on {off}")
            return None
        told = self.against_meta(got)
        if told:
            self.note("functional", FAILED, told)
            return got
        self.compare("functional", got, expected or [])
        return got

    def against_meta(self, got: list[tt.Tensor]) -> str | None:
        """Compare sizes, strides and dtypes with the Meta backend; return None if they agree or Meta cannot tell."""
        try:
            told = tensors_in(functional(self.call, "meta")[0])
        except (NotImplementedError, RuntimeError):  # shapes that depend on values
            return None
        for tensor, meta in zip(got, told, strict=True):
            ours = (tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
            theirs = (tuple(meta.shape), tuple(meta.stride()), meta.dtype)
            if ours != theirs:
                return f"sizes, strides and dtype are {ours}, on meta {theirs}"
        return None

    def run_inplace(self) -> None:
        call = self.call
        if call.case.layout == EXPANDED or call.forms.inplace is None or call.forms.functional is None:
            return
        result = self.attempt("in place", lambda: inplace(call, "cuda"), lambda: inplace(call, "cpu"))
        if result is None:
            return
        dtype = reference_dtype(call.sample, call.dtype)
        try:
            right = inplace(call, "cpu", None if dtype is call.dtype else dtype).numpy()
        except Exception as error:  # whatever the CPU raises where the device gave a result
            self.note("in place", FAILED, f"the CPU raises {type(error).__name__}: {error}")
            return
        self.compare("in place", [result], [right])

    def run_out(self, shapes: list[tt.Tensor] | None) -> None:
        call = self.call
        if call.forms.out is None:
            return
        if shapes is None and call.forms.functional is not None:
            return
        if shapes is None:
            made = self.attempt(
                "out=", lambda: with_out(call, "cuda", [tt.empty(0, dtype=call.dtype, device="cuda")]),
                lambda: with_out(call, "cpu", [tt.empty(0, dtype=call.dtype)]),
            )  # fmt: skip
            if made is None:
                return
            dtype = call.dtype if call.sample.kind in (EXACT, RANDOM, SHAPE) else wide(call.dtype)
            right = [tensor.numpy() for tensor in with_out(call, "cpu", [tt.empty(0, dtype=dtype)])]
            shapes = made
        else:
            right = self.reference() or []
        outs = [poisoned(tuple(s.shape), s.dtype, call.case.layout, "cuda") for s in shapes]
        result = self.attempt(
            "out=", lambda: with_out(call, "cuda", outs),
            lambda: with_out(call, "cpu", [tt.empty(tuple(s.shape), dtype=s.dtype) for s in shapes]),
        )  # fmt: skip
        if result is not None:
            self.compare("out=", result, right)

    def run_backward(self) -> None:
        call = self.call
        floating = call.dtype.is_floating_point or call.dtype.is_complex
        if (
            not (call.sample.backward and floating)
            or call.forms.functional is None
            or call.sample.kind == SHAPE
        ):
            return
        if call.case.layout == SPECIAL or call.dtype.itemsize == 1:
            return  # derivatives at infinity are a matter of taste; of float8 there are none
        seeds: list[Array] = []

        def gradients(device: str, dtype: tt.dtype | None) -> tuple[list[tt.Tensor | None], bool]:
            result, leaves = functional(call, device, dtype, gradients=True)
            outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
            if call.dtype.is_complex and not all(tensor.is_complex() for tensor in outputs):
                return [], False
            if not outputs or not leaves:
                return [], False
            for i in range(len(seeds), len(outputs)):
                drawn = call.rng.uniform(-1, 1, tuple(outputs[i].shape))
                seeds.append(drawn.astype(call.dtype.np))
            weights = [
                put(seed.astype(output.dtype.np), CONTIGUOUS, device)
                for seed, output in zip(seeds, outputs, strict=True)
            ]
            return list(tt.autograd.grad(outputs, leaves, weights, allow_unused=True)), True

        found = self.attempt("backward", lambda: gradients("cuda", None), lambda: gradients("cpu", None))
        if found is None or not found[1]:
            return
        dtype = call.dtype if call.sample.kind == RANDOM else wide(call.dtype)
        expected, _ = gradients("cpu", None if dtype is call.dtype else dtype)
        sizes = [operand.values.size for operand in operands_in([call.args, list(call.kwargs.values())])]
        for i, (got, right) in enumerate(zip(found[0], expected, strict=True)):
            if got is None or right is None:
                if got is not right:
                    self.note("backward", FAILED, f"gradient {i} is {got}, expected {right}")
                    return
                continue
            exact = as_wide(right.detach().resolve_conj().numpy())
            allowed = gradient_bound(call.sample, got.dtype, exact, max([1, *sizes]))
            wrong = disagreement(fetch(got), exact, allowed, got.dtype)
            if wrong:
                self.note("backward", FAILED, f"gradient {i}: {wrong}")
                return
        self.note("backward", PASSED)


def operands_in(value: Any) -> list[Operand]:
    found: list[Operand] = []
    map_leaves(value, lambda leaf: found.append(leaf) if isinstance(leaf, Operand) else None)
    return found


def magnitude(call: Call, dtype: tt.dtype, expected: list[Array]) -> list[Array] | None:
    """Run the operator on absolute values; for a multilinear operator this sums the terms' absolute values."""
    args, kwargs, _ = call.arguments("cpu", dtype, False)

    def positive(value: Any) -> Any:
        if not isinstance(value, tt.Tensor) or not (value.dtype.is_floating_point or value.dtype.is_complex):
            return value
        return value.abs().to(value.dtype)

    name = call.forms.functional
    if name is None:
        return None
    result = overload(name)(
        *map_leaves(args, positive), **{k: map_leaves(v, positive) for k, v in kwargs.items()}
    )
    found = [tensor.numpy() for tensor in tensors_in(result)]
    found = [np.abs(array) if array.dtype.kind == "c" else array for array in found]
    alike = [a.shape == b.shape for a, b in zip(found, expected, strict=True)]
    return found if all(alike) else None


def run_case(case: Case, seed: int, sizes: Sizes = SMALL, brief: bool = False) -> Outcome:
    """Run every form of a case on the current CUDA device; in a brief run gradients of drawn operators alone."""
    judge = Judge(Call(case, seed, sizes))
    got = None
    if judge.call.forms.functional or judge.call.forms.inplace:
        got = judge.run_functional()
    if not judge.outcome.fatal:
        judge.run_inplace()
    if not judge.outcome.fatal:
        judge.run_out(got)
    if not judge.outcome.fatal and (not brief or takes_gradients(case.operator, seed)):
        judge.run_backward()
    return judge.finish()


__all__ = ["FAILED", "NOT_BUILT", "PASSED", "REFUSED", "Call", "D", "Outcome", "run_case"]
