"""cuFFT through `cupy.fft`, over triten's memory and streams."""

from __future__ import annotations

import math

import cupy

from ..fourier import FourierTransform


def cufft_transform(dst: int, src: int, transform: FourierTransform, device: int, stream: int) -> None:
    """Enqueue the transform of contiguous memory at `src` to `dst`.

    Raises RuntimeError if cuFFT is not installed.
    """
    with cupy.cuda.ExternalStream(stream, device):
        data = _array(src, transform.sizes, transform.dtype, device)
        target = _array(dst, transform.out_sizes, transform.out_dtype, device)
        try:
            made = transform.compute(cupy.fft, data)
        except ImportError as error:
            raise RuntimeError(
                "Fourier transforms on CUDA need cuFFT, which comes with the CUDA toolkit: "
                "pip install 'cupy-cuda13x[ctk]'"
            ) from error
        cupy.copyto(target, made)


def _array(address: int, sizes: tuple[int, ...], dtype: str, device: int) -> cupy.ndarray:
    nbytes = math.prod(sizes) * cupy.dtype(dtype).itemsize
    memory = cupy.cuda.UnownedMemory(address, nbytes, None, device)
    return cupy.ndarray(sizes, dtype, cupy.cuda.MemoryPointer(memory, 0))
