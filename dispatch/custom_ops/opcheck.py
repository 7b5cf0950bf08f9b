"""`opcheck`: tests of an operator against its schema and registrations (torch/testing/_internal/optests)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...runtime.device import META
from ...runtime.device import device as Device
from ...runtime.dispatch_key import highest_priority
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..autograd.gradcheck import gradcheck
from ..core.bound_arguments import tensors_in
from ..core.op_overload import OpOverload, OpOverloadGroup
from ..core.operator_entry import AUTOGRAD, BELOW_AUTOGRAD, IMPLICIT, OperatorEntry
from ..schema import FunctionSchema
from ..schema.type_check import MISMATCH, compile_check
from .custom_op import CustomOpDef
from .user_function import any_shared, declared_aliases, shares_memory, undeclared_alias

if TYPE_CHECKING:
    from ..tensor import Tensor


class OpCheckError(Exception):
    """Failure of one of the tests of `opcheck`."""


class _Sample(NamedTuple):
    """An operator and its test arguments, in schema order; tests must not write to them."""

    entry: OperatorEntry
    args: tuple[Any, ...]

    @property
    def schema(self) -> FunctionSchema:
        return self.entry.schema

    def copied(self, copy: Callable[[Any], Any]) -> list[Any]:
        """Return the arguments with `copy` applied to each tensor; a repeated tensor is copied once."""
        made: dict[int, Any] = {}

        def copy_once(value: Any) -> Any:
            if isinstance(value, TensorImpl):
                if id(value) not in made:
                    made[id(value)] = copy(value)
                return made[id(value)]
            if isinstance(value, tuple | list):
                return tuple(copy_once(v) for v in value)
            return value

        return [copy_once(value) for value in self.args]


@api_boundary
def opcheck(
    op: CustomOpDef | OpOverload | OpOverloadGroup,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = "ALL",
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, Any]:
    """Test an operator on sample arguments, which stay unchanged (`torch.library.opcheck`).

    - ``test_schema``: arguments that the schema does not declare as mutated keep every bit, and the versions of the
      others increase. Results have the declared types and share memory with declared arguments only.
    - ``test_autograd_registration``: a formula is registered under an Autograd key, rather than recorded by a
      backend's kernel.
    - ``test_faketensor``: the results on meta tensors have the sizes, strides, dtype and device of the real ones.
    - ``test_gradcheck``: gradients agree with differences, for float64 arguments that require grad; others are
      constants. Operators that mutate have none.

    Call it with arguments that require grad, and on each device that has a kernel.

    Args:
        op: A custom operator, an overload, or a packet with one overload.
        test_utils: A name or several; "ALL" runs all four.
        raise_exception: If True, raise the first failure; otherwise return all.
        rtol, atol: Tolerances of ``test_gradcheck``; both or neither.

    Returns:
        For each test ``"SUCCESS"`` or its exception.

    Raises:
        OpCheckError: for a failure, if `raise_exception`.
        ValueError: `op` is not an operator, or a test is unknown.

    Example:
        >>> import triten as tt
        >>> @tt.library.custom_op("docs::doubled", mutates_args=())
        ... def doubled(x: tt.Tensor) -> tt.Tensor:
        ...     return x * 2
        >>> _ = doubled.register_fake(lambda x: tt.empty_like(x))
        >>> doubled.register_autograd(lambda ctx, grad: grad * 3)
        >>> x = tt.ones(2, dtype=tt.float64, requires_grad=True)
        >>> results = tt.library.opcheck(doubled, (x,), raise_exception=False)
        >>> [name for name, result in results.items() if result != "SUCCESS"]
        ['test_gradcheck']
    """
    if (rtol is None) is not (atol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    names = TESTS if test_utils == "ALL" else (test_utils,) if isinstance(test_utils, str) else test_utils
    if not set(names) <= set(TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of {tuple(TESTS)} but it "
            "was not"
        )
    overload = _overload_of(op)
    sample = _Sample(overload._entry, tuple(overload.bind(args, kwargs or {})))
    tolerances = {} if rtol is None or atol is None else {"rtol": rtol, "atol": atol}
    results: dict[str, Any] = {}
    for name in names:
        try:
            TESTS[name](sample, tolerances)
        except Exception as error:  # any exception of the operator is the result of the test
            if raise_exception:
                raise OpCheckError(f"opcheck({overload}, ...): {name} failed with {error}") from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results


def _overload_of(op: Any) -> OpOverload:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverloadGroup):
        if len(op.overloads()) != 1:
            raise ValueError(
                f"opcheck(op, ...): {op} has the overloads {op.overloads()}, name the one to be tested"
            )
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of OpOverload, e.g. ops.aten.sin.default, "
            f"got {type(op).__name__}"
        )
    return op


def detached_copy(tensor: Tensor) -> Tensor:
    """Return a tensor of the same values, sizes, strides and device, in its own memory."""
    from ..generated.functions import empty_strided

    spec = tensor._spec
    if spec.overlaps:  # copy an expanded tensor's distinct elements, then expand again
        lengths = [1 if stride == 0 else size for size, stride in zip(spec.sizes, spec.strides, strict=True)]
        part = tensor.detach().as_strided(lengths, spec.strides, tensor.storage_offset()).clone()
        return part.expand(spec.sizes)
    copied: Tensor = empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)
    return copied.copy_(tensor.detach())


def _copy_with_grad(tensor: Tensor) -> Tensor:
    copied = detached_copy(tensor)
    return copied._set_requires_grad() if tensor._spec.requires_grad else copied


def _meta_copy(tensor: Tensor) -> Tensor:
    from ..generated.functions import empty_strided

    spec = tensor._spec
    return empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=META)


def _bytes_of(tensor: Any) -> bytes:
    return bytes(np.ascontiguousarray(tensor.detach().host_array()).tobytes())


def _is_meta(sample: _Sample) -> bool:
    return any(t._spec.is_meta for t in tensors_in(sample.args))


def _results_of(schema: FunctionSchema, result: Any) -> list[Any]:
    """Return the values that an operator returned. Raises RuntimeError if they do not match the schema."""
    count = len(schema.returns)
    if count == 1:
        values = [result]
    elif count and isinstance(result, tuple | list) and len(result) == count:
        values = list(result)
    elif not count and result is None:
        values = []
    else:
        got = len(result) if isinstance(result, tuple | list) else type(result).__name__
        raise RuntimeError(f"The schema {schema} declares {count} results, but the operator returned {got}")
    for number, (declared, value) in enumerate(zip(schema.returns, values, strict=True)):
        exact, convert = compile_check(declared.type)
        if value.__class__ not in exact and convert(value, False) is MISMATCH:
            raise RuntimeError(
                f"Output {number} is declared to be {declared.type} but is {type(value).__name__}"
            )
    return values


def check_schema(sample: _Sample, tolerances: dict[str, float]) -> None:
    """Check that mutation and aliasing are as declared. Raises RuntimeError if they are not."""
    if _is_meta(sample):
        return
    schema = sample.schema
    args = sample.copied(detached_copy)
    tensors = [tensors_in((value,)) for value in args]
    before = [[(_bytes_of(t), t._spec, t.current_version(), detached(t)) for t in group] for group in tensors]
    results = _results_of(schema, sample.entry.call(*args))
    # Tensors that share memory with a mutated argument are mutated with it, as in add_(x, x).
    mutable = [
        memory
        for argument, states in zip(schema.arguments, before, strict=True)
        if argument.is_write
        for *_, memory in states
    ]
    for argument, group, states in zip(schema.arguments, tensors, before, strict=True):
        for tensor, (values, spec, version, memory) in zip(group, states, strict=True):
            counted = tensor.current_version() != version
            written = counted or _bytes_of(tensor) != values
            written = written or tensor._spec is not spec or not shares_memory(tensor, memory)
            if written and not argument.is_write and not any_shared([memory], mutable):
                raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated")
            if argument.is_write and not counted:
                raise RuntimeError(
                    f"Argument {argument.name} is defined as mutable but its version was not counted up"
                )
    for number, (declared, value) in enumerate(zip(schema.returns, results, strict=True)):
        for argument, aliased in declared_aliases(schema, declared, args):
            if argument.is_write and value is not aliased:
                raise RuntimeError(
                    f"Output {number} is defined to be argument {argument.name} but is another tensor"
                )
        name = undeclared_alias(schema, declared, args, value)
        if name is not None:
            raise RuntimeError(f"Argument {name} is not defined to alias output but was aliasing")
    _check_outputs_apart(schema, results)


def detached(tensor: Any) -> Any:
    """Return another tensor over the same memory, which does not follow a resize."""
    return type(tensor).from_data(tensor._data, tensor._spec.detached)


def _check_outputs_apart(schema: FunctionSchema, results: Sequence[Any]) -> None:
    numbered = [
        (number, tensor)
        for number, (declared, value) in enumerate(zip(schema.returns, results, strict=True))
        if declared.alias_info is None
        for tensor in tensors_in((value,))
    ]
    for i, (number, tensor) in enumerate(numbered):
        for other, earlier in numbered[:i]:
            if shares_memory(tensor, earlier):
                raise RuntimeError(f"Outputs {other} and {number} alias unexpectedly")


def check_autograd_registration(sample: _Sample, tolerances: dict[str, float]) -> None:
    """Check that no kernel below autograd records. Raises AssertionError if a result still requires grad."""
    args = sample.copied(_copy_with_grad)
    if _is_meta(sample) or not any(t._spec.requires_grad for t in tensors_in(args)):
        return
    entry = sample.entry
    bits = entry.key_set_of(args)
    if any(entry.kernels.get(key) for key in (highest_priority(bits), AUTOGRAD, IMPLICIT)):
        return
    result = entry.call_with_keys(bits & BELOW_AUTOGRAD, args)
    argument_ids = {id(t) for t in tensors_in(args)}
    results = result if isinstance(result, tuple | list) else (result,)
    if any(t._spec.requires_grad and id(t) not in argument_ids for t in tensors_in(results)):
        raise AssertionError(
            f"{entry.name}: at least one output of this operator has requires_grad=True but the operator does not "
            "have an autograd kernel defined at an autograd key (e.g. DispatchKey.Autograd). This could mean that "
            "you have incorrectly registered an autograd kernel to a non-Autograd DispatchKey, which may lead to "
            "silently incorrect results. If you have an autograd.Function registered to a backend (CPU/CUDA) key, "
            "the correct location for it is the Autograd key."
        )


def check_faketensor(sample: _Sample, tolerances: dict[str, float]) -> None:
    """Check that the results on meta tensors match the real ones. Raises AssertionError if they do not."""
    if _is_meta(sample):
        return
    real_args = sample.copied(detached_copy)
    copies = _Sample(sample.entry, tuple(real_args)).copied(_meta_copy)
    fake_args = [META if isinstance(v, Device) else v for v in copies]
    real = _results_of(sample.schema, sample.entry.call(*real_args))
    fake = _results_of(sample.schema, sample.entry.call(*fake_args))
    devices = {t._spec.device for t in tensors_in(real_args)} | {
        v for v in sample.args if isinstance(v, Device)
    }
    for number, (expected, got) in enumerate(zip(real, fake, strict=True)):
        where = f"output {number}" if len(real) > 1 else "output"
        _check_alike(where, expected, got, {d.type for d in devices})
    for argument, expected, got in zip(sample.schema.arguments, real_args, fake_args, strict=True):
        if argument.is_write:
            _check_alike(f"argument {argument.name}", expected, got, {d.type for d in devices})


def _check_alike(where: str, real: Any, fake: Any, devices: set[str]) -> None:
    if isinstance(real, tuple | list) and isinstance(fake, tuple | list):
        if len(real) != len(fake):
            raise AssertionError(f"{where}: the real one has {len(real)} tensors, the fake one {len(fake)}")
        for number, (expected, got) in enumerate(zip(real, fake, strict=True)):
            _check_alike(f"{where}[{number}]", expected, got, devices)
        return
    if type(real) is not type(fake):
        raise AssertionError(
            f"{where}: the real one is a {type(real).__name__}, the fake one a {type(fake).__name__}"
        )
    if not isinstance(real, TensorImpl):
        return
    expected, got = real._spec, fake._spec
    device = "meta" if expected.device.type in devices else expected.device.type
    for noun, real_value, fake_value in (
        ("shape", expected.sizes, got.sizes),
        ("dtype", expected.dtype, got.dtype),
        ("strides", _significant(real), _significant(fake)),
        ("device", device, got.device.type),
    ):
        if real_value != fake_value:
            raise AssertionError(f"{where}: the fake kernel gives {noun} {fake_value}, expected {real_value}")


def _significant(tensor: TensorImpl) -> list[int | None]:
    """Return the strides of dimensions with more than one element, None for the others."""
    spec = tensor._spec
    if spec.numel == 0:
        return []
    return [None if n == 1 else stride for n, stride in zip(spec.sizes, spec.strides, strict=True)]


def check_gradients(sample: _Sample, tolerances: dict[str, float]) -> None:
    """Check that gradients agree with differences. Raises GradcheckError if they do not."""

    def checked(tensor: Any) -> bool:
        return bool(tensor._spec.requires_grad and tensor._spec.dtype.name == "float64")

    args = sample.copied(lambda t: detached_copy(t)._set_requires_grad() if checked(t) else detached_copy(t))
    sources = [t for t in tensors_in(args) if t._spec.requires_grad]
    if not sources or sample.schema.is_mutable:
        return

    def call(*_: Any) -> list[Any]:
        result = sample.entry.call(*args)
        results = tensors_in(result if isinstance(result, tuple | list) else (result,))
        return [_connected(t, sources) for t in results if t._spec.dtype.name == "float64"]

    gradcheck(call, tuple(sources), **tolerances)  # type: ignore[arg-type]  # rtol and atol alone


def _connected(output: Any, sources: Sequence[Any]) -> Any:
    """Connect an output to the sources by zeros if it has no history: `gradcheck` skips outputs without one."""
    if output._spec.requires_grad:
        return output
    zero: Any = sum((source * 0).sum() for source in sources)
    return output + zero


TESTS: dict[str, Callable[[_Sample, dict[str, float]], None]] = {
    "test_schema": check_schema,
    "test_autograd_registration": check_autograd_registration,
    "test_faketensor": check_faketensor,
    "test_gradcheck": check_gradients,
}
