"""`FakeTensor`, for programs that ask whether a tensor is one (`torch._subclasses.fake_tensor`)."""

from typing import Any, NoReturn

from ..dispatch.tensor import Tensor

__all__ = ["FakeTensor", "active_fake_mode", "detect_fake_mode", "is_fake"]


class FakeTensor(Tensor):
    """A tensor without values that says it is on a device; none can be made. See the device ``meta``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("FakeTensor: there are none; tensors on the device meta have no values either")


def is_fake(x: object) -> bool:
    """False: no tensor is a `FakeTensor`."""
    return isinstance(x, FakeTensor)


def active_fake_mode() -> None:
    """Return None: no mode makes fake tensors (`torch._guards.active_fake_mode`)."""


def detect_fake_mode(inputs: Any = None) -> None:
    """Return None: no tensor is a `FakeTensor` (`torch._guards.detect_fake_mode`)."""
