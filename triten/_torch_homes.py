"""Modules that PyTorch's public classes and functions name in ``__module__``, for the programs of `as_torch`.

Programs compare it (``type(m).__module__.startswith("torch.nn")``), print it, and pickle a class by it. A class of
``triten.X`` names ``torch.X``; `HOMES` has those that lie in another module here. A row gives, for a module of this
package, PyTorch's module, with the names where it is not that of all its public classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, ModuleType

from .dispatch.core import result_types
from .dispatch.methods import typed_storage
from .runtime.lazy_import import on_each_import

_PACKAGE = __name__.rpartition(".")[0]
_INTERNAL = ("compiler", "cpu_fallback", "dispatch", "docs", "perf", "runtime", "tests", "triten_kernels")
"""Folders whose modules PyTorch does not have: classes are renamed by rows only."""

_POOLING = "nn.modules.pooling"
_SCHEDULERS = "optim.lr_scheduler"
_COMBINING = "utils.data.datapipes.iter.combining"

HOMES: Mapping[str, str | Mapping[str, str]] = {
    "_torch_names": {"overrides": "TorchFunctionMode", "utils._python_dispatch": "TorchDispatchMode"},
    "accelerator": {"": "Event Stream", "accelerator.graphs": "Graph"},
    "compiler.export.dynamic_shapes": {"export.dynamic_shapes": "Dim"},
    "compiler.export.program": {"export.exported_program": "ExportedProgram"},
    "compiler.export.signature": {"export.graph_signature": "ExportGraphSignature"},
    "cuda.amp": {"cuda.amp.grad_scaler": "GradScaler", "cuda.amp.autocast_mode": "autocast"},
    "cuda.runtime_api": {"cuda": "CudaError DeferredCudaCallError cudaStatus"},
    "dispatch.autograd.anomaly": {"autograd.anomaly_mode": "detect_anomaly set_detect_anomaly"},
    "dispatch.autograd.forward_ad": {"autograd.forward_ad": "UnpackedDualTensor dual_level"},
    "dispatch.autograd.function": {"autograd.function": "Function FunctionCtx FunctionMeta"},
    "dispatch.autograd.grad_mode": {
        "autograd.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled"
    },
    "dispatch.autograd.gradcheck": {"autograd.gradcheck": "GradcheckError"},
    "dispatch.autograd.node": {"autograd.graph": "GradientEdge Node", "utils.hooks": "RemovableHandle"},
    "dispatch.autograd.old_variable": {"autograd.variable": "Variable"},
    "dispatch.autograd.saved_tensors": {"autograd.graph": "save_on_cpu saved_tensors_hooks"},
    "dispatch.autograd.threads": {"autograd.grad_mode": "set_multithreading_enabled"},
    "dispatch.core.library": {"library": "Library"},
    "dispatch.core.op_overload": {"_ops": "OpOverload"},
    "dispatch.core.tags": {"": "Tag"},
    "dispatch.custom_ops.custom_op": {"_library.custom_ops": "CustomOpDef"},
    "dispatch.functions.symbolic_numbers": {"": "SymBool SymFloat SymInt"},
    "dispatch.layers.autocast.grad_scaler": {"amp.grad_scaler": "GradScaler OptState"},
    "dispatch.layers.autocast.mode": {"amp.autocast_mode": "autocast"},
    "dispatch.layers.fake_tensor_mode": {"_subclasses.fake_tensor": "FakeTensorMode"},
    "dispatch.layers.profiler.events": {
        "_C._autograd": "DeviceType",
        "autograd.profiler_util": "EventList FunctionEvent",
    },
    "dispatch.layers.profiler.profile": {
        "_C._profiler": "ProfilerActivity",
        "autograd.profiler": "record_function",
        "profiler.profiler": "ProfilerAction profile",
    },
    "dispatch.methods.typed_storage": {"storage": "TypedStorage"},
    "dispatch.methods.untyped_storage": {"storage": "UntypedStorage"},
    "dispatch.random": {"_C": "Generator"},
    "dispatch.tensor": {"": "Tensor"},
    "fx.code_generation": "fx.graph",
    "jit._futures": "jit",
    "jit._script": {
        "jit": "CompilationUnit Error ScriptFunction strict_fusion",
        "jit._trace": "TopLevelTracedModule TracedModule TracerWarning",
    },
    "masked.masked_tensor": {"masked.maskedtensor.core": "MaskedTensor"},
    "mps": {"mps.event": "Event"},
    "nn.attention.block_masks": {"nn.attention.flex_attention": "BlockMask"},
    "nn.modules.attention": {"nn.modules.activation": "MultiheadAttention"},
    "nn.modules.fractional_pooling": _POOLING,
    "nn.modules.lazy": {
        "nn.modules.batchnorm": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
        "nn.modules.conv": (
            "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
        ),
        "nn.modules.instancenorm": "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
        "nn.modules.linear": "LazyLinear",
    },
    "nn.modules.linear_cross_entropy": {
        "nn.modules.linear_cross_entropy_options": "LinearCrossEntropyOptions",
        "nn.modules.loss": "LinearCrossEntropyLoss",
    },
    "nn.modules.module_hooks": {"utils.hooks": "BackwardHook"},
    "nn.modules.parameter": "nn.parameter",
    "nn.modules.recurrent_cells": "nn.modules.rnn",
    "nn.modules.uninitialized": "nn.parameter",
    "nn.modules.unpooling": _POOLING,
    "nn.scaled_products": {"nn.functional": "ScalingType SwizzleType"},
    "optim.adafactor": "optim",
    "optim.adam": {"optim.adamw": "AdamW"},
    "optim.lr_scheduler.combined": {_SCHEDULERS: "ChainedScheduler SequentialLR"},
    "optim.lr_scheduler.cosine": _SCHEDULERS,
    "optim.lr_scheduler.cyclic": {_SCHEDULERS: "CyclicLR OneCycleLR"},
    "optim.lr_scheduler.factors": {
        _SCHEDULERS: "ConstantLR ExponentialLR LambdaLR LinearLR MultiStepLR MultiplicativeLR PolynomialLR StepLR"
    },
    "optim.lr_scheduler.plateau": _SCHEDULERS,
    "optim.lr_scheduler.scheduler": _SCHEDULERS,
    "optim.muon": "optim",
    "runtime.cuda.devices": {"cuda": "device device_of"},
    "runtime.cuda.event": {"cuda.streams": "Event"},
    "runtime.cuda.graph": {"cuda.graphs": "CUDAGraph graph"},
    "runtime.cuda.stream": {"cuda": "StreamContext", "cuda.streams": "ExternalStream Stream"},
    "runtime.device": {"": "device"},
    "runtime.dispatch_key": {"": "DispatchKey"},
    "runtime.dispatch_key_set": {"": "DispatchKeySet"},
    "runtime.dlpack.device_type": {"utils.dlpack": "DLDeviceType"},
    "runtime.errors": {"": "AcceleratorError OutOfMemoryError", "_C": "LinAlgError"},
    "runtime.layout": {"": "layout"},
    "runtime.memory_format": {"": "memory_format"},
    "runtime.qscheme": {"": "qscheme"},
    "runtime.scalar_type": {"": "dtype finfo iinfo"},
    "runtime.size": {"": "Size"},
    "serialization.changed_source": {"serialization": "SourceChangeWarning"},
    "serialization.file_reader": {"": "PyTorchFileReader"},
    "serialization.settings": {"serialization": "LoadEndianness set_default_mmap_options skip_data"},
    "serialization.user_globals": {"serialization": "safe_globals"},
    "sparse.invariants": {"sparse": "check_sparse_tensor_invariants"},
    "utils.benchmark.compare": "utils.benchmark.utils.compare",
    "utils.benchmark.fuzzer": "utils.benchmark.utils.fuzzer",
    "utils.benchmark.measurement": "utils.benchmark.utils.common",
    "utils.benchmark.timer": "utils.benchmark.utils.timer",
    "utils.data.datapipes.iter.forking": _COMBINING,
    "utils.data.datapipes.iter.wrapper": "utils.data.datapipes.iter.utils",
    "utils.selective_checkpoint": "utils.checkpoint",
}


def _named(home: str) -> str:
    return f"torch.{home}".rstrip(".")


def _name_home(module: ModuleType) -> None:
    """Set ``__module__`` of the classes and functions that a module of this package defines to PyTorch's."""
    path = module.__name__.removeprefix(_PACKAGE).removeprefix(".")
    row = HOMES.get(path, {})
    default = row if isinstance(row, str) else path
    homes = {} if isinstance(row, str) else {name: home for home in row for name in row[home].split()}
    is_internal = path.partition(".")[0] in _INTERNAL
    own = f"{_PACKAGE}.{path}".rstrip(".")
    for name, value in list(vars(module).items()):
        if isinstance(value, type | FunctionType) and value.__module__ == own:
            is_public = value.__name__ == name and not name.startswith("_")
            if name in homes or not is_internal:
                value.__module__ = _named(homes.get(name, default if is_public else path))


def install() -> None:
    """Rename the classes of all modules that are loaded, and those of each later one with its import."""
    result_types.rename(_named("return_types"))
    for home, storages in (("", typed_storage.legacy), ("cuda", typed_storage.legacy_cuda)):
        for storage in storages.values():
            storage.__module__ = _named(home)
    on_each_import(_PACKAGE, _name_home)
