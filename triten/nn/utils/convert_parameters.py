"""Parameters as one vector, and back (`torch.nn.utils.convert_parameters`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from ...runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_devices(parameters: list[Tensor]) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate all parameters into one vector (`torch.nn.utils.parameters_to_vector`).

    Raises:
        TypeError: The parameters are on several devices.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.parameters_to_vector([tt.ones(2, 1), tt.zeros(1)])
        tensor([1., 1., 0.])
    """
    parameters = list(parameters)
    _check_devices(parameters)
    return _ops.cat([parameter.reshape((-1,)) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters be parts of a vector (`torch.nn.utils.vector_to_parameters`).

    Raises TypeError for what is no tensor, and for parameters on several devices.

    Example:
        >>> import triten as tt
        >>> weight = tt.zeros(2, 1)
        >>> tt.nn.utils.vector_to_parameters(tt.tensor([1.0, 2.0]), [weight])
        >>> weight.tolist()
        [[1.0], [2.0]]
    """
    if not isinstance(vec, TensorImpl):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    parameters = list(parameters)
    _check_devices(parameters)
    begin = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[begin : begin + count].view_as(parameter).data
        begin += count
