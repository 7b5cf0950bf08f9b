"""What a kernel of several operators is called."""

from __future__ import annotations

from collections.abc import Sequence

from .block_reductions import ReductionCall
from .channel_norms import ChannelNormCall
from .pointwise import PointwiseCall
from .reductions import RowCall

LONGEST_NAME = 60


def joined_name(calls: Sequence[PointwiseCall | RowCall | ReductionCall | ChannelNormCall]) -> str:
    """The names of operators as that of a kernel."""
    names = [call.node.target._opname.strip("_") for call in calls]
    text = "_".join(names)
    return text if len(text) <= LONGEST_NAME else f"{names[0]}_{len(names) - 2}_more_{names[-1]}"
