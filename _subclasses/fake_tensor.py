"""`FakeTensor`, for programs that ask whether a tensor is one (`torch._subclasses.fake_tensor`)."""

from typing import Any, NoReturn

from ..dispatch.tensor import Tensor

__all__ = ["FakeTensor", "is_fake"]


class FakeTensor(Tensor):
    """A tensor without values that says it is on a device; none can be made. See the device ``meta``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("FakeTensor: there are none; tensors on the device meta have no values either")


def is_fake(x: object) -> bool:
    """False: no tensor is a `FakeTensor`."""
    return isinstance(x, FakeTensor)
