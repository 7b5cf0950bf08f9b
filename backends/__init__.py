"""`tt.backends`: flags of the libraries that PyTorch computes with, for those that mean something here.

``cuda`` says which implementations of attention are permitted (`torch.backends.cuda.enable_flash_sdp` and so on), for
the process; `nn.attention.sdpa_kernel` does it for a block. The state behind is `runtime/attention_backends.py`.

``cuda.matmul`` and ``cudnn.conv`` say how float32 products and convolutions are multiplied on CUDA
(`torch.backends.cuda.matmul`, `torch.backends.cudnn`); the state behind is `runtime/float32_precision.py`.

``mkl``, ``mkldnn``, ``mps`` and ``openmp`` say that they are not available.
"""

from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
