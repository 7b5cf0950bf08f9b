"""Short-time Fourier transforms (ATen/native/SpectralOps.cpp)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ...runtime.user_frame import levels_to_user
from ..core.mode_stack import sees_whole
from ..generated import functions as ops
from ..structured.meta.dims import wrap_dim

if TYPE_CHECKING:
    from ..tensor import Tensor

_UNIMPLEMENTED_REAL = (
    "stft requires the return_complex parameter be given for real inputs, and will further require that "
    "return_complex=True in a future PyTorch release."
)


def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Any,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """Compute `stft_center` without padding."""
    return stft_center(
        self, n_fft, hop_length, win_length, window, False, "constant", normalized, onesided, return_complex,
        align_to_window,
    )  # fmt: skip


def stft_center(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """Compute `torch.stft`: (frequencies, frames) of (samples), or of each signal of a batch."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    dtype = self._spec.dtype

    def refuse(why: str) -> RuntimeError:
        return RuntimeError(
            f"stft({self.dtype}{list(self.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={width}): {why}"
        )

    if window is not None and window.device != self.device:
        raise RuntimeError(
            f"stft input and window must be on the same device but got self on {self.device} and window on "
            f"{window.device}"
        )
    if center and align_to_window is not None:
        raise RuntimeError("stft only supports align_to_window for center = false.")
    rank = self.dim()
    if center and rank in (1, 2):
        images = self.view((1,) * (3 - rank) + tuple(self.shape))
        self = ops.pad(images, [n_fft // 2, n_fft // 2], pad_mode)
        self = self.view(tuple(self.shape)[-rank:])
    is_complex = dtype.is_complex or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(_UNIMPLEMENTED_REAL)
        return_complex = True
    if not (dtype.is_floating_point or dtype.is_complex):
        raise refuse("expected a tensor of floating point or complex values")
    if rank not in (1, 2):
        raise refuse("expected a 1D or 2D tensor")
    input = self.unsqueeze(0) if rank == 1 else self
    length = input.shape[1]
    if not 0 < n_fft <= length:
        raise refuse(f"expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise refuse(f"expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise refuse(f"expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and (window.dim() != 1 or window.shape[0] != width):
        raise refuse(
            f"expected a 1D window tensor of size equal to win_length={width}, but got window with size "
            f"{list(window.shape)}"
        )
    if width < n_fft:
        left = (n_fft - width) // 2
        if window is None:
            window = ops.ones(width, dtype=dtype, device=self.device)
        window = ops.constant_pad_nd(window, [left, n_fft - width - left])
        if align_to_window:
            input = ops.constant_pad_nd(input, [left, n_fft - width - left])
    frames = _frames(input, n_fft, hop)
    if window is not None:
        frames = frames * window
    mode = 1 if normalized else 0
    if frames.is_complex():
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        made = ops._fft_c2c(frames, [2], mode, True)
    else:
        made = ops._fft_r2c(frames, [2], mode, True if onesided is None else onesided)
    made.transpose_(1, 2)
    if self.dim() == 1:
        made.squeeze_(0)
    return made if return_complex else ops.view_as_real(made)


def _frames(input: Tensor, n_fft: int, hop: int) -> Tensor:
    """Return the overlapping frames of signals as a view, (signals, frames, n_fft)."""
    if not sees_whole():
        return input.unfold(1, n_fft, hop)
    count = 1 + (input.shape[1] - n_fft) // hop
    first, second = input.stride()
    return input.as_strided((input.shape[0], count, n_fft), (first, hop * second, second))


def istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Tensor:
    """Compute `torch.istft`: the least-squares estimate of the signal from overlapping frames."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length

    def refuse(why: str) -> RuntimeError:
        return RuntimeError(
            f"istft({self.dtype}{list(self.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={width}): {why}"
        )

    if not self.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    for dim in (-2, -3):  # of real and imaginary parts in addition to the input's dimensions
        wrap_dim(dim, self.dim() + 1)
    if self.numel() == 0:
        raise refuse("input tensor cannot be empty.")
    if self.dim() not in (2, 3):
        raise refuse(f"expected a tensor with 3 or 4 dimensions, but got {self.dim() + 1}")
    frequencies, n_frames = self.shape[-2:]
    whole = n_fft + hop * (n_frames - 1)
    onesided = frequencies != n_fft if onesided is None else onesided
    if onesided and n_fft // 2 + 1 != frequencies:
        raise refuse(
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
            f"onesided=True, but got {frequencies}"
        )
    if not onesided and n_fft != frequencies:
        raise refuse(
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when "
            f"onesided=False, but got {frequencies}"
        )
    if not 0 < hop <= width:
        raise refuse("expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise refuse("expected 0 < win_length <= n_fft")
    if window is not None and (window.dim() != 1 or window.shape[0] != width):
        raise refuse("Invalid window shape. window has to be 1D and length of `win_length`")
    if window is None:
        window = ops.ones(width, dtype=self.dtype.to_real(), device=self.device)
    if width != n_fft:
        left = (n_fft - width) // 2
        window = ops.constant_pad_nd(window, [left, n_fft - width - left])
    input = self.unsqueeze(0) if self.dim() == 2 else self
    input = input.transpose(1, 2)
    mode = 1 if normalized else 2
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = ops._fft_c2c(input, [2], mode, False)
    else:
        if window.is_complex():
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        if not onesided:
            input = input.narrow(2, 0, n_fft // 2 + 1)
        frames = ops._fft_c2r(input, [2], mode, n_fft)
    frames = frames * window.reshape(1, 1, n_fft)
    signal = _overlapped(frames, whole, n_fft, hop)
    envelope = _overlapped((window * window).expand(1, n_frames, n_fft), whole, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    lowest = envelope.abs().min()
    if bool(lowest < 1e-11):
        raise refuse(f"window overlap add min: {float(lowest) < 1e-11}")
    signal = signal / envelope
    if self.dim() == 2:
        signal = signal.squeeze(0)
    if end > whole:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings.",
            stacklevel=levels_to_user(),
        )
        signal = ops.constant_pad_nd(signal, [0, end - whole])
    return signal


def _overlapped(frames: Tensor, length: int, n_fft: int, hop: int) -> Tensor:
    """Add (batch, frames, n_fft) at their positions in (batch, length)."""
    batch = frames.shape[0]
    columns = frames.transpose(1, 2)
    return ops.col2im(columns, [1, length], [1, n_fft], [1, 1], [0, 0], [1, hop]).reshape(batch, length)
