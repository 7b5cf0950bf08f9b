"""Recurrent layers: one operator call for all layers and directions, over whole or packed sequences."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ...dispatch.generated import functions as _ops
from ...dispatch.layers.autocast.state import is_autocast_enabled
from .. import init
from ..utils.rnn import PackedSequence
from .module import Module
from .parameter import Parameter
from .recurrent_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""By a layer's mode, how many gates of the hidden size its weights have."""


def _check_arguments(
    input_size: Any,
    hidden_size: Any,
    num_layers: Any,
    bias: Any,
    batch_first: Any,
    dropout: Any,
    proj_size: Any,
) -> None:
    """Raise TypeError or ValueError, and warn, as PyTorch does."""
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if kind is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """Base class of recurrent layers: parameters and argument checks (`torch.nn.RNNBase`).

    Args:
        mode: ``LSTM``, ``GRU``, ``RNN_TANH`` or ``RNN_RELU``.
        input_size, hidden_size: I and H.
        num_layers: The number of stacked layers.
        bias: If True, each layer and direction has two biases. Default: True.
        batch_first: If True, inputs are (N, T, I) instead of (T, N, I). Default: False.
        dropout: the probability with which an output of any layer but the last is set to zero while training.
        bidirectional: If True, a second pass goes from the last step to the first, its output beside the other's.
            Default: False.
        proj_size: the width to which an LSTM's hidden state is projected; 0 for none.
        device, dtype: The device and dtype of the parameters.

    For layer k, and with ``_reverse`` for the second direction: ``weight_ih_l{k}``, ``weight_hh_l{k}``,
    ``bias_ih_l{k}``, ``bias_hh_l{k}``, ``weight_hr_l{k}``. All begin uniform within 1 / sqrt(hidden_size).

    Raises TypeError and ValueError for arguments that no layer has.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.RNNBase("GRU", 4, 3)
        >>> [name for name, _ in layer.named_parameters()]
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    _run: ClassVar[dict[str, Callable[..., Any]]] = {
        "LSTM": _ops.lstm,
        "GRU": _ops.gru,
        "RNN_TANH": _ops.rnn_tanh,
        "RNN_RELU": _ops.rnn_relu,
    }

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_arguments(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        width, gates = proj_size or hidden_size, GATES[mode] * hidden_size
        self._all_weights: list[list[str]] = []
        directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            for suffix in directions:
                sizes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, width * len(directions) if layer else input_size),
                    "weight_hh": (gates, width),
                }
                if bias:
                    sizes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                names = {f"{name}_l{layer}{suffix}": size for name, size in sizes.items()}
                for name, size in names.items():
                    setattr(self, name, Parameter(_ops.empty(size, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters uniformly in ±1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        """The weights in the order of `_flat_weights_names`. Assigning a list assigns its weights to the layer."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    def flatten_parameters(self) -> None:
        """Do nothing: parameters need not be contiguous in memory, as cuDNN requires."""

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise ValueError for an input of another dtype than the weights', RuntimeError for one of other sizes."""
        dtype = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype is not dtype and not is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the hidden state."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise RuntimeError for a hidden state of other sizes."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise ValueError or RuntimeError for an input and a state that do not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Permute the sequences of a hidden state; return it unchanged if `permutation` is None."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _given_state(self, hx: Any, is_batched: bool) -> Any:
        """Return the caller's state with a batch dimension.

        Raises:
            RuntimeError: The state has another rank.
        """
        rank = 3 if is_batched else 2
        if hx.dim() != rank:
            kind = "batched" if is_batched else "unbatched"
            raise RuntimeError(
                f"For {kind} {rank}-D input, hx should also be {rank}-D but got {hx.dim()}-D tensor"
            )
        return hx if is_batched else hx.unsqueeze(1)

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        sizes = self.get_expected_hidden_size(input, batch_sizes)
        return _ops.zeros(sizes, dtype=input.dtype, device=input.device)

    def _without_batch(self, hidden: Any) -> Any:
        return hidden.squeeze(1)

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Compute the last layer's output at every step, and the final states.

        Args:
            input: (T, N, I), (N, T, I) if `batch_first`, (T, I) for one sequence, or a `PackedSequence`.
            hx: The initial state (layers * directions, N, H), without N for one sequence. An LSTM takes a pair of
                them. Default: zeros.

        Raises:
            ValueError: The input does not have two or three dimensions.
        """
        packed: PackedSequence | None = None
        batch_sizes: Tensor | None = None
        order: Tensor | None = None
        is_batched, batch_dim = True, 0 if self.batch_first else 1
        if isinstance(input, PackedSequence):
            packed = input
            input, batch_sizes, order, _ = packed
        else:
            if input.dim() not in (2, 3):
                name, tensor = self._get_name(), " tensor" if self.mode.startswith("RNN") else ""
                raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
            is_batched = input.dim() == 3
            if not is_batched:
                input = input.unsqueeze(batch_dim)
            if hx is not None:
                hx = self._given_state(hx, is_batched)
        hx = self._first_state(input, batch_sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, batch_sizes)
        weights = self._flat_weights
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        run = self._run[self.mode]
        if packed is not None:
            output, *states = run(input, batch_sizes, hx, weights, *options)
        else:
            output, *states = run(input, hx, weights, *options, self.batch_first)
        hidden = states[0] if len(states) == 1 else tuple(states)
        if packed is not None:
            made = PackedSequence(output, batch_sizes, packed.sorted_indices, packed.unsorted_indices)
            return made, self.permute_hidden(hidden, packed.unsorted_indices)
        if not is_batched:
            return output.squeeze(batch_dim), self._without_batch(hidden)
        return output, hidden

    def extra_repr(self) -> str:
        """Return the sizes, and the options that differ from their defaults."""
        defaults: dict[str, Any] = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        non_defaults = [
            f"{name}={getattr(self, name)}"
            for name, value in defaults.items()
            if getattr(self, name) != value
        ]
        return ", ".join([str(self.input_size), str(self.hidden_size), *non_defaults])


class RNN(RNNBase):
    """Elman recurrent network (`torch.nn.RNN`; Elman, 1990).

        h' = tanh(w_ih @ x + b_ih + w_hh @ h + b_hh)

    With `nonlinearity="relu"`, ReLU takes the place of tanh.

    Args:
        input_size: The size of an input element.
        hidden_size: The size of the hidden state.
        num_layers: The number of stacked layers; each takes the output of the previous one. Default: 1.
        nonlinearity: `"tanh"` or `"relu"`, by position the fourth argument. Default: `"tanh"`.
        bias: If True, each layer and direction has the two biases b_ih and b_hh. Default: True.
        batch_first: If True, inputs and outputs are (N, T, *) instead of (T, N, *). Default: False.
        dropout: The probability of zero for outputs of all layers but the last, in training. Default: 0.
        bidirectional: If True, a second pass runs from the last element to the first; outputs are concatenated.
            Default: False.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (T, N, input_size), (N, T, input_size) with `batch_first`, (T, input_size), or a `PackedSequence`.
        hx: The initial hidden states, (D * num_layers, N, hidden_size) with D directions. Default: zeros.
        output: (T, N, D * hidden_size), or with N first. It has the last layer's states of all elements; the final
            states follow.

    Attributes:
        weight_ih_l[k]: The weights of layer k for its input; those of the gates are stacked along dimension 0.
        weight_hh_l[k]: The weights of layer k for its hidden state.
        bias_ih_l[k], bias_hh_l[k]: The biases of layer k.

    All parameters are initialized uniformly within ±1 / sqrt(hidden_size). Names of the second direction end in
    `_reverse`.

    Raises:
        ValueError: The nonlinearity is unknown, or `proj_size` is given.

    Example:
        >>> import triten as tt
        >>> output, hidden = tt.nn.RNN(10, 20, 2)(tt.randn(5, 3, 10))
        >>> output.shape, hidden.shape
        (triten.Size([5, 3, 20]), triten.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self.nonlinearity not in modes:
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(modes[self.nonlinearity], *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units (`torch.nn.GRU`; Cho et al., 2014).

        r = sigmoid(w_ir @ x + b_ir + w_hr @ h + b_hr);
        z = sigmoid(w_iz @ x + b_iz + w_hz @ h + b_hz);
        n = tanh(w_in @ x + b_in + r * (w_hn @ h + b_hn));
        h' = (1 - z) * n + z * h

    The reset gate r multiplies the projected hidden state, as in cuDNN, rather than the hidden state.

    Args:
        input_size: The size of an input element.
        hidden_size: The size of the hidden state.
        num_layers: The number of stacked layers; each takes the output of the previous one. Default: 1.
        bias: If True, each layer and direction has the two biases b_ih and b_hh. Default: True.
        batch_first: If True, inputs and outputs are (N, T, *) instead of (T, N, *). Default: False.
        dropout: The probability of zero for outputs of all layers but the last, in training. Default: 0.
        bidirectional: If True, a second pass runs from the last element to the first; outputs are concatenated.
            Default: False.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (T, N, input_size), (N, T, input_size) with `batch_first`, (T, input_size), or a `PackedSequence`.
        hx: The initial hidden states, (D * num_layers, N, hidden_size) with D directions. Default: zeros.
        output: (T, N, D * hidden_size), or with N first. It has the last layer's states of all elements; the final
            states follow.

    Attributes:
        weight_ih_l[k]: The weights of layer k for its input; those of the gates are stacked along dimension 0.
        weight_hh_l[k]: The weights of layer k for its hidden state.
        bias_ih_l[k], bias_hh_l[k]: The biases of layer k.

    All parameters are initialized uniformly within ±1 / sqrt(hidden_size). Names of the second direction end in
    `_reverse`.

    Raises:
        ValueError: `proj_size` is given.

    Example:
        >>> import triten as tt
        >>> output, hidden = tt.nn.GRU(10, 20, bidirectional=True)(tt.randn(5, 3, 10))
        >>> output.shape, hidden.shape
        (triten.Size([5, 3, 40]), triten.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory (`torch.nn.LSTM`; Hochreiter and Schmidhuber, 1997; with projections Sak et al., 2014).

        i = sigmoid(w_ii @ x + b_ii + w_hi @ h + b_hi);
        f = sigmoid(w_if @ x + b_if + w_hf @ h + b_hf);
        g = tanh(w_ig @ x + b_ig + w_hg @ h + b_hg);
        o = sigmoid(w_io @ x + b_io + w_ho @ h + b_ho);
        c' = f * c + i * g;
        h' = o * tanh(c')

    The state is the pair of the hidden state h and the cell state c.

    Args:
        input_size: The size of an input element.
        hidden_size: The size of the hidden and the cell state.
        num_layers: The number of stacked layers; each takes the output of the previous one. Default: 1.
        bias: If True, each layer and direction has the two biases b_ih and b_hh. Default: True.
        batch_first: If True, inputs and outputs are (N, T, *) instead of (T, N, *). Default: False.
        dropout: The probability of zero for outputs of all layers but the last, in training. Default: 0.
        bidirectional: If True, a second pass runs from the last element to the first; outputs are concatenated.
            Default: False.
        proj_size: The size to which the hidden state is projected by a learnable matrix; 0 for none. Default: 0.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (T, N, input_size), (N, T, input_size) with `batch_first`, (T, input_size), or a `PackedSequence`.
        hx: The pair of initial states h and c, of shapes (D * num_layers, N, proj_size or hidden_size) and (D *
            num_layers, N, hidden_size). Default: zeros.
        output: (T, N, D * (proj_size or hidden_size)), or with N first. It has the last layer's states of all
            elements; the final states follow.

    Attributes:
        weight_ih_l[k]: The weights of layer k for its input; those of the gates are stacked along dimension 0.
        weight_hh_l[k]: The weights of layer k for its hidden state.
        bias_ih_l[k], bias_hh_l[k]: The biases of layer k.

    All parameters are initialized uniformly within ±1 / sqrt(hidden_size). Names of the second direction end in
    `_reverse`.

    Raises:
        ValueError: `proj_size` is negative, or not below `hidden_size`.

    Example:
        >>> import triten as tt
        >>> output, (hidden, cell) = tt.nn.LSTM(10, 20, proj_size=5, batch_first=True)(tt.randn(3, 7, 10))
        >>> output.shape, hidden.shape, cell.shape
        (triten.Size([3, 7, 5]), triten.Size([1, 3, 5]), triten.Size([1, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the cell state."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise ValueError or RuntimeError for an input and a pair of states that do not fit the layer."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Permute the sequences of a pair of states; return it unchanged if `permutation` is None."""
        if permutation is None:
            return hx
        return tuple(state.index_select(1, permutation) for state in hx)

    def _given_state(self, hx: Any, is_batched: bool) -> Any:
        rank = 3 if is_batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            kind = "batched" if is_batched else "unbatched"
            raise RuntimeError(
                f"For {kind} {rank}-D input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, "
                f"{hx[1].dim()}-D) tensors"
            )
        return tuple(hx) if is_batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        sizes = self.get_expected_cell_size(input, batch_sizes)
        cell = _ops.zeros(sizes, dtype=input.dtype, device=input.device)
        return super()._first_state(input, batch_sizes), cell

    def _without_batch(self, hidden: Any) -> Any:
        return tuple(state.squeeze(1) for state in hidden)
