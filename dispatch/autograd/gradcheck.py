"""`gradcheck` and `gradgradcheck`: derivatives against central differences (torch/autograd/gradcheck.py).

Both sides are projected on one random vector v of each output. Backward computes J^T v with one call, and central
differences compute it coordinate by coordinate. A wrong entry of J shows as surely as in the whole matrix. With
`fast_mode` the inputs are projected as well. A complex output is checked by its real and its imaginary part. The
gradient of a real number s by a complex one is ds/d(re) + i ds/d(im).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.layout import sparse_coo, strided
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from .engine import PYTHON_BIT
from .gradcheck_of_zeros import fault_of_zero_gradients
from .gradients import grad, mapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..tensor import Tensor

NOTES = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
BATCHED = "gradcheck or gradgradcheck failed while testing batched gradient computation."
BATCHED_FORWARD = "gradcheck failed while testing batched forward-mode gradient computation."


class GradcheckError(RuntimeError):
    """An analytic gradient differs from the numerical one."""


def _tensors(values: Any) -> list[Any]:
    if isinstance(values, TensorImpl):
        return [values]
    out = []
    for value in values:
        if isinstance(value, TensorImpl):
            out.append(value)
        elif isinstance(value, list | tuple):
            out += _tensors(value)
    return out


def _tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, TensorImpl) else tuple(values)


@api_boundary
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check derivatives of `func` at `inputs` against central differences (`torch.autograd.gradcheck`).

    Args:
        func: Takes `inputs` and returns a tensor or a tuple of tensors.
        inputs: A tensor or a tuple of arguments. Those that require grad are checked; they should be float64 or
            complex128.
        eps: Distance of the central differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: If False, return False where a check fails.
        nondet_tol: Largest allowed difference of two backward calls with the same arguments. Default: 0.
        check_undefined_grad: If True, check that undefined output gradients give undefined or zero input gradients.
        check_grad_dtypes: If True, a gradient must have its input's dtype.
        check_batched_grad: If True, check backward under `tt.vmap`.
        check_batched_forward_grad: If True, check forward mode under `tt.vmap`.
        check_forward_ad: If True, check forward mode in one random direction of each input.
        check_backward_ad: If False, do not check backward.
        fast_mode: If True, compare one random direction of each input, not each coordinate.
        masked: If True, only specified elements of sparse inputs count. Default: False.

    Raises:
        GradcheckError: A check fails.
        ValueError: No input requires grad, or an output is sparse.
        AssertionError: No kind of check is asked for, or outputs change their shape or dtype nearby.

    Source: `torch.autograd.gradcheck`.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([0.5, -1.5], dtype=tt.float64, requires_grad=True)
        >>> tt.autograd.gradcheck(lambda x: x.relu(), (x,))
        True
    """
    _require(
        check_forward_ad or check_backward_ad,
        "Expected at least one of check_forward_ad or check_backward_ad to be True",
    )
    _require(
        check_backward_ad or not check_batched_grad,
        "Setting check_batched_grad=True requires check_backward_ad to be True",
    )
    _require(
        check_forward_ad or not check_batched_forward_grad,
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
    )
    try:
        check = _Check(func, _tuple(inputs), eps, atol, rtol, nondet_tol, fast_mode, bool(masked))
        if not check.outputs:
            return check.has_zero_differences()
        if check_backward_ad:
            check.backward(check_grad_dtypes)
        if check_forward_ad:
            check.forward()
        if check_batched_forward_grad:
            check.batched_forward()
        if check_batched_grad:
            check.batched_backward()
        if check_backward_ad:
            fault = fault_of_zero_gradients(check.outputs, check.sources, check.is_masked)
            if fault is not None:
                raise GradcheckError(fault)
        if check_backward_ad and check_undefined_grad:
            check.undefined_gradients()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


@dataclass
class _Check:
    """One call of `gradcheck`: the function, its arguments, and what its outputs are projected on."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    is_fast: bool
    is_masked: bool

    def __post_init__(self) -> None:
        self.sources = [t for t in _tensors(self.args) if t._spec.requires_grad]
        if not self.sources:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of the them have "
                "requires_grad=True."
            )
        for number, tensor in enumerate(_tensors(self.args)):
            if tensor._spec.requires_grad:
                _look_at(number, tensor)
        self.outputs = [o for o in self.results() if o._spec.requires_grad]
        for output in self.outputs:
            if output._spec.layout is not strided:
                raise ValueError(
                    "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the "
                    "output of fn for gradcheck."
                )
        self.kept = [i for i, o in enumerate(self.results()) if o._spec.requires_grad]
        rng = np.random.default_rng(0)
        self.seeds = [np.asarray(rng.standard_normal(o._spec.sizes)) for o in self.outputs]
        self.directions = [_direction(rng, source) for source in self.sources]

    def results(self, *args: Any) -> list[Any]:
        """Return the function's tensors, for other arguments than its own if they are given."""
        return _tensors(_tuple(self.func(*(args or self.args))))

    def has_zero_differences(self) -> bool:
        """Return True if no output requires grad and none depends on an input. Raises GradcheckError."""
        if self.results():
            self.kept = list(range(len(self.results())))
            self.seeds = [np.ones(o._spec.sizes) for o in self.results()]
            for source in self.sources:
                if any(np.any(difference != 0) for difference in self._differences(source)):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
        return True

    # Backward

    def backward(self, check_dtypes: bool) -> None:
        """Compare backward with differences."""
        # Computed before the differences, which write to the inputs.
        jacobian_rows: list[list[NDArray[Any]]] = []
        for number, (output, seed) in enumerate(zip(self.outputs, self.seeds, strict=True)):
            units = (1.0, 1j) if output._spec.dtype.is_complex else (1.0,)
            jacobian_rows += [
                self._vector_jacobian(number, output, unit * seed, check_dtypes) for unit in units
            ]
        for which, source in enumerate(self.sources):
            numeric = self._differences(source, which)
            row = 0
            for number, output in enumerate(self.outputs):
                parts = (
                    (("imaginary", row + 1), ("real", row)) if output._spec.dtype.is_complex else (("", row),)
                )
                for part, at in parts:
                    exact = jacobian_rows[at][which]
                    if self.is_fast:
                        exact = np.asarray((exact.conj() * self.directions[which]).real.sum())
                    elif self.is_masked and source._spec.layout is not strided:
                        exact = exact[tuple(np.transpose(_coordinates(source, True)))]
                    note = f"While considering the {part} part of complex outputs only, " if part else ""
                    self._compare(f"{note}Jacobian ", number, which, numeric[at].reshape(exact.shape), exact)
                row += len(parts)

    def _vector_jacobian(
        self, number: int, output: Tensor, seed: NDArray[Any], check_dtypes: bool
    ) -> list[NDArray[Any]]:
        """Return the gradient of each input, computed twice."""
        output_grad = _tensor_like(output, seed)
        runs = [
            grad(output, self.sources, output_grad, retain_graph=True, allow_unused=True) for _ in range(2)
        ]
        made: list[NDArray[Any]] = []
        for source, first, second in zip(self.sources, *runs, strict=True):
            if first is None or second is None:
                made.append(np.zeros(source._spec.sizes))
                continue
            if check_dtypes and first._spec.dtype is not source._spec.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            if first._spec.sizes != source._spec.sizes:
                raise GradcheckError("Analytical gradient has incorrect size")
            first_array, second_array = _array(first), _array(second)
            if not np.allclose(first_array, second_array, rtol=0.0, atol=self.nondet_tol, equal_nan=True):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient."
                    f"The tolerance for nondeterminism was {self.nondet_tol}."
                )
            made.append(first_array)
        return made

    def _differences(self, source: Tensor, which: int | None = None) -> list[NDArray[Any]]:
        """Return the numerical gradient by an input of each output's projection, its parts one after the other."""
        rows: list[list[complex]] = []
        if self.is_fast and which is not None:
            return [np.asarray(each) for each in self._slopes(source, None, self.directions[which])]
        steps = (1.0, 1j) if source._spec.dtype.is_complex else (1.0,)
        coordinates = _coordinates(source, self.is_masked)
        for coordinate in coordinates:
            parts = [self._slopes(source, coordinate, step) for step in steps]
            rows.append([complex(*each) if len(each) > 1 else each[0] for each in zip(*parts, strict=True)])
        by_output = list(zip(*rows, strict=True)) if rows else [()] * self._number_of_rows()
        shape = source._spec.sizes if len(coordinates) == source._spec.numel else (len(coordinates),)
        return [np.asarray(each).reshape(shape) for each in by_output]

    def _number_of_rows(self) -> int:
        return sum(1 + self.results()[i]._spec.dtype.is_complex for i in self.kept)

    def _slopes(self, source: Tensor, coordinate: Any, step: Any) -> list[float]:
        """Return how the outputs' projections change with a step of one coordinate, or of all."""
        sides = []
        for sign in (-1, 1):
            with _moved(source, coordinate, sign * self.eps * step, self.is_masked) as moved:
                args = self.args if moved is source else _replaced(self.args, source, moved)
                outputs = self.results(*args)
                sides.append([_array(outputs[i]) for i in self.kept])
        slopes: list[float] = []
        for minus, plus, seed in zip(*sides, self.seeds, strict=True):
            for noun, a, b in (("shape", minus.shape, plus.shape), ("dtype", minus.dtype, plus.dtype)):
                _require(
                    a == b,
                    f"Expected `func` to return outputs with the same {noun} when inputs are perturbed on index "
                    f"{coordinate} by {self.eps}, but got: {noun}s {_shown(a)} and {_shown(b)}.",
                )
            slope = (plus - minus) / (2 * self.eps)
            slopes.append(float((slope.real * seed).sum()))
            if np.iscomplexobj(slope):
                slopes.append(float((slope.imag * seed).sum()))
        return slopes

    def _compare(
        self, description: str, number: int, which: int, numeric: NDArray[Any], exact: NDArray[Any]
    ) -> None:
        if not np.allclose(exact, numeric, rtol=self.rtol, atol=self.atol, equal_nan=True):
            raise GradcheckError(
                f"{description}mismatch for output {number} with respect to input {which},\nnumerical:{numeric}\n"
                f"analytical:{exact}\n"
            )

    def undefined_gradients(self) -> None:
        """Check that backward treats undefined gradients of one output, and of all, as zeros."""
        from .function import Function

        class Undefined(Function):
            """Passes a tensor on, and no gradient back."""

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.view_as(x)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return None

        count = len(self.outputs)
        for hidden in [set(), *({i} for i in range(count) if count > 1)]:
            outputs = [self.results()[i] for i in self.kept]
            outputs = [Undefined.apply(o) if i in hidden else o for i, o in enumerate(outputs)]
            zeros = [_tensor_like(o, np.zeros(o._spec.sizes)) for o in outputs]
            try:
                input_grads = grad(outputs, self.sources, zeros, allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads. {NOTES}"
                ) from error
            if any(each is not None and np.any(_array(each) != 0) for each in input_grads):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                    + NOTES
                )

    def batched_backward(self) -> None:
        """Compare backward of two gradients at once with one after the other."""
        for number, output in enumerate(self.outputs):
            rng = np.random.default_rng(number)
            pair = [_tensor_like(output, rng.standard_normal(output._spec.sizes)) for _ in range(2)]
            apart = [grad(output, self.sources, each, retain_graph=True, allow_unused=True) for each in pair]
            both = _stacked(pair)
            try:
                batched_grads = grad(
                    output, self.sources, both, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched gradients, got: {error}\n\n{BATCHED}"
                ) from error
            self._compare_batched(number, BATCHED, batched_grads, apart)

    def _compare_batched(self, number: int, note: str, batched: Sequence[Any], apart: Sequence[Any]) -> None:
        for which, (result, *expected) in enumerate(zip(batched, *apart, strict=True)):
            if result is None and expected[0] is None:
                continue
            shape = self.sources[which]._spec.sizes if note is BATCHED else None
            whole = np.stack([np.zeros(shape or ()) if each is None else _array(each) for each in expected])
            got = np.zeros(whole.shape) if result is None else _array(result)
            if not np.allclose(got, whole, equal_nan=True):
                raise GradcheckError(
                    f"For output {number} and input {which}:\n\n{note}\n\nGot:\n{got}\n\nExpected:\n{whole}"
                )

    # Forward mode

    def _tangents(self, source: Tensor, tangent: Tensor) -> list[Any]:
        """Return the tangent of each output for one input's tangent; None for an output without a tangent.

        Other inputs have zero tangents, and no input requires grad.
        """
        from .forward_ad import dual_level, make_dual, unpack_dual

        with dual_level():
            args = self.args
            for each in self.sources:
                direction = tangent if each is source else _tensor_like(each, np.zeros(each._spec.sizes))
                args = _replaced(args, each, make_dual(each.detach(), direction))
            return [unpack_dual(o).tangent for o in self.results(*args)]

    def forward(self) -> None:
        """Compare forward mode with differences, in one direction of each input."""
        for which, (source, direction) in enumerate(zip(self.sources, self.directions, strict=True)):
            tangents = self._tangents(source, _tensor_like(source, direction))
            sides = []
            for sign in (-1, 1):
                with _moved(source, None, sign * self.eps * direction, self.is_masked) as moved:
                    args = self.args if moved is source else _replaced(self.args, source, moved)
                    sides.append(self.results(*args))
                    sides[-1] = [(o._spec, _array(o)) for o in sides[-1]]
            for number, (tangent, (spec, minus), (_, plus)) in enumerate(zip(tangents, *sides, strict=True)):
                if spec.dtype.is_floating_point or spec.dtype.is_complex:
                    exact = np.zeros(minus.shape) if tangent is None else _array(tangent)
                    numeric = (plus - minus) / (2 * self.eps)
                    self._compare("Jacobian computed with forward mode ", number, which, numeric, exact)

    def batched_forward(self) -> None:
        """Compare forward mode of two tangents at once with one after the other."""
        for which, source in enumerate(self.sources):
            rng = np.random.default_rng(which)
            pair = [_tensor_like(source, _direction(rng, source)) for _ in range(2)]
            apart = [self._tangents(source, each) for each in pair]
            positions = [i for i, each in enumerate(apart[0]) if each is not None]

            def several(tangent: Any, source: Any = source, positions: Any = positions) -> Any:
                tangents = self._tangents(source, tangent)
                return tuple(tangents[i] for i in positions)

            if not positions:
                continue
            try:
                batched_tangents = mapped(several, _stacked(pair))
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched gradients, got: {error}\n\n{BATCHED_FORWARD}"
                ) from error
            for number, result in zip(positions, batched_tangents, strict=True):
                expected = [each[number] for each in apart]
                self._compare_batched(number, BATCHED_FORWARD, [result], [[each] for each in expected])


def _look_at(number: int, tensor: Any) -> None:
    """Warn of an input whose differences are imprecise. Raises RuntimeError for one that overlaps itself."""
    spec = tensor._spec
    if spec.dtype.name not in ("float64", "complex128"):
        warnings.warn(
            f"Input #{number} requires gradient and is not a double precision floating point or complex. This check "
            "will likely fail if all the inputs are not of double precision floating point or complex. ",
            stacklevel=4,
        )
    repeats = (not stride and size > 1 for size, stride in zip(spec.sizes, spec.strides, strict=True))
    if spec.layout is strided and spec.numel and any(repeats):
        raise RuntimeError(
            f"The {number}th input has a dimension with stride 0. gradcheck only supports inputs that are "
            "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on "
            "the input before passing it to gradcheck."
        )


def _direction(rng: np.random.Generator, source: Any) -> NDArray[Any]:
    """Return random numbers for each element; real ones for a real dtype."""
    direction: NDArray[Any] = np.asarray(rng.standard_normal(source._spec.sizes))
    if source._spec.dtype.is_complex:
        direction = direction + 1j * rng.standard_normal(source._spec.sizes)
    return direction


def _shown(value: Any) -> str:
    from ...runtime.size import Size

    return str(Size(value)) if isinstance(value, tuple) else str(value)


def _array(tensor: Any) -> NDArray[Any]:
    plain = tensor.detach()
    if plain._spec.layout is not strided:
        plain = plain.to_dense()
    if not _is_wrapper(plain):
        return np.array(plain.host_array())
    flat = plain.reshape(-1)
    values = [flat[index].item() for index in range(plain._spec.numel)]
    return np.array(values, plain._spec.dtype.np).reshape(plain._spec.sizes)


def _is_wrapper(tensor: Any) -> bool:
    """Return True for a tensor whose operators a class implements; it has no memory of its own."""
    return bool(tensor._spec.keys & PYTHON_BIT)


def _tensor_like(tensor: Any, values: Any) -> Any:
    from ..tensor_data import from_numpy

    made = from_numpy(np.array(values)).to(device=tensor.device, dtype=tensor.dtype)
    return made if tensor._spec.layout is strided else _in_layout_of(tensor, made)


def _in_layout_of(tensor: Any, dense: Any) -> Any:
    """Return a dense tensor's elements in the layout of a sparse one."""
    if tensor._spec.layout is sparse_coo:
        return dense.to_sparse(tensor.sparse_dim())
    block = tensor.values().shape[1:3] if "bs" in str(tensor.layout) else None
    rest = tensor.dense_dim() if dense._spec.layout is strided else None
    return dense.to_sparse(layout=tensor.layout, blocksize=block, dense_dim=rest)


def _stacked(tensors: Sequence[Any]) -> Any:
    from ..generated import functions as ops

    return ops.stack(tuple(tensors))


def _coordinates(source: Any, is_masked: bool) -> list[tuple[int, ...]]:
    """Return the coordinates that differences are taken by: all, or those that a sparse tensor specifies."""
    if source._spec.layout is strided or not is_masked:
        return list(np.ndindex(*source._spec.sizes))
    plain = source.detach()
    entries = (plain if plain._spec.layout is sparse_coo else plain.to_sparse()).coalesce()
    rest = list(np.ndindex(*entries.values().shape[1:]))
    return [(*coordinate, *more) for coordinate in entries.indices().t().tolist() for more in rest]


class _moved:
    """Context manager that moves one coordinate of an input, or all, and yields the tensor to call with.

    A strided input is written to and restored, so that functions that hold it see the change; a sparse one is copied.
    """

    def __init__(self, source: Any, coordinate: Any, step: Any, is_masked: bool) -> None:
        self.source, self.coordinate, self.step, self.is_masked = source, coordinate, step, is_masked

    def __enter__(self) -> Any:
        source = self.source
        where = Ellipsis if self.coordinate is None else self.coordinate
        if source._spec.layout is not strided:
            moved = _array(source)
            moved[where] += self.step
            made = _masked_like(source, moved) if self.is_masked else _tensor_like(source, moved)
            return made._set_requires_grad()  # the function may register hooks
        # Writes through `data` do not change the version, which a graph of first derivatives may have saved.
        self.plain = source.detach() if _is_wrapper(source) else source.data
        self.before = _array(source)
        moved = self.before.copy()
        moved[where] += self.step
        self._write(moved)
        return source

    def __exit__(self, *error: object) -> None:
        if self.source._spec.layout is strided:
            self._write(self.before)

    def _write(self, values: NDArray[Any]) -> None:
        if self.plain._spec.device.type == "cpu" and not _is_wrapper(self.plain):
            self.plain.host_array()[...] = values
        else:
            self.plain.copy_(_tensor_like(self.plain, values))


def _masked_like(source: Any, values: NDArray[Any]) -> Any:
    """Return a sparse tensor with the specified elements of another, whose values are given."""
    from ..generated import functions as ops

    plain = source.detach()
    entries = (plain if plain._spec.layout is sparse_coo else plain.to_sparse()).coalesce()
    coordinates = entries.indices().host_array()
    made = ops._sparse_coo_tensor_unsafe(
        entries.indices(),
        _tensor_like(entries.values(), values[tuple(coordinates)]),
        tuple(source._spec.sizes),
    ).coalesce()
    if plain._spec.layout is sparse_coo:
        return made
    return _in_layout_of(source, made)


def _replaced(values: Any, old: Tensor, new: Tensor) -> Any:
    """Return arguments with one tensor in another's place, in lists too."""
    if isinstance(values, list | tuple):
        return type(values)(_replaced(v, old, new) for v in values)
    return new if values is old else values


def _random_gradients(func: Callable[..., Any], args: Sequence[Any], is_strided: bool) -> Iterator[Any]:
    rng = np.random.default_rng(2)
    for output in _tensors(_tuple(func(*args))):
        if output._spec.requires_grad:
            made = _tensor_like(output, _direction(rng, output))
            yield (_apart(made) if is_strided else made)._set_requires_grad()


def _apart(tensor: Any) -> Any:
    """Return a tensor that is not contiguous, of the same elements."""
    from ..generated import functions as ops

    return ops.stack((tensor, tensor), -1)[..., 0].detach()


@api_boundary
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check derivatives of the gradient of `func` (`torch.autograd.gradgradcheck`).

    Args:
        func: As in `gradcheck`.
        inputs: As in `gradcheck`.
        grad_outputs: The gradients of the outputs, which are differentiated by as well; random ones by default.
        eps: As in `gradcheck`, like all that are not named here.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        gen_non_contig_grad_outputs: If True, random gradients are not contiguous.
        raise_exception: If False, return False where a check fails.
        nondet_tol: Largest allowed difference of two backward calls.
        check_undefined_grad: If True, check undefined gradients.
        check_grad_dtypes: If True, a gradient must have its input's dtype.
        check_batched_grad: If True, check backward under `tt.vmap`.
        check_fwd_over_rev: If True, check forward mode over backward.
        check_rev_over_rev: If False, do not check backward over backward.
        fast_mode: If True, compare one random direction of each input.
        masked: If True, only specified elements of sparse inputs count.

    Raises:
        GradcheckError: A check fails.
        AssertionError: No kind of check is asked for.

    Source: `torch.autograd.gradgradcheck`.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([0.5, -1.5], dtype=tt.float64, requires_grad=True)
        >>> tt.autograd.gradgradcheck(lambda x: x.sin(), (x,))
        True
    """
    _require(
        check_fwd_over_rev or check_rev_over_rev,
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
    )
    # Both defaults are True; checking only one of them here could request an unsupported combination.
    check_undefined_grad = check_undefined_grad and check_rev_over_rev
    _require(
        check_rev_over_rev or not check_batched_grad,
        "Setting check_batched_grad=True requires check_rev_over_rev to be True",
    )
    args = _tuple(inputs)
    seeds = (
        tuple(_random_gradients(func, args, gen_non_contig_grad_outputs))
        if grad_outputs is None
        else _tuple(grad_outputs)
    )

    needs = [t._spec.requires_grad for t in _tensors(args)]

    def first(*flat_args: Any) -> Any:
        own, grads = flat_args[: len(args)], flat_args[len(args) :]
        for tensor, is_needed in zip(_tensors(own), needs, strict=True):
            if is_needed and not tensor._spec.requires_grad:
                tensor._set_requires_grad()  # forward mode is checked with tensors that do not require grad
        outputs = [o for o in _tensors(_tuple(func(*own))) if o._spec.requires_grad]
        sources = [t for t in _tensors(own) if t._spec.requires_grad]
        input_grads = grad(outputs, sources, grads, create_graph=True, allow_unused=True)
        return tuple(g for g in input_grads if g is not None)

    return gradcheck(
        first,
        args + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
