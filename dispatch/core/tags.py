"""`Tag`: properties that an operator declares beside its schema (aten/src/ATen/native/tags.yaml)."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from ..schema import FunctionSchema


class Tag(enum.StrEnum):
    """Property of an operator, as `tt.ops.<namespace>.<operator>.<overload>.tags` lists them.

    Members are strings, so that APIs accept a name in place of a member.

    Example:
        >>> import triten as tt
        >>> tt.Tag.pointwise in tt.ops.aten.relu.default.tags
        True
        >>> tt.Tag("core") is tt.Tag.core
        True
    """

    core = "core"
    cudagraph_unsafe = "cudagraph_unsafe"
    data_dependent_output = "data_dependent_output"
    dynamic_output_shape = "dynamic_output_shape"
    flexible_layout = "flexible_layout"
    generated = "generated"
    inplace = "inplace"
    inplace_view = "inplace_view"
    maybe_aliasing_or_mutating = "maybe_aliasing_or_mutating"
    needs_contiguous_strides = "needs_contiguous_strides"
    needs_exact_strides = "needs_exact_strides"
    needs_fixed_stride_order = "needs_fixed_stride_order"
    nondeterministic_bitwise = "nondeterministic_bitwise"
    nondeterministic_seeded = "nondeterministic_seeded"
    out = "out"
    out_variant = "out_variant"
    pointwise = "pointwise"
    pt2_compliant_tag = "pt2_compliant_tag"
    reduction = "reduction"
    view_copy = "view_copy"


def parse_tags(tags: str | Iterable[str], operator: str) -> frozenset[Tag]:
    """Return the tags that a definition names, given as one name or several.

    Raises TypeError for an unknown name, as `torch.library.Library.define` does.
    """
    parsed = []
    for tag in (tags,) if isinstance(tags, str) else tags:
        try:
            parsed.append(Tag(tag))
        except ValueError:
            expected = ", ".join(Tag)
            raise TypeError(f"{operator}: {tag!r} is no tag; expected one of {expected}") from None
    return frozenset(parsed)


def check_tagged(schema: FunctionSchema, tags: Iterable[Tag]) -> None:
    """Raise an error for a schema that does not have the form that the tags ``out`` and ``inplace`` promise.

    Raises:
        ValueError: naming the argument or result that differs.

    Source: torch/library.py, _validate_out_schema and _validate_inplace_schema.
    """
    mutable = [a for a in schema.arguments if a.is_write]
    if Tag.out in tags:
        _check(bool(mutable), Tag.out, "must have at least one mutable argument", schema)
        placed = [a.name for a in mutable if not a.kwarg_only]
        _check(
            not placed,
            Tag.out,
            f"requires all mutable arguments to be keyword-only, and {placed} are not",
            schema,
        )
        non_tensors = [a.name for a in mutable if str(a.type) != "Tensor"]
        _check(
            not non_tensors,
            Tag.out,
            f"only supports Tensor mutable arguments, and {non_tensors} are not",
            schema,
        )
        _check(
            [r.alias_info for r in schema.returns] == [a.alias_info for a in mutable],
            Tag.out,
            "must return all mutable arguments, in their order and with their alias sets",
            schema,
        )
    if Tag.inplace in tags:
        first = schema.arguments[0] if schema.arguments and not schema.arguments[0].kwarg_only else None
        _check(
            first is not None and first.is_write and str(first.type) == "Tensor",
            Tag.inplace,
            "requires the first positional argument to be a mutable Tensor",
            schema,
        )
        _check(
            [r.alias_info for r in schema.returns] == [a.alias_info for a in mutable[:1]],
            Tag.inplace,
            "must return the first argument alone, with its alias set",
            schema,
        )
        _check(
            len(mutable) == 1,
            Tag.inplace,
            f"must only mutate the first argument, and also mutates {[a.name for a in mutable[1:]]}",
            schema,
        )


def _check(condition: bool, tag: Tag, rule: str, schema: FunctionSchema) -> None:
    if not condition:
        raise ValueError(f"Schema tagged with tt.Tag.{tag} {rule}. Got: {schema}")
