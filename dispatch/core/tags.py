"""`Tag`: what an operator declares about itself beside its schema (aten/src/ATen/native/tags.yaml)."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Tag(enum.StrEnum):
    """A property of an operator, as `tt.ops.<namespace>.<operator>.<overload>.tags` lists them.

    Members are strings, so that a name does where a member does.

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
    """The tags that a definition names, one alone or several.

    Raises TypeError for a name that is no tag, as `torch.library.Library.define` does.
    """
    found = []
    for tag in (tags,) if isinstance(tags, str) else tags:
        try:
            found.append(Tag(tag))
        except ValueError:
            expected = ", ".join(Tag)
            raise TypeError(f"{operator}: {tag!r} is no tag; expected one of {expected}") from None
    return frozenset(found)
