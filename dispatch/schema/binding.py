"""Binding of calls to schemas, and overload resolution as in PyTorch's parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ...runtime.tensor_impl import TensorImpl
from .function_schema import FunctionSchema, OperatorName
from .mismatch import describe_call, describe_mismatch, explain, explain_operator_call, python_signature

_NO_KWARGS: Mapping[str, Any] = {}
TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory")
_PLAIN = (type(None), bool, int, float, str)


def bind(
    schema: FunctionSchema,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> tuple[Any, ...]:
    """Return the values of all the schema's arguments in order, with defaults filled in.

    Lists become tuples, `int[2]` expands one int, numbers become Python's own, devices `tt.device`. A tensor without
    dimensions that does not require grad may stand for a number. The values of `...` come last.

    Raises:
        TypeError: for missing, superfluous, unknown, repeated and ill-typed arguments, in PyTorch's words;
            `name` is the operator's name in them (`add.Tensor` if not given).

    >>> from triten.dispatch.schema import bind, parse_schema
    >>> schema = parse_schema("pool(int[2] kernel_size, int[2] stride=1, *, bool ceil_mode=False) -> Tensor")
    >>> bind(schema, (3,), {"ceil_mode": True})
    ((3, 3), (1, 1), True)
    """
    bound = schema.signature.bind(args, kwargs)
    if bound is None:
        raise TypeError(explain(schema, args, kwargs or _NO_KWARGS, name or _display_name(schema)))
    return bound


def bind_operator(
    schema: FunctionSchema, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return `bind` of a call of an operator object, whose errors are PyTorch's RuntimeErrors.

    Raises:
        RuntimeError: for missing, superfluous, unknown, repeated and ill-typed arguments.
    """
    bound = schema.signature.bind(args, kwargs)
    if bound is None and len(args) <= len(schema.arguments):
        bound = schema.signature.bind(_iterated(schema, args), kwargs)
    if bound is None:
        raise RuntimeError(explain_operator_call(schema, args, kwargs or _NO_KWARGS))
    return bound


def _iterated(schema: FunctionSchema, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace tensors that stand for lists of optional tensors by their slices, as PyTorch iterates them."""
    return tuple(
        [
            tuple(value.unbind(0))  # type: ignore[attr-defined]
            if str(argument.type) == "Tensor?[]" and isinstance(value, TensorImpl) and value._spec.ndim
            else value
            for value, argument in zip(args, schema.arguments, strict=False)
        ]
    )


def resolve_operator(
    schemas: Sequence[FunctionSchema], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str
) -> tuple[FunctionSchema, tuple[Any, ...]]:
    """Return `resolve` of a call of all overloads of an operator object; `name` has the namespace.

    Raises:
        RuntimeError: if no overload fits; it lists the reason for each.
    """
    found = _first_match(schemas, args, kwargs)
    if found is not None:
        return found
    for schema in schemas:
        if len(args) <= len(schema.arguments):
            found = _first_match([schema], _iterated(schema, args), kwargs)
            if found is not None:
                return found
    has_out = kwargs.get("out") is not None
    spread = [(schema, (_spread_out(schema, kwargs) if has_out else None) or kwargs) for schema in schemas]
    reasons = [explain_operator_call(schema, args, given) for schema, given in spread]
    raise RuntimeError(f"{name} invoked from Python failed to match any schema:\n" + "\n\n".join(reasons))


def gathered(schemas: Sequence[FunctionSchema], args: Sequence[Any]) -> Sequence[Any]:
    """Pack a method's several integers into the one list that it takes: `x.squeeze(0, 1)`.

    >>> from triten.dispatch.schema import gathered, parse_schema
    >>> schema = parse_schema("squeeze.dims(Tensor self, int[] dim) -> Tensor")
    >>> gathered([schema], ("x", 0, 1))
    ('x', (0, 1))
    """
    if (
        len(args) < 3
        or args[1].__class__ is not int
        or any(each.__class__ not in (int, bool) for each in args[2:])
    ):
        return args
    taken = [schema.positional_arguments for schema in schemas]
    is_alone = all(len(arguments) <= 2 for arguments in taken)
    if is_alone and any(
        str(argument.type) in ("int[]", "SymInt[]") for arguments in taken for argument in arguments
    ):
        return (args[0], tuple(args[1:]))
    return args


def matches(schema: FunctionSchema, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> bool:
    """Return whether a call fits a schema; `mismatch_reason` explains why it does not.

    >>> from triten.dispatch.schema import matches, parse_schema
    >>> schema = parse_schema("f(int dim) -> Tensor")
    >>> matches(schema, (1,)), matches(schema, ("1",))
    (True, False)
    """
    return schema.signature.bind(args, kwargs) is not None


def mismatch_reason(
    schema: FunctionSchema, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> str | None:
    """Return why a call does not fit a schema, in the words of `bind`'s error; None if it fits."""
    return explain(schema, args, kwargs or _NO_KWARGS, _display_name(schema))


def _display_name(schema: FunctionSchema) -> str:
    return str(OperatorName(schema.operator_name.base_name, schema.overload_name))


def resolve(
    schemas: Sequence[FunctionSchema],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    name: str,
    *,
    method: bool = False,
) -> tuple[FunctionSchema, tuple[Any, ...]]:
    """Return the first of an operator's overloads that a call fits, and its bound values.

    A tensor without dimensions is first matched with tensors only; if no overload fits, it may stand for a number.
    `out=` selects the overloads with out arguments, a tuple if they have several. `out=None` counts as absent.
    `method` means that the first argument is the object of a method call.

    Raises:
        TypeError: if no overload fits; the specific reason if only one takes as many arguments, else the list
            of all signatures.

    >>> from triten.dispatch.schema import parse_schema, resolve
    >>> overloads = [parse_schema("f.int(int a) -> Tensor"), parse_schema("f.str(str a) -> Tensor")]
    >>> resolve(overloads, ("x",), None, "f")[0].overload_name
    'str'
    >>> resolve(overloads, (1.5,), None, "f")
    Traceback (most recent call last):
        ...
    TypeError: f() received an invalid combination of arguments - got (float), but expected one of:
     * (int a)
          didn't match because some of the arguments have invalid types: (!float!)
     * (str a)
          didn't match because some of the arguments have invalid types: (!float!)
    """
    return _first_match(schemas, args, kwargs) or _refuse(schemas, args, kwargs or _NO_KWARGS, name, method)


def _first_match(
    schemas: Sequence[FunctionSchema], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> tuple[FunctionSchema, tuple[Any, ...]] | None:
    if kwargs and "out" in kwargs:
        if kwargs["out"] is not None:
            return _first_match_with_out(schemas, args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    for lenient in (False, True):
        for schema in schemas:
            bound = schema.signature.bind(args, kwargs, lenient)
            if bound is not None:
                return schema, bound
    return None


def _first_match_with_out(
    schemas: Sequence[FunctionSchema], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[FunctionSchema, tuple[Any, ...]] | None:
    for lenient in (False, True):
        for schema in schemas:
            spread = _spread_out(schema, kwargs)
            bound = None if spread is None else schema.signature.bind(args, spread, lenient)
            if bound is not None:
                return schema, bound
    return None


def _spread_out(schema: FunctionSchema, kwargs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the keywords with `out` under the out arguments' own names; None if their number is wrong."""
    outs = schema.out_arguments
    if not outs:
        return None
    out = kwargs["out"]
    if len(outs) == 1:
        if outs[0].name == "out":
            return kwargs
        out = (out,)
    elif not isinstance(out, tuple | list) or len(out) != len(outs):
        return None
    rest = {k: v for k, v in kwargs.items() if k != "out"}
    return rest | {a.name: v for a, v in zip(outs, out, strict=True)}


class _Candidate(NamedTuple):
    """One signature as Python callers see it: a form of an operator together with its `out=` form."""

    schema: FunctionSchema
    out_schema: FunctionSchema | None

    def takes(self, count: int) -> bool:
        inputs = [a for a in self.schema.arguments if not a.is_out]
        least = sum(not a.has_default for a in inputs)
        return least <= count and (
            self.schema.is_vararg or count <= len(inputs) + (self.out_schema is not None)
        )


def _candidates(schemas: Sequence[FunctionSchema]) -> list[_Candidate]:
    """Return the signatures that an error lists.

    A factory's `out=` form has no tensor options, and is listed with the form that has them. Forms with named
    dimensions are omitted if there are others, as in PyTorch's errors.
    """

    def inputs_of(schema: FunctionSchema) -> tuple[object, ...]:
        return tuple(
            (a.name, a.type, a.kwarg_only)
            for a in schema.arguments
            if not a.is_out and not (a.kwarg_only and a.name in TENSOR_OPTIONS)
        )

    unnamed = [s for s in schemas if not any("Dimname" in str(a.type) for a in s.arguments)]
    schemas = unnamed or schemas
    out_schemas = {inputs_of(s): s for s in reversed(schemas) if s.kind == "out"}
    plain = [_Candidate(s, out_schemas.pop(inputs_of(s), None)) for s in schemas if s.kind != "out"]
    return plain + [_Candidate(s, s) for s in schemas if out_schemas.get(inputs_of(s)) is s]


def _given(schemas: Sequence[FunctionSchema], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keywords without those that repeat a default, which a public function may have filled in."""
    defaults: dict[str, Any] = {a.name: a.default for s in schemas for a in s.arguments if a.has_default}
    return {
        name: value
        for name, value in kwargs.items()
        if not isinstance(value, _PLAIN)
        or name not in defaults
        or (type(value), value) != (type(defaults[name]), defaults[name])
    }


def _refuse(
    schemas: Sequence[FunctionSchema],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name: str,
    method: bool,
) -> NoReturn:
    candidates = _candidates(schemas)
    kwargs = _given([c.schema for c in candidates], kwargs)
    plausible = [c for c in candidates if c.takes(len(args) + len(kwargs))]
    if len(candidates) == 1 or len(plausible) == 1:
        reason = _explain_candidate((plausible or candidates)[0], args, kwargs, name, method)
        if reason is not None:
            raise TypeError(reason)
    signatures = []
    for candidate in candidates:
        line = f" * {python_signature(candidate.schema, candidate.out_schema is not None and not method, method)}\n"
        known = kwargs if candidate.out_schema is None else {k: v for k, v in kwargs.items() if k != "out"}
        detail = describe_mismatch(candidate.schema, args, known, method)
        signatures.append(line + (f"      {detail}\n" if detail else ""))
    got = describe_call(args[int(method) :], kwargs)
    raise TypeError(
        f"{name}() received an invalid combination of arguments - got {got}, but expected one of:\n"
        + "".join(signatures)
    )


def _explain_candidate(
    candidate: _Candidate, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str, method: bool
) -> str | None:
    schema, out_schema = candidate
    if "out" not in kwargs or out_schema is None:
        return explain(schema, args, kwargs, name, method)
    spread = _spread_out(out_schema, kwargs)
    if spread is not None:
        return explain(out_schema, args, spread, name, method)
    count = len(out_schema.out_arguments)
    got = describe_call((kwargs["out"],), {})[1:-1]
    return f"{name}(): argument 'out' must be tuple of {count} Tensors, not {got}"
