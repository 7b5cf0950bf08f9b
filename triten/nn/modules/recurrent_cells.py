"""Recurrent cells: one time step of a recurrent layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """The parameters of a cell (`torch.nn.RNNCellBase`): `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`.

    Args:
        input_size, hidden_size: I and H.
        bias: If True, the cell has two biases.
        num_chunks: The number of gates; each has H rows of the weights.
        device, dtype: The device and dtype of the parameters.

    All begin uniform within 1 / sqrt(hidden_size).

    Example:
        >>> import triten as tt
        >>> tt.nn.RNNCellBase(4, 3, True, 2).weight_ih.shape
        triten.Size([6, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_ops.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_ops.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(_ops.empty((rows,), device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters uniformly in ±1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check_rank(self, name: str, tensor: Tensor) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected {name} to be 1D or 2D, got {tensor.dim()}D instead"
            )

    def _zeros(self, input: Tensor) -> Tensor:
        return _ops.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)

    def extra_repr(self) -> str:
        """Sizes, and what is not as usual."""
        parts = [str(self.input_size), str(self.hidden_size)]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)


class _OneState(RNNCellBase):
    """A cell with a hidden state alone."""

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Compute the next hidden state: (N, H) from (N, I), or (H,) from (I,). `hx` defaults to zeros."""
        self._check_rank("input", input)
        if hx is not None:
            self._check_rank("hidden", hx)
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else hx.unsqueeze(0)
        made = self._step(input, self._zeros(input) if hx is None else hx)
        return made if is_batched else made.squeeze(0)


class RNNCell(_OneState):
    """h' = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu (`torch.nn.RNNCell`).

    Args:
        input_size, hidden_size, bias, device, dtype: as `RNNCellBase` has them.
        nonlinearity: ``tanh`` or ``relu``; another one is refused with RuntimeError at the first call.

    Example:
        >>> import triten as tt
        >>> tt.nn.RNNCell(10, 20)(tt.randn(3, 10)).shape
        triten.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        if self.nonlinearity == "tanh":
            return _ops.rnn_tanh_cell(input, hx, *self._weights())
        if self.nonlinearity == "relu":
            return _ops.rnn_relu_cell(input, hx, *self._weights())
        raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")


class GRUCell(_OneState):
    """Gated recurrent unit (GRU) cell (`torch.nn.GRUCell`).

    Args: as `RNNCellBase` has them, but for `num_chunks`.

    Example:
        >>> import triten as tt
        >>> tt.nn.GRUCell(10, 20)(tt.randn(10)).shape
        triten.Size([20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        return _ops.gru_cell(input, hx, *self._weights())


class LSTMCell(RNNCellBase):
    """Long short-term memory (LSTM) cell (`torch.nn.LSTMCell`).

    Args: as `RNNCellBase` has them, but for `num_chunks`.

    Example:
        >>> import triten as tt
        >>> hidden, cell = tt.nn.LSTMCell(10, 20)(tt.randn(3, 10))
        >>> hidden.shape, cell.shape
        (triten.Size([3, 20]), triten.Size([3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Compute the next hidden and cell states. The pair `hx` defaults to zeros."""
        self._check_rank("input", input)
        if hx is not None:
            for index, state in enumerate(hx):
                self._check_rank(f"hx[{index}]", state)
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        if hx is None:
            zeros = self._zeros(input)
            hx = (zeros, zeros)
        hidden, cell = _ops.lstm_cell(input, hx, *self._weights())
        return (hidden, cell) if is_batched else (hidden.squeeze(0), cell.squeeze(0))
