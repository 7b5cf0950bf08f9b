"""`tt.backends`: flags of the libraries that PyTorch computes with, for those that mean something here.

``cuda`` says which implementations of attention are permitted (`torch.backends.cuda.enable_flash_sdp` and so on), for
the process; `nn.attention.sdpa_kernel` does it for a block. The state behind is `runtime/attention_backends.py`.

``cuda.matmul`` and ``cudnn.conv`` say how float32 products and convolutions are multiplied on CUDA
(`torch.backends.cuda.matmul`, `torch.backends.cudnn`); the state behind is `runtime/float32_precision.py`.

``cpu`` says what the processor can do; ``mkl``, ``mkldnn``, ``mps`` and ``openmp`` say that they are not available.
"""

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from . import cpu as cpu
    from . import cuda as cuda
    from . import cudnn as cudnn
    from . import mkl as mkl
    from . import mkldnn as mkldnn
    from . import mps as mps
    from . import openmp as openmp

    __all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {}, ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
    )
