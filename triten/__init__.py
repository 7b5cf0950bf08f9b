"""triten: a GPU-first tensor runtime for Python without PyTorch.

``import triten as tt`` and use PyTorch's names: `tt.tensor`, `tt.add`, `Tensor.backward`,
`tt.nn.functional.conv2d`. On NVIDIA GPUs kernels are Triton programs over CuPy's memory; elsewhere NumPy
computes, and ``TRITEN_CUDA=interpret`` runs the very same Triton programs in Triton's interpreter.

Example:
    >>> import triten as tt
    >>> x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
"""

import sys as _sys
import typing as _typing

if "triten.dispatch.codegen" not in _sys.orig_argv:
    from . import _C as _C
    from ._public import *  # noqa: F403 - the public namespace is declared in _public.py
    from ._public import __config__ as __config__
    from ._public import __future__ as __future__
    from ._public import _dynamo as _dynamo

    # A `__getattr__` for a version that is computed late would slow down every `tt.name`: CPython caches none of them.
    from .version import __version__ as __version__

    if not _typing.TYPE_CHECKING:
        from ._public import __all__ as _names

        __all__ = [*_names, "__version__"]
    from .utils import _register_device_module as _register_device_module
