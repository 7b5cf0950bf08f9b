"""`TorchVersion`: PyTorch's version as text that compares as a version (`torch.torch_version`).

Example:
    >>> from triten.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") >= "2.5", TorchVersion("2.13.0") < (2, 4)
    (True, False)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

__all__ = ["TorchVersion"]

_Key: TypeAlias = tuple[tuple[int, ...], tuple[int, int], tuple[tuple[int, Any], ...]]

_PATTERN = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<stage>dev|alpha|beta|post|rc|a|b|c)[-_.]?(?P<number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, None: 0, "post": 1}


def _key(version: object) -> _Key | None:
    """Return the sort key of a version by PEP 440; None for an invalid version."""
    if isinstance(version, Iterable) and not isinstance(version, str):
        version = ".".join(map(str, version))
    match = _PATTERN.fullmatch(str(version).strip())
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    stage = match["stage"].lower() if match["stage"] else None
    local = re.split("[-_.]", match["local"].lower()) if match["local"] else []
    return (
        tuple(release),
        (_STAGES[stage], int(match["number"] or 0)),
        tuple((1, int(part)) if part.isdigit() else (0, part) for part in local),
    )


def _comparison(compare: Callable[[Any, Any], bool]) -> Any:
    def compared(self: TorchVersion, other: object) -> bool:
        mine, theirs = _key(str(self)), _key(other)
        # An invalid version is compared as text.
        return compare(str(self), other) if mine is None or theirs is None else compare(mine, theirs)

    compared.__name__ = f"__{compare.__name__}__"
    return compared


class TorchVersion(str):
    """A version's text that is compared number by number, with texts, tuples of numbers and `packaging`'s versions.

    Example:
        >>> from triten.torch_version import TorchVersion
        >>> TorchVersion("2.13.0+cpu") > "2.9.1", TorchVersion("2.13.0rc1") < "2.13"
        (True, True)
    """

    __slots__ = ()
    __hash__ = str.__hash__
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __ge__ = _comparison(operator.ge)
    __gt__ = _comparison(operator.gt)
