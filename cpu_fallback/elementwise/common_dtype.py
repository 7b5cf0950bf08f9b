"""The dtype that a call's operands are brought to."""

from __future__ import annotations

from ...dispatch.structured.stub import StructuredCall
from ...runtime.scalar_type import dtype as ScalarType


def compute_dtype_of(call: StructuredCall) -> ScalarType:
    """The dtype that a call's operands are brought to: the iterator's, or the one its meta function names."""
    named = call.extra.get("common_dtype")
    if named is None:
        assert call.iterator is not None
        named = call.iterator.common_dtype
    return named  # type: ignore[no-any-return]
