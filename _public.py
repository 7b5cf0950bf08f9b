"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import (
    accelerator,
    amp,
    autograd,
    backends,
    cuda,
    fft,
    func,
    functional,
    library,
    linalg,
    nn,
    optim,
    overrides,
    profiler,
    return_types,
    serialization,
    special,
    utils,
    version,
)
from .dispatch import load as _load
from .dispatch.autograd.anomaly import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from .dispatch.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .dispatch.core.op_overload import Ops as _Ops
from .dispatch.core.tags import Tag
from .dispatch.generated import functions as _functions
from .dispatch.generated.functions import *
from .dispatch.generated.functions import segment_reduce as _segment_reduce
from .dispatch.iterator.broadcast import broadcast_shapes
from .dispatch.iterator.loops import cpu_kernel
from .dispatch.iterator.parallel import get_num_threads, set_num_threads
from .dispatch.iterator.tensor_iterator import TensorIterator, TensorIteratorConfig
from .dispatch.iterator.type_promotion import can_cast, promote_types, result_type
from .dispatch.layers.autocast.mode import autocast
from .dispatch.layers.autocast.state import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .dispatch.layers.explain.call import explain
from .dispatch.layers.overrides.device_context import get_default_device
from .dispatch.layers.python_key import TensorDispatchMode
from .dispatch.layers.vmap import vmap
from .dispatch.methods.interchange import from_dlpack, frombuffer, to_dlpack
from .dispatch.methods.names import align_tensors
from .dispatch.methods.print_options import set_printoptions
from .dispatch.methods.tensor_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    set_default_tensor_type,
)
from .dispatch.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .dispatch.structured.kernel_packages import KernelPackage as _KernelPackage
from .dispatch.structured.stub import register_loader as _register_loader
from .dispatch.tensor import Tensor
from .dispatch.tensor_data import as_tensor, asarray, from_numpy, tensor
from .runtime import cuda as _cuda_runtime  # so that a program may import Triton next
from .runtime.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .runtime.device import device, set_default_device
from .runtime.dispatch_key import DispatchKey
from .runtime.dispatch_key_set import DispatchKeySet
from .runtime.errors import (
    AcceleratorError,
    OutOfMemoryError,
    _check,
    _check_index,
    _check_not_implemented,
    _check_type,
    _check_value,
    _check_with,
)
from .runtime.float32_precision import get_float32_matmul_precision, set_float32_matmul_precision
from .runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled
from .runtime.layout import layout, sparse_coo, sparse_csr, strided
from .runtime.lazy_import import LazyModule as _LazyModule
from .runtime.lazy_import import namespace_package as _namespace_package
from .runtime.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from .runtime.scalar_type import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .runtime.scalar_type import bool_ as bool
from .runtime.size import Size
from .runtime.storage import Storage as UntypedStorage
from .serialization import load, save
from .version import __version__

# isort: split
# Written by hand over operators of the same names, and so imported after them.
from .dispatch.functions.low_rank import lu, pca_lowrank, svd_lowrank
from .dispatch.functions.queries import *
from .dispatch.functions.variadic import *

half, double, short, long = float16, float64, int16, int64
float, int, cfloat, cdouble = float32, int32, complex64, complex128
newaxis = None
ops = _Ops()

# The first stands above the root, which does not import it; the second is for tests alone.
perf = _LazyModule(f"{__package__}.perf")
testing = _LazyModule(f"{__package__}.testing")
if _TYPE_CHECKING:
    from . import random, signal, triton_kernels, types
else:
    random = _namespace_package(f"{__package__}.random")
    signal = _namespace_package(f"{__package__}.signal")
    types = _namespace_package(f"{__package__}.types")
    triton_kernels = _LazyModule(f"{__package__}.triton_kernels")


def _choose_cuda_driver() -> None:
    from .runtime.cuda.driver import driver

    driver()


_load()
_register_loader("cpu", _KernelPackage(f"{__package__}.cpu_fallback", "cpu").load)
_register_loader("cuda", _KernelPackage(f"{__package__}.triton_kernels", "cuda").load, _choose_cuda_driver)

# Python reaches derivatives through `ops.aten`, as in PyTorch; one of them its operator database has by name.
_DERIVATIVES = {name for name in _functions.__all__ if name.endswith("_backward")} - {
    "native_dropout_backward"
}

__all__ = sorted(
    {
        *_functions.__all__,
        *(name for name in globals() if not name.startswith("_") or name.startswith("_check")),
        "__version__",
        "_segment_reduce",
    }
    - _DERIVATIVES
)
