"""Names of operators' results: a table of operators by kind of rule, and a function for each kind.

The table is PyTorch's "Named Tensors operator coverage" and its registrations (ATen/core/NamedRegistrations.cpp); the
functions are those of ATen/NamedTensorUtils.cpp. A rule takes names and static arguments and returns the results'
names. An operator with several results has a tuple of tuples of names. All tensors of a list have the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.dimname import Names, check_unique, describe, unify_from_right
from ....runtime.tensor_impl import TensorImpl
from ...schema import FunctionSchema


class NamedCall:
    """Call as rules see it.

    `operands` has the names of the input tensors, in the schema's order, with lists flattened.
    """

    __slots__ = ("name", "operands", "schema", "values")

    def __init__(self, name: str, schema: FunctionSchema, args: Sequence[Any]) -> None:
        self.name = name
        self.schema = schema
        self.values = {a.name: value for a, value in zip(schema.arguments, args, strict=True)}
        self.operands: list[Names] = []
        for argument, value in zip(schema.arguments, args, strict=True):
            if not argument.is_out:
                for tensor in value if isinstance(value, tuple | list) else (value,):
                    if isinstance(tensor, TensorImpl):
                        self.operands.append(tensor._spec.names)

    def names(self, argument: str = "self") -> Names:
        """Return the names of a tensor argument."""
        names: Names = self.values[argument]._spec.names
        return names

    def dims(self, argument: str = "dim") -> tuple[int, ...]:
        """Return the dimensions of an argument as positions; all of them for None, an empty list and a missing
        argument.
        """
        rank = len(self.names())
        value = self.values.get(argument)
        if value is None or value == ():
            return tuple(range(rank))
        return tuple([wrapped(dim, rank) for dim in ((value,) if isinstance(value, int) else value)])

    def several(self, names: Names) -> Any:
        """Return the same names for every result."""
        count = len(self.schema.returns)
        return names if count == 1 else (names,) * count


Rule = Callable[[NamedCall], Any]


def wrapped(dim: int, rank: int) -> int:
    """Return a dimension counted from the front. Raises IndexError out of range."""
    least = max(rank, 1)
    if not -least <= dim < least:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], but got {dim})"
        )
    return dim % least


def unify(call: NamedCall) -> Any:
    """Unify the names of operands that broadcast."""
    made = call.operands[0]
    for other in call.operands[1:]:
        made = unify_from_right(made, other)
    return call.several(made)


def unify_reversed(call: NamedCall) -> Any:
    """Run `unify` with the operands in reverse order, as the operator computes; error messages show this order."""
    call.operands.reverse()
    return unify(call)


def keep(call: NamedCall) -> Any:
    """Return the first operand's names."""
    return call.several(call.operands[0])


def reduce(call: NamedCall) -> Any:
    """Return the names without those of reduced dimensions."""
    names = call.names()
    if call.values.get("keepdim"):
        return call.several(names)
    gone = call.dims()
    return call.several(tuple([name for d, name in enumerate(names) if d not in gone]))


def without_dim(call: NamedCall) -> Any:
    """Return the names without that of the one dimension that a view drops."""
    gone = wrapped(call.values["dim"], len(call.names()))
    return tuple([name for d, name in enumerate(call.names()) if d != gone])


def without_first(call: NamedCall) -> Any:
    """Return the names without the first."""
    return call.names()[1:]


def squeeze(call: NamedCall) -> Any:
    """Return the names without those of selected dimensions of size 1."""
    sizes = call.values["self"]._spec.sizes
    gone = (
        [d for d in call.dims() if d < len(sizes) and sizes[d] == 1] if call.values.get("dim") != () else []
    )
    return tuple([name for d, name in enumerate(call.names()) if d not in gone])


def transpose(call: NamedCall) -> Any:
    """Swap two names: those of the given dimensions, or of a matrix."""
    names = list(call.names())
    if len(names) >= 2:
        first, second = (
            (wrapped(call.values["dim0"], len(names)), wrapped(call.values["dim1"], len(names)))
            if "dim0" in call.values
            else (0, 1)
        )
        names[first], names[second] = names[second], names[first]
    return tuple(names)


def diagonal(call: NamedCall) -> Any:
    """Return the names of the remaining dimensions; the new last one has none."""
    names = call.names()
    gone = [wrapped(call.values[a], len(names)) for a in ("dim1", "dim2")]
    return (*[name for d, name in enumerate(names) if d not in gone], None)


def expand(call: NamedCall) -> Any:
    """Return the names with None for new dimensions at the front."""
    names = call.names()
    return (None,) * (len(call.values["size"]) - len(names)) + names


def drop(call: NamedCall) -> Any:
    """Return no names, for views of other dimensions."""
    return (None,) * len(call.values["size"])


def picked(call: NamedCall) -> Any:
    """Return one unnamed dimension for masked elements; mask and tensor broadcast."""
    unify(call)
    return (None,)


def basic_index(call: NamedCall) -> Any:
    """Return the names of a `_basic_index` result: numbers drop a dimension, ranges keep it.

    A new dimension is `unsqueeze`, which has no rule.
    """
    from ...methods.subscripts import INTEGER, NEW_AXIS

    items = call.values["index"]
    remaining = iter(call.names())
    made: list[str | None] = []
    for kind in items[::4]:
        if kind == NEW_AXIS:
            from .key import unsupported

            raise RuntimeError(unsupported("aten::unsqueeze"))
        name = next(remaining)
        if kind != INTEGER:
            made.append(name)
    return (*made, *remaining)


def cat(call: NamedCall) -> Any:
    """Match the names of all tensors with each other; 1-D tensors without elements are ignored."""
    tensors = call.values["tensors"]
    made: Names = ()
    for tensor in tensors:
        if tensor._spec.sizes != (0,):
            made = unify_from_right(made, tensor._spec.names, "cat") if made else tensor._spec.names
    return made


def product(names: Names, other: Names) -> Names:
    """Return the names of a matmul: summed dimensions are dropped, and batch dimensions are matched.

    Raises RuntimeError if batches do not match or a name would occur twice.
    """
    if not names or not other:
        raise RuntimeError("both arguments to matmul need to be at least 1D")
    batch = _unified_batch(names, other)
    made = (*batch, *names[-2:-1], *(other[-1:] if len(other) >= 2 else ()))
    if len(names) >= 2 and len(other) >= 2 and made[-2] is not None and made[-2] == made[-1]:
        raise RuntimeError(
            f"Matrix multiplying Tensor{describe(names)} with Tensor{describe(other)} would produce output tensor with "
            f"duplicate names {describe(made[-2:])}. Please rename the input tensors with `Tensor.rename` to prevent "
            "this."
        )
    check_unique(made)
    return made


def _unified_batch(names: Names, other: Names) -> Names:
    """Match the names of the batch dimensions of a matmul from the right."""
    made: list[str | None] = []
    for back in range(3, max(len(names), len(other)) + 1):
        if back > len(names) or back > len(other):
            made.append(names[-back] if back <= len(names) else other[-back])
            continue
        mine, theirs = names[-back], other[-back]
        if mine != theirs:
            _check_batch((mine, back, names), (theirs, back, other))
        made.append(theirs if mine is None else mine)
    return tuple(reversed(made))


_Origin = tuple[str | None, int, Names]
"""A name, its position from the right, and all names of its tensor."""


def _check_batch(mine: _Origin, theirs: _Origin) -> None:
    """Raise RuntimeError for two batch dimensions of different names, and for a name that meets a wildcard but also
    occurs elsewhere.
    """
    (name, back, names), (other_name, other_back, other) = mine, theirs
    if name is None:
        (name, back, names), (other_name, other_back, other) = theirs, mine
    first = f"{name!r} (index {len(names) - back} of {describe(names)})"
    second = f"{other_name!r} (index {len(other) - other_back} of {describe(other)})"
    if other_name is not None:
        raise RuntimeError(f"matmul: Expected {first} to match {second} but they do not match.")
    if name in other:
        raise RuntimeError(
            f"matmul: Cannot match {first} with {second} because the latter names already have {name!r}. Are your "
            "tensors misaligned?"
        )


def contract(call: NamedCall) -> Any:
    """Return the names of the matmul of an operator's two tensors."""
    return product(*call.operands[:2])


def contract_and_add(call: NamedCall) -> Any:
    """Return the names of the matmul of the second and third tensor, unified with the first, the addend."""
    bias, names, other = call.operands[:3]
    return unify_from_right(product(names, other), bias)


def linear(call: NamedCall) -> Any:
    """Return the names of a matmul with a transposed matrix, unified with the bias."""
    weight = call.names("weight")
    made = product(call.names("input"), tuple(reversed(weight)))
    return unify_from_right(made, call.names("bias")) if call.values["bias"] is not None else made


def unflatten(call: NamedCall) -> Any:
    """Raise an error: the new dimensions of a named tensor must have names."""
    raise RuntimeError("unflatten: input is a named tensor but no names were given for unflattened sizes")


def resize_as(call: NamedCall) -> Any:
    """Return the template's names, which must equal those of the tensor if it has any."""
    return call.names("the_template")


KINDS: dict[Rule, str] = {
    unify: """
        abs absolute acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_not ceil clamp clamp_max
        clamp_min conj conj_physical copy_ cos cosh div eq erf erfc exp expm1 floor floor_divide ge gt isfinite isinf
        isnan le log log10 log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill mul ne neg positive
        pow real reciprocal relu resolve_conj resolve_neg round rsqrt sigmoid sign sin sinh sqrt square sub tan tanh
        trunc
        """,
    unify_reversed: "masked_fill_ rsub",
    keep: """
        _slice_first _to_copy alias bernoulli cauchy_ clone contiguous cummax cummin cumprod cumsum detach
        dropout empty_like exponential_ fill_ full_like geometric_ index_fill log_normal_ log_softmax
        logcumsumexp max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices native_dropout
        normal_ ones_like rand_like randn_like random_ resize_ slice softmax uniform_ zero_ zeros_like
        """,
    reduce: "all any logsumexp max mean min prod std std_mean sum var var_mean",
    without_dim: "select",
    without_first: "_select_first",
    squeeze: "squeeze",
    transpose: "t transpose",
    diagonal: "diagonal",
    expand: "expand",
    drop: "_strided_from as_strided",
    picked: "masked_select",
    basic_index: "_basic_index",
    cat: "cat",
    contract: "bmm dot matmul mm mv",
    contract_and_add: "addmm addmv",
    linear: "linear",
    unflatten: "unflatten",
    resize_as: "resize_as_",
}
"""Operators by rule; a name covers all overloads, also in-place and ``out=`` forms, except those of `REFUSED`."""

_REFUSED = """
    all.dim all.dims all.dims_out all.out any.dim any.dims any.dims_out any.out clamp_max_.Tensor conj_physical_
    count_nonzero div.Tensor_mode div.out_mode div_.Tensor_mode eq_.Tensor fill ge_.Tensor gt_.Tensor huber_loss
    index_put le_.Tensor log_softmax.int_out lt_.Tensor multinomial ne_.Tensor new_full normal put put_ randint_like
    repeat roll rot90 round.decimals round.decimals_out round_.decimals smooth_l1_loss softmax.int_out stack
    """
REFUSED = frozenset(_REFUSED.split())
"""Operators that PyTorch refuses although their base has a rule, or although they could be decomposed here."""

TAKEN_APART = frozenset({"max.other", "max.out", "min.other", "min.out"})
"""Composite overloads of operators whose other overloads have a rule."""

_RULES: dict[str, Rule] = {name: rule for rule, names in KINDS.items() for name in names.split()}


def rule_of(operator: str) -> Rule | None:
    """Return the rule of a full name such as ``aten::add_.Tensor``, or None."""
    namespace, _, name = operator.partition("::")
    if namespace != "aten" or name in TAKEN_APART or is_refused(operator):
        return None
    base = name.partition(".")[0]
    return _RULES.get(base) or _RULES.get(base.removesuffix("_"))


def is_refused(operator: str) -> bool:
    """Return True if `REFUSED` has the operator or all overloads of its name."""
    name = operator.removeprefix("aten::")
    return name in REFUSED or name.partition(".")[0] in REFUSED
