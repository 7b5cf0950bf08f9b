"""The runtime's own checks, by name, in order of importance. Each returns what it measured, or raises."""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triten.runtime.cuda.driver import is_simulated

from .device_errors import is_fatal, is_missing_library
from .forms import FAILED, NOT_BUILT, PASSED

NEEDS_A_CARD = "needs a card"
MODULES = (
    *("launch_checks", "driver_checks", "allocator_checks", "random_checks", "optimizer_checks"),
    *("interface_checks", "factorization_checks", "product_checks", "size_checks", "sparse_checks"),
    "communication_checks",
)

BESIDE_OTHERS = (
    *("random_checks", "optimizer_checks", "factorization_checks"),
    *("product_checks", "size_checks", "sparse_checks"),
)
"""Modules whose checks compute, and look neither at the device's memory nor at the time that work takes."""

Check = Callable[[], str | None]
_checks: dict[str, Check] = {}
_modules: dict[str, str] = {}
_composed: set[str] = set()
_seed: list[Any] = [0]
_brief = [False]


def is_rehearsal() -> bool:
    """Return True if no GPU computes: sizes are small then, and timings mean nothing."""
    return is_simulated() or os.environ.get("STANDIN_EXECUTE") == "1"


class NotBuilt(Exception):
    """triten does not have what the check is about."""


class NeedsACard(Exception):
    """A check needs an unavailable GPU: any GPU, a newer one, or a second one."""


def check(name: str, *, on_a_card: bool = False, composed: bool = False) -> Callable[[Check], Check]:
    """Register a check.

    Args:
        name: what it shows.
        on_a_card: whether the interpreter has nothing to show.
        composed: whether it calls no kernel that other checks and operators do not, so that a brief run goes without.
    """

    def register(function: Check) -> Check:
        def run() -> str | None:
            if on_a_card and is_simulated():
                raise NeedsACard("it is about the driver API, which simulated devices do not call")
            return function()

        _checks[name] = run
        _modules[name] = function.__module__.rpartition(".")[2]
        if composed:
            _composed.add(name)
        return function

    return register


def check_names() -> list[str]:
    """Return the names of all checks, in order."""
    for module in MODULES:
        importlib.import_module(f".{module}", __package__)
    return list(_checks)


def is_composed(name: str) -> bool:
    """Return True if all kernels of a check also occur in other checks."""
    check_names()
    return name in _composed


def is_alone(name: str) -> bool:
    """Return True if a check needs exclusive use of the device."""
    check_names()
    return _modules[name] not in BESIDE_OTHERS


def run_check(name: str, seed: int, brief: bool = False) -> dict[str, Any]:
    """Run one check and return its status, with its measurements or its error; `brief` as in `some_of`."""
    import triten as tt

    check_names()
    _seed[:] = [seed, zlib.crc32(name.encode())]
    _brief[:] = [brief]
    try:
        tt.manual_seed(seed % 2**31)
        result = _checks[name]()
        tt.cuda.synchronize()
    except NotBuilt as error:
        return {"status": NOT_BUILT, "reason": str(error)}
    except NeedsACard as error:
        return {"status": NEEDS_A_CARD, "reason": str(error)}
    except Exception as error:  # whatever is raised is what became of the check
        if is_missing_library(error):
            return {"status": NOT_BUILT, "reason": str(error)}
        return {
            "status": FAILED,
            "reason": f"{type(error).__name__}: {error}"[:1500],
            "fatal": is_fatal(error),
        }
    return {"status": PASSED, **({"result": result} if result else {})}


def fresh_numbers() -> np.random.Generator:
    """Return a new generator, seeded by the run's seed and the check's name."""
    return np.random.default_rng(_seed)


def some_of(values: Sequence[Any], always: Any = None) -> list[Any]:
    """Return all of a check's dtypes; in a brief run a random half that includes `always`."""
    if not _brief[0]:
        return list(values)
    drawn = np.random.default_rng([*_seed, 1]).permutation(len(values))
    kept = [values[i] for i in drawn if values[i] is not always][: (len(values) - (always is not None)) // 2]
    return [value for value in values if value is always or value in kept]


def public(path: str) -> Any:
    """Return triten's public object of that name.

    Raises NotBuilt if there is none.

    Example:
        >>> public("cuda.is_available").__name__
        'is_available'
    """
    import triten as tt

    found: Any = tt
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise NotBuilt(f"there is no tt.{path}") from None
    return found


def driver_function(name: str) -> Any:
    """Return a function of the driver. Raises NotBuilt if the driver has none of this name."""
    import triten as tt

    found = getattr(tt.library.driver(), name, None)
    if found is None:
        raise NotBuilt(f"the driver has no {name}()")
    return found


def agree(got: Any, expected: Any, what: str) -> None:
    """Raise AssertionError unless two arrays are equal, saying how many elements are not."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise AssertionError(f"{what}: shape {got.shape}, expected {expected.shape}")
    wrong = got != expected
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements are wrong, first {first}: "
            f"got {got.flat[first]}, expected {expected.flat[first]}"
        )


def require(condition: bool, what: str) -> None:
    """Raise AssertionError saying `what`, unless the condition holds."""
    if not condition:
        raise AssertionError(what)
