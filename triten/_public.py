"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

import typing as _typing
from importlib import import_module as _import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

if _typing.TYPE_CHECKING:
    # Names that are also operators are imported as functions of the module: mypy takes the first of two definitions.
    from .dispatch.functions.low_rank import *
    from .dispatch.functions.queries import *
    from .dispatch.functions.sparse import *
    from .dispatch.functions.sparse_compressed import *
    from .dispatch.functions.variadic import *

from . import accelerator as accelerator
from . import amp as amp
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cuda as cuda
from . import fft as fft
from . import func as func
from . import functional as functional
from . import library as library
from . import linalg as linalg
from . import nn as nn
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from . import return_types as return_types
from . import serialization as serialization
from . import special as special
from . import utils as utils
from . import version as version
from .accelerator import Event as Event
from .accelerator import Stream as Stream
from .accelerator import get_device_module as get_device_module
from .amp.grad_scaler import GradScaler as GradScaler
from .compiler import compile as compile
from .dispatch import load as _load
from .dispatch.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .dispatch.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from .dispatch.autograd.anomaly import set_anomaly_enabled as set_anomaly_enabled
from .dispatch.autograd.grad_mode import enable_grad as enable_grad
from .dispatch.autograd.grad_mode import inference_mode as inference_mode
from .dispatch.autograd.grad_mode import no_grad as no_grad
from .dispatch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from .dispatch.core.op_overload import Ops as _Ops
from .dispatch.core.tags import Tag as Tag
from .dispatch.generated import functions as _functions
from .dispatch.generated.functions import *  # type: ignore[assignment, no-redef]
from .dispatch.generated.functions import hspmm as hsmm
from .dispatch.generated.functions import mm as dsmm
from .dispatch.generated.functions import mm as spmm
from .dispatch.generated.functions import segment_reduce as _segment_reduce
from .dispatch.generated.functions import sspaddmm as saddmm
from .dispatch.iterator.broadcast import broadcast_shapes as broadcast_shapes
from .dispatch.iterator.loops import cpu_kernel as cpu_kernel
from .dispatch.iterator.tensor_iterator import TensorIterator as TensorIterator
from .dispatch.iterator.tensor_iterator import TensorIteratorConfig as TensorIteratorConfig
from .dispatch.iterator.type_promotion import can_cast as can_cast
from .dispatch.iterator.type_promotion import promote_types as promote_types
from .dispatch.iterator.type_promotion import result_type as result_type
from .dispatch.layers.autocast.mode import autocast as autocast
from .dispatch.layers.autocast.state import autocast_decrement_nesting as autocast_decrement_nesting
from .dispatch.layers.autocast.state import autocast_increment_nesting as autocast_increment_nesting
from .dispatch.layers.autocast.state import clear_autocast_cache as clear_autocast_cache
from .dispatch.layers.autocast.state import get_autocast_dtype as get_autocast_dtype
from .dispatch.layers.autocast.state import is_autocast_available as is_autocast_available
from .dispatch.layers.autocast.state import is_autocast_cache_enabled as is_autocast_cache_enabled
from .dispatch.layers.autocast.state import is_autocast_enabled as is_autocast_enabled
from .dispatch.layers.autocast.state import set_autocast_cache_enabled as set_autocast_cache_enabled
from .dispatch.layers.autocast.state import set_autocast_dtype as set_autocast_dtype
from .dispatch.layers.autocast.state import set_autocast_enabled as set_autocast_enabled
from .dispatch.layers.explain.call import explain as explain
from .dispatch.layers.overrides.device_context import get_default_device as get_default_device
from .dispatch.layers.python_key import TensorDispatchMode as TensorDispatchMode
from .dispatch.layers.vmap import vmap as vmap
from .dispatch.methods.interchange import from_dlpack as from_dlpack
from .dispatch.methods.interchange import frombuffer as frombuffer
from .dispatch.methods.interchange import to_dlpack as to_dlpack
from .dispatch.methods.names import align_tensors as align_tensors
from .dispatch.methods.print_options import set_printoptions as set_printoptions
from .dispatch.methods.tensor_types import BFloat16Tensor as BFloat16Tensor
from .dispatch.methods.tensor_types import BoolTensor as BoolTensor
from .dispatch.methods.tensor_types import ByteTensor as ByteTensor
from .dispatch.methods.tensor_types import CharTensor as CharTensor
from .dispatch.methods.tensor_types import DoubleTensor as DoubleTensor
from .dispatch.methods.tensor_types import FloatTensor as FloatTensor
from .dispatch.methods.tensor_types import HalfTensor as HalfTensor
from .dispatch.methods.tensor_types import IntTensor as IntTensor
from .dispatch.methods.tensor_types import LongTensor as LongTensor
from .dispatch.methods.tensor_types import ShortTensor as ShortTensor
from .dispatch.methods.tensor_types import set_default_tensor_type as set_default_tensor_type
from .dispatch.methods.untyped_storage import UntypedStorage as UntypedStorage
from .dispatch.random import Generator as Generator
from .dispatch.random import default_generator as default_generator
from .dispatch.random import get_rng_state as get_rng_state
from .dispatch.random import initial_seed as initial_seed
from .dispatch.random import manual_seed as manual_seed
from .dispatch.random import seed as seed
from .dispatch.random import set_rng_state as set_rng_state
from .dispatch.random import thread_safe_generator as thread_safe_generator
from .dispatch.structured.kernel_packages import KernelPackage as _KernelPackage
from .dispatch.structured.stub import register_loader as _register_loader
from .dispatch.tensor import Tensor as Tensor
from .dispatch.tensor_data import as_tensor as as_tensor
from .dispatch.tensor_data import asarray as asarray
from .dispatch.tensor_data import from_numpy as from_numpy
from .dispatch.tensor_data import tensor as tensor
from .runtime import cuda as _cuda_runtime  # so that a program may import Triton next
from .runtime.determinism import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .runtime.determinism import get_deterministic_debug_mode as get_deterministic_debug_mode
from .runtime.determinism import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from .runtime.determinism import set_deterministic_debug_mode as set_deterministic_debug_mode
from .runtime.determinism import use_deterministic_algorithms as use_deterministic_algorithms
from .runtime.device import device as device
from .runtime.device import set_default_device as set_default_device
from .runtime.dispatch_key import DispatchKey as DispatchKey
from .runtime.dispatch_key_set import DispatchKeySet as DispatchKeySet
from .runtime.errors import AcceleratorError as AcceleratorError
from .runtime.errors import OutOfMemoryError as OutOfMemoryError
from .runtime.errors import _check as _check
from .runtime.errors import _check_index as _check_index
from .runtime.errors import _check_not_implemented as _check_not_implemented
from .runtime.errors import _check_type as _check_type
from .runtime.errors import _check_value as _check_value
from .runtime.errors import _check_with as _check_with
from .runtime.float32_precision import get_float32_matmul_precision as get_float32_matmul_precision
from .runtime.float32_precision import set_float32_matmul_precision as set_float32_matmul_precision
from .runtime.grad_mode import is_grad_enabled as is_grad_enabled
from .runtime.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from .runtime.layout import jagged as jagged
from .runtime.layout import layout as layout
from .runtime.layout import sparse_bsc as sparse_bsc
from .runtime.layout import sparse_bsr as sparse_bsr
from .runtime.layout import sparse_coo as sparse_coo
from .runtime.layout import sparse_csc as sparse_csc
from .runtime.layout import sparse_csr as sparse_csr
from .runtime.layout import strided as strided
from .runtime.lazy_import import CallableLazyModule as _CallableLazyModule
from .runtime.lazy_import import ConstantLazyModule as _ConstantLazyModule
from .runtime.lazy_import import LazyModule as _LazyModule
from .runtime.lazy_import import when_imported as _when_imported
from .runtime.memory_format import channels_last as channels_last
from .runtime.memory_format import channels_last_3d as channels_last_3d
from .runtime.memory_format import contiguous_format as contiguous_format
from .runtime.memory_format import contiguous_format as legacy_contiguous_format
from .runtime.memory_format import memory_format as memory_format
from .runtime.memory_format import preserve_format as preserve_format
from .runtime.parallel import get_num_threads as get_num_threads
from .runtime.parallel import set_num_threads as set_num_threads
from .runtime.qscheme import per_channel_affine as per_channel_affine
from .runtime.qscheme import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from .runtime.qscheme import per_channel_symmetric as per_channel_symmetric
from .runtime.qscheme import per_tensor_affine as per_tensor_affine
from .runtime.qscheme import per_tensor_symmetric as per_tensor_symmetric
from .runtime.qscheme import qscheme as qscheme
from .runtime.scalar_type import bfloat16 as bfloat16
from .runtime.scalar_type import bool_ as _bool
from .runtime.scalar_type import complex32 as complex32
from .runtime.scalar_type import complex64 as complex64
from .runtime.scalar_type import complex128 as complex128
from .runtime.scalar_type import dtype as dtype
from .runtime.scalar_type import finfo as finfo
from .runtime.scalar_type import float4_e2m1fn_x2 as float4_e2m1fn_x2
from .runtime.scalar_type import float8_e4m3fn as float8_e4m3fn
from .runtime.scalar_type import float8_e4m3fnuz as float8_e4m3fnuz
from .runtime.scalar_type import float8_e5m2 as float8_e5m2
from .runtime.scalar_type import float8_e5m2fnuz as float8_e5m2fnuz
from .runtime.scalar_type import float8_e8m0fnu as float8_e8m0fnu
from .runtime.scalar_type import float16 as float16
from .runtime.scalar_type import float32 as float32
from .runtime.scalar_type import float64 as float64
from .runtime.scalar_type import get_default_dtype as get_default_dtype
from .runtime.scalar_type import iinfo as iinfo
from .runtime.scalar_type import int1 as int1
from .runtime.scalar_type import int2 as int2
from .runtime.scalar_type import int3 as int3
from .runtime.scalar_type import int4 as int4
from .runtime.scalar_type import int5 as int5
from .runtime.scalar_type import int6 as int6
from .runtime.scalar_type import int7 as int7
from .runtime.scalar_type import int8 as int8
from .runtime.scalar_type import int16 as int16
from .runtime.scalar_type import int32 as int32
from .runtime.scalar_type import int64 as int64
from .runtime.scalar_type import qint8 as qint8
from .runtime.scalar_type import qint32 as qint32
from .runtime.scalar_type import quint4x2 as quint4x2
from .runtime.scalar_type import quint8 as quint8
from .runtime.scalar_type import set_default_dtype as set_default_dtype
from .runtime.scalar_type import uint1 as uint1
from .runtime.scalar_type import uint2 as uint2
from .runtime.scalar_type import uint3 as uint3
from .runtime.scalar_type import uint4 as uint4
from .runtime.scalar_type import uint5 as uint5
from .runtime.scalar_type import uint6 as uint6
from .runtime.scalar_type import uint7 as uint7
from .runtime.scalar_type import uint8 as uint8
from .runtime.scalar_type import uint16 as uint16
from .runtime.scalar_type import uint32 as uint32
from .runtime.scalar_type import uint64 as uint64
from .runtime.size import Size as Size
from .serialization import PyTorchFileReader as PyTorchFileReader
from .serialization import load as load
from .serialization import save as save

# isort: split
# Written by hand over operators of the same names, and so imported after them.
from .dispatch.functions.foreach import FOREACH as _FOREACH
from .dispatch.functions.low_rank import lobpcg as lobpcg
from .dispatch.functions.low_rank import lu as lu
from .dispatch.functions.low_rank import pca_lowrank as pca_lowrank
from .dispatch.functions.low_rank import svd_lowrank as svd_lowrank
from .dispatch.functions.process_state import *
from .dispatch.functions.queries import *
from .dispatch.functions.sparse import *
from .dispatch.functions.sparse_compressed import *
from .dispatch.functions.symbolic_numbers import *
from .dispatch.functions.variadic import *

half, double, short, long = float16, float64, int16, int64
bool, float, int, chalf, cfloat, cdouble = _bool, float32, int32, complex32, complex64, complex128
newaxis = None
ops = _Ops()

# The first stands above the root, which does not import it; the others are for programs that ask for them.
perf = _LazyModule(f"{__package__}.perf")
if _typing.TYPE_CHECKING:
    from . import __config__ as __config__
    from . import __future__ as __future__
    from . import _dynamo as _dynamo
    from . import ao as ao
    from . import array_api as array_api
    from . import cpu as cpu
    from . import distributed as distributed
    from . import distributions as distributions
    from . import export as export
    from . import futures as futures
    from . import fx as fx
    from . import hub as hub
    from . import jit as jit
    from . import masked as masked
    from . import monitor as monitor
    from . import mps as mps
    from . import multiprocessing as multiprocessing
    from . import nested as nested
    from . import onnx as onnx
    from . import quantization as quantization
    from . import quasirandom as quasirandom
    from . import random as random
    from . import safetensors as safetensors
    from . import signal as signal
    from . import sparse as sparse
    from . import storage as storage
    from . import testing as testing
    from . import triton_kernels as triton_kernels
    from . import types as types
    from . import xpu as xpu
else:
    __config__ = _LazyModule(f"{__package__}.__config__")
    __future__ = _LazyModule(f"{__package__}.__future__")
    _dynamo = _LazyModule(f"{__package__}._dynamo")
    ao = _LazyModule(f"{__package__}.ao")
    array_api = _ConstantLazyModule(f"{__package__}.array_api")
    distributed = _LazyModule(f"{__package__}.distributed")
    distributions = _LazyModule(f"{__package__}.distributions")
    export = _CallableLazyModule(f"{__package__}.export")
    fx = _LazyModule(f"{__package__}.fx")
    cpu = _LazyModule(f"{__package__}.cpu")
    futures = _LazyModule(f"{__package__}.futures")
    monitor = _LazyModule(f"{__package__}.monitor")
    mps = _LazyModule(f"{__package__}.mps")
    storage = _LazyModule(f"{__package__}.storage")
    xpu = _LazyModule(f"{__package__}.xpu")
    hub = _LazyModule(f"{__package__}.hub")
    jit = _LazyModule(f"{__package__}.jit")
    masked = _LazyModule(f"{__package__}.masked")
    nested = _LazyModule(f"{__package__}.nested")
    sparse = _LazyModule(f"{__package__}.sparse")
    quantization = _LazyModule(f"{__package__}.quantization")
    testing = _LazyModule(f"{__package__}.testing")
    multiprocessing = _LazyModule(f"{__package__}.multiprocessing")
    # Tensors go through the queues and pipes of Python's own `multiprocessing` too.
    _when_imported("multiprocessing", lambda: _import_module(f"{__package__}.multiprocessing"))
    onnx = _LazyModule(f"{__package__}.onnx")
    quasirandom = _LazyModule(f"{__package__}.quasirandom")
    random = _LazyModule(f"{__package__}.random")
    safetensors = _LazyModule(f"{__package__}.safetensors")
    signal = _LazyModule(f"{__package__}.signal")
    types = _LazyModule(f"{__package__}.types")
    triton_kernels = _LazyModule(f"{__package__}.triton_kernels")


def _tell_of_tensors(client: str) -> None:
    """Tell a library, which serves the frameworks that have told it how, of tensors; `utils` has the module."""
    from warnings import warn

    try:
        module = _import_module(f"{__package__}.utils.{client}")
        if not getattr(
            module.__spec__, "_initializing", False
        ):  # else it is what imports the library, and tells it in the end
            module.register()
    except (ImportError, AttributeError) as error:  # its other users need the library all the same
        warn(
            f"{client.partition('.')[0]} was not told of tensors, of which it may be too old: {error}",
            stacklevel=2,
        )


def _choose_cuda_driver() -> None:
    from .runtime.cuda.driver import driver

    driver()


def _defer_collectives() -> None:
    """Make the operators of `distributed.functional_collectives` known, which is imported with the first of them."""
    from .dispatch.core.dispatcher import Dispatcher

    gathers = "all_gather_into_tensor reduce_scatter_tensor all_to_all_single"
    names = {
        "_c10d_functional": "all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ "
        "all_gather_into_tensor_out all_gather_into_tensor_coalesced reduce_scatter_tensor_out "
        f"reduce_scatter_tensor_coalesced broadcast broadcast_ wait_tensor _wrap_tensor_autograd {gathers}",
        "_c10d_functional_autograd": gathers,
        "c10d": "scatter_",
        "c10d_functional": "all_reduce all_reduce_coalesced all_gather_into_tensor_coalesced "
        f"reduce_scatter_tensor_coalesced broadcast wait_tensor {gathers}",
    }
    Dispatcher.singleton().defer(
        [f"{namespace}::{name}" for namespace, each in names.items() for name in each.split()],
        lambda: _import_module(f"{__package__}.distributed.functional_collectives.operators").register,
    )


def _defer_generated_code() -> None:
    """Make the operators of TorchInductor's generated code known, which are imported with the first of them."""
    from .dispatch.core.dispatcher import Dispatcher

    Dispatcher.singleton().defer(
        ["inductor::_reinterpret_tensor"],
        lambda: _import_module(f"{__package__}._inductor.operators").register,
    )


def _prepare_loops() -> None:
    """Have kernels of the CPU know what makes loops, which is imported with the first of them."""
    from .dispatch.structured.compiled_loops import register_compiler

    register_compiler(lambda: _import_module(f"{__package__}.compiler.host.eager_loops").loop_of_call)


_load()
_defer_collectives()
_defer_generated_code()
_register_loader("cpu", _KernelPackage(f"{__package__}.cpu_fallback", "cpu").load, _prepare_loops)
_register_loader("cuda", _KernelPackage(f"{__package__}.triton_kernels", "cuda").load, _choose_cuda_driver)

# Python reaches derivatives through `ops.aten`, as in PyTorch; one of them its operator database has by name.
_DERIVATIVES = {name for name in _functions.__all__ if name.endswith("_backward")} - {
    "native_dropout_backward"
}

globals().update(_FOREACH)

if not _typing.TYPE_CHECKING:
    # Type checkers take what is imported under its own name, since they cannot compute a list.
    __all__ = sorted(
        {
            *_functions.__all__,
            *(name for name in globals() if not name.startswith("_") or name.startswith("_check")),
            "_assert",
            "_assert_async",
            "_assert_tensor_metadata",
            "_has_compatible_shallow_copy_type",
            "_segment_reduce",
            *_FOREACH,
        }
        - _DERIVATIVES
    )

# In the end, since such a library may be there already.
_when_imported("einops._backends", lambda: _tell_of_tensors("einops.backend"))
_when_imported("opt_einsum.backends", lambda: _tell_of_tensors("opt_einsum"))
_when_imported("dask.array", lambda: _tell_of_tensors("dask"))
