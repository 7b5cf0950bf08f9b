"""`tt.backends`: flags of the libraries that PyTorch computes with, for those that mean something here.

``cuda`` says which implementations of attention are permitted (`torch.backends.cuda.enable_flash_sdp` and so on), for
the process; `nn.attention.sdpa_kernel` does it for a block. The state behind is `runtime/attention_backends.py`.

``cuda.matmul`` and ``cudnn.conv`` say how float32 products and convolutions are multiplied on CUDA
(`torch.backends.cuda.matmul`, `torch.backends.cudnn`); the state behind is `runtime/float32_precision.py`.

``opt_einsum`` says whether `tt.einsum` asks opt_einsum for the order of contractions; ``quantized`` has the names of
engines.

``cpu`` says what the processor can do; ``cusparselt``, ``mkl``, ``mkldnn``, ``mps``, ``nnpack`` and ``openmp`` say that
they are not available.

`disable_global_flags` (`flags.py`) forbids assignments to flags.
"""

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_SUBMODULES = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
]

if TYPE_CHECKING:
    from . import cpu as cpu
    from . import cuda as cuda
    from . import cudnn as cudnn
    from . import cusparselt as cusparselt
    from . import mkl as mkl
    from . import mkldnn as mkldnn
    from . import mps as mps
    from . import nnpack as nnpack
    from . import openmp as openmp
    from . import opt_einsum as opt_einsum
    from . import quantized as quantized
    from .flags import disable_global_flags as disable_global_flags
    from .flags import flags_frozen as flags_frozen
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {".flags": "disable_global_flags flags_frozen"}, _SUBMODULES
    )
