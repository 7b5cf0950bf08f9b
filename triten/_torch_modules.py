"""PyTorch's modules whose names lie in other modules of this package, for the programs of `as_torch`: one table.

A row of `MODULES` makes a module. It gives, for each module of this package, the names that are taken from there;
``_StridedShard=StridedShard`` renames one. A place that begins with ``!`` is the reason why names are refused: they can
be imported, and raise NotImplementedError when they are called. A row whose name another row continues is a package.
The row "functorch" is the top-level package of that name, which comes with PyTorch.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from .runtime.lazy_import import LazyModule, when_imported

_PLACEMENTS = "Partial Placement Replicate Shard"
_STRIDED = f"{_PLACEMENTS} _StridedShard=StridedShard"

_CODEGEN = "!graphs are compiled by tt.compile, which has no passes or templates of Inductor's"
_DYNAMIC = "ao.nn.quantized.dynamic"
_DYNAMO = "!functions are captured by tt.compile, which does not translate bytecode"
_FSDP = "!FullyShardedDataParallel has no place here; use torch.distributed.fsdp.fully_shard"
_AOT = "!forward and backward are compiled by tt.compile, without other compilers, partitioners or decompositions"
_BYTES = "!no file or module of bytes that run is made: save a state_dict with torch.save"
_EAGER = "!layers are quantized dynamically alone: use quantize_dynamic, or triten.quantization.quantize_"
_GRAPHS = "!graphs are not quantized: use quantize_dynamic on the module, or triten.quantization.quantize_"
_MKLDNN = "!convolutions and linear layers choose their layout themselves: call the module as it is"
_FUNCTION = "!its methods were not static: use torch.autograd.Function"
_REMOTE = "!there are no remote procedure calls; use collectives"
_SCRIPT = "!programs of torch.jit run as Python, without TorchScript's graphs"
_FUNCTIONAL = (
    "FunctionalModule FunctionalModuleWithBuffers combine_state_for_ensemble make_functional "
    "make_functional_with_buffers"
)
_OBSERVERS = (
    "MinMaxObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver default_dynamic_quant_observer "
    "default_per_channel_weight_observer default_placeholder_observer default_weight_observer"
)
_OTHER_OBSERVERS = (
    "FixedQParamsObserver HistogramObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver "
    "NoopObserver RecordingObserver ReuseInputObserver UniformQuantizationObserverBase default_debug_observer "
    "default_float_qparams_observer default_histogram_observer default_observer default_reuse_input_observer"
)
_QCONFIGS = "QConfig default_dynamic_qconfig float16_dynamic_qconfig per_channel_dynamic_qconfig"
_OTHER_QCONFIGS = (
    "QConfigAny QConfigDynamic default_activation_only_qconfig default_debug_qconfig default_per_channel_qconfig "
    "default_qat_qconfig default_qconfig default_weight_only_qconfig float16_static_qconfig "
    "float_qparams_weight_only_qconfig get_default_qat_qconfig get_default_qconfig qconfig_equals"
)
_FAKE_QUANTIZE = (
    "FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize default_fake_quant "
    "default_per_channel_weight_fake_quant default_weight_fake_quant disable_fake_quant disable_observer "
    "enable_fake_quant enable_observer"
)
_MODULES_QUANTIZED = (
    "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d DeQuantize Dropout "
    "ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm Hardswish InstanceNorm1d InstanceNorm2d "
    "InstanceNorm3d LSTM LayerNorm LeakyReLU Linear MultiheadAttention PReLU QFunctional Quantize ReLU6 Sigmoid Softmax"
)
_EAGER_STEPS = (
    "QuantWrapper add_quant_dequant convert fuse_modules fuse_modules_qat prepare prepare_qat propagate_qconfig_ "
    "quantize_qat swap_module"
)
_MAPPINGS = (
    "get_default_compare_output_module_list get_default_float_to_quantized_operator_mappings "
    "get_default_qat_module_mappings get_default_qconfig_propagation_list get_default_static_quant_module_mappings "
    "get_quantized_operator get_static_quant_module_class no_observer_set"
)
_FX_STEPS = "convert_fx convert_to_reference_fx fuse_fx prepare_fx prepare_qat_fx"
_FUSED = (
    "BNReLU2d BNReLU3d ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d "
    "ConvReLU3d LinearBn1d LinearReLU"
)
_QAT = "Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear"
_SCRIPT_TYPES = (
    "AliasDb AnyType Argument ArgumentSpec AwaitType Block BoolType CallStack ClassType Code CompilationUnit "
    "ComplexType DeviceObjType DictType EnumType ErrorReport FloatType FunctionSchema FutureType InferredType IntType "
    "InterfaceType ListType LiteScriptModule NoneType NumberType OptionalType PyObjectType RRefType ScriptClass "
    "ScriptDict ScriptList ScriptMethod StreamObjType StringType SymBoolType SymIntType TensorType TracingState "
    "TupleType Type UnionType Use import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir "
    "parse_schema parse_type_comment unify_type_list"
)
_TRITON_OPS = "triton_op wrap_triton capture_triton=wrap_triton"

MODULES: Mapping[str, Mapping[str, str]] = {
    "_C._autograd": {
        "dispatch.autograd.node_attributes": "SavedTensor",
        "dispatch.layers.profiler.events": "DeviceType",
    },
    "_decomp": {
        _AOT: "core_aten_decompositions decomposition_table get_decompositions register_decomposition "
        "remove_decompositions"
    },
    "_lobpcg": {"": "lobpcg"},
    "_lowrank": {"": "pca_lowrank svd_lowrank"},
    "_C._cpu": {"backends.cpu": "_get_cpu_capability=get_cpu_capability"},
    "_C._functions": {"dispatch.autograd.node": "AccumulateGrad"},
    "_C._profiler": {
        "dispatch.layers.profiler.profile": "ProfilerActivity _ExperimentalConfig=ExperimentalConfig"
    },
    "_dynamo.convert_frame": {_DYNAMO: "register_bytecode_hook"},
    "_dynamo.exc": {"compiler": "Unsupported"},
    "_dynamo.types": {_DYNAMO: "FrameAction FrameExecStrategy"},
    "_dynamo.variables": {_DYNAMO: "VariableTracker"},
    "_functorch": {},
    "_functorch.aot_autograd": {
        _AOT: "aot_export_joint_simple aot_export_module aot_function aot_module aot_module_simplified "
        "compiled_function compiled_module"
    },
    "_functorch.apis": {"func": "grad grad_and_value vmap", "dispatch.layers.vmap": "chunk_vmap"},
    "_functorch.batch_norm_replacement": {"func": "replace_all_batch_norm_modules_"},
    "_functorch.compilers": {_AOT: "draw_graph_compile memory_efficient_fusion nop print_compile ts_compile"},
    "_functorch.eager_transforms": {
        "func": "functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize vjp",
        "dispatch.layers.transforms": "_as_tuple=as_tuple _slice_argnums=slice_argnums",
    },
    "_functorch.functional_call": {"func": "functional_call stack_module_state"},
    "_functorch.make_functional": {"nn.modules.make_functional": _FUNCTIONAL},
    "_functorch.partitioners": {_AOT: "default_partition draw_graph min_cut_rematerialization_partition"},
    "_functorch.python_key": {"fx.experimental.proxy_tensor": "make_fx"},
    "_guards": {
        "_subclasses.fake_tensor": "active_fake_mode detect_fake_mode",
        _DYNAMO: "CompileContext TracingContext",
    },
    "_higher_order_ops.inline_asm_elementwise": {
        "!operators are written in Triton, not in PTX": "inline_asm_elementwise"
    },
    "_higher_order_ops.cond": {"": "cond"},
    "_higher_order_ops.scan": {"_higher_order_ops.loops": "scan"},
    "_higher_order_ops.while_loop": {"_higher_order_ops.loops": "while_loop"},
    "_higher_order_ops.out_dtype": {"!use the operator's own out_dtype": "out_dtype"},
    "_inductor.custom_graph_pass": {
        _CODEGEN: "CustomGraphPass CustomInferenceAwareGraphPass get_hash_for_files"
    },
    "_inductor.lowering": {_CODEGEN: "register_lowering"},
    "_inductor.pattern_matcher": {
        _CODEGEN: "Arg CallFunction KeywordArg Match PatternMatcherPass register_lowering_pattern"
    },
    "_inductor.select_algorithm": {_CODEGEN: "ExternKernelChoice autotune_select_algorithm"},
    "_library": {"library": _TRITON_OPS},
    "_library.custom_ops": {"library": "CustomOpDef custom_op"},
    "_library.infer_schema": {"library": "infer_schema"},
    "_library.triton": {"library": _TRITON_OPS},
    "_ops": {
        "dispatch.core.op_overload": "OpOverload OpOverloadPacket=OpOverloadGroup",
        "!operators that take functions are Python functions": "HigherOrderOperator",
    },
    "_prims_common.wrappers": {
        "!type promotion is part of each operator": "elementwise_type_promotion_wrapper"
    },
    "_tensor": {"": "Tensor"},
    "_tensor_str": {
        "dispatch.methods.print_options": "PRINT_OPTS=options get_printoptions printoptions set_printoptions",
        "dispatch.methods.printing": "_str=tensor_text _tensor_str=_part_text",
    },
    "accelerator.graphs": {"accelerator": "Graph"},
    "accelerator.memory": {
        "accelerator": "empty_cache empty_host_cache get_memory_info max_memory_allocated max_memory_reserved "
        "memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats"
    },
    "cpu.amp": {"amp.cpu": "autocast", "amp.grad_scaler": "GradScaler"},
    "cpu.amp.autocast_mode": {"amp.cpu": "autocast"},
    "cpu.amp.grad_scaler": {"amp.grad_scaler": "GradScaler"},
    "cuda.amp.autocast_mode": {"cuda.amp": "autocast custom_bwd custom_fwd"},
    "cuda.amp.grad_scaler": {"cuda.amp": "GradScaler"},
    "distributed._tensor": {
        "distributed.tensor": f"DTensor DeviceMesh {_PLACEMENTS} distribute_module distribute_tensor empty full "
        "init_device_mesh ones rand randn zeros"
    },
    "distributed._tensor._utils": {"distributed.tensor.shards": "compute_local_shape_and_global_offset"},
    "distributed._tensor.experimental": {"distributed.tensor.experimental": "implicit_replication"},
    "distributed._tensor.placement_types": {"distributed.tensor.placements": _STRIDED},
    "distributed.algorithms._checkpoint": {},
    "distributed.algorithms._checkpoint.checkpoint_wrapper": {
        _FSDP: "CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper"
    },
    "distributed.autograd": {"distributed.rpc": "is_available", _REMOTE: "backward context get_gradients"},
    "distributed.checkpoint._consolidate_hf_safetensors": {
        "distributed.checkpoint.hf_consolidation": "consolidate_safetensors_files "
        "consolidate_safetensors_files_on_every_rank"
    },
    "distributed.checkpoint.optimizer": {_FSDP: "load_sharded_optimizer_state_dict"},
    "distributed.constants": {
        "distributed.backend": "default_pg_timeout=DEFAULT_TIMEOUT default_pg_nccl_timeout=NCCL_TIMEOUT"
    },
    "distributed.fsdp._fully_shard": {"distributed.fsdp": "FSDPModule MixedPrecisionPolicy fully_shard"},
    "distributed.fsdp.sharded_grad_scaler": {_FSDP: "ShardedGradScaler"},
    "distributed.tensor._utils": {"distributed.tensor.shards": "compute_local_shape_and_global_offset"},
    "distributed.tensor.debug._comm_mode": {"distributed.tensor.debug": "CommDebugMode"},
    "distributed.tensor.debug._visualize_sharding": {"distributed.tensor.debug": "visualize_sharding"},
    "distributed.tensor.device_mesh": {"distributed.tensor": "DeviceMesh init_device_mesh"},
    "distributed.tensor.experimental._func_map": {"distributed.tensor.experimental": "local_map"},
    "distributed.tensor.experimental._register_sharding": {
        "distributed.tensor.experimental": "register_sharding"
    },
    "distributed.tensor.placement_types": {"distributed.tensor.placements": _STRIDED},
    "export.dynamic_shapes": {"export": "Dim dims"},
    "export.exported_program": {"export": "ExportedProgram"},
    "export.graph_signature": {
        "export": "ConstantArgument ExportGraphSignature InputKind InputSpec OutputKind OutputSpec TensorArgument"
    },
    "functorch": {
        "func": "functionalize grad grad_and_value hessian jacfwd jacrev jvp vjp vmap",
        "fx.experimental.proxy_tensor": "make_fx",
        "nn.modules.make_functional": _FUNCTIONAL,
    },
    "export.unflatten": {
        "!an exported program has no module of its submodules: call ExportedProgram.module()": "InterpreterModule "
        "UnflattenedModule unflatten"
    },
    "functorch.compile": {
        "fx.experimental.proxy_tensor": "make_fx",
        _AOT: "aot_function aot_module aot_module_simplified compiled_function compiled_module default_partition "
        "draw_graph draw_graph_compile get_decompositions make_boxed_func memory_efficient_fusion "
        "min_cut_rematerialization_partition nop print_compile ts_compile",
    },
    "functorch.experimental": {
        "func": "functionalize hessian jacfwd jvp replace_all_batch_norm_modules_",
        "dispatch.layers.vmap": "chunk_vmap",
    },
    "functorch.experimental.control_flow": {"": "cond", "_higher_order_ops": "map"},
    "ao.nn.intrinsic": {_EAGER: _FUSED},
    "ao.nn.intrinsic.qat": {_EAGER: _FUSED},
    "ao.nn.intrinsic.quantized": {_EAGER: "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU"},
    "ao.nn.qat": {_EAGER: _QAT},
    "ao.nn.qat.dynamic": {_EAGER: "Linear"},
    "ao.nn.quantizable": {_EAGER: "LSTM LSTMCell MultiheadAttention"},
    "ao.nn.quantized.dynamic.modules": {_DYNAMIC: "Linear"},
    "ao.nn.quantized.dynamic.modules.linear": {_DYNAMIC: "Linear"},
    "ao.nn.quantized.modules": {_DYNAMIC: "LinearPackedParams"},
    "ao.nn.quantized.modules.linear": {_DYNAMIC: "LinearPackedParams"},
    "ao.quantization.quantization_mappings": {"ao.quantization": "get_default_dynamic_quant_module_mappings"},
    "jit._trace": {"jit._script": "TopLevelTracedModule TracedModule TracerWarning"},
    "ao.quantization.backend_config": {
        _GRAPHS: "BackendConfig BackendPatternConfig DTypeConfig ObservationType"
    },
    "ao.quantization.fake_quantize": {_EAGER: _FAKE_QUANTIZE},
    "ao.quantization.fuse_modules": {_EAGER: "fuse_known_modules fuse_modules fuse_modules_qat"},
    "ao.quantization.qconfig_mapping": {
        _GRAPHS: "QConfigMapping get_default_qat_qconfig_mapping get_default_qconfig_mapping"
    },
    "ao.quantization.quantize_fx": {_GRAPHS: _FX_STEPS},
    "masked._ops": {
        "masked": "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm normalize "
        "prod softmax softmin std sum var"
    },
    "masked.maskedtensor": {"masked": "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor"},
    "masked.maskedtensor.core": {"masked": "MaskedTensor is_masked_tensor"},
    "masked.maskedtensor.creation": {"masked": "as_masked_tensor masked_tensor"},
    "mps.event": {"mps": "Event"},
    "multiprocessing.pool": {"multiprocessing": "Pool"},
    "multiprocessing.queue": {"multiprocessing": "Queue SimpleQueue"},
    "nn.intrinsic": {_EAGER: _FUSED},
    "nn.intrinsic.qat": {_EAGER: _FUSED},
    "nn.intrinsic.quantized": {_EAGER: "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU"},
    "nn.modules._functions": {"nn.modules": "CrossMapLRN2d SyncBatchNorm"},
    "nn.modules.linear_cross_entropy_options": {"nn.modules": "LinearCrossEntropyOptions"},
    "nn.qat": {_EAGER: _QAT},
    "nn.qat.dynamic": {_EAGER: "Linear"},
    "nn.quantizable": {_EAGER: "LSTM LSTMCell MultiheadAttention"},
    "nn.quantized": {_EAGER: _MODULES_QUANTIZED},
    "nn.quantized.dynamic": {_DYNAMIC: "Linear"},
    "nn.quantized.dynamic.modules": {_DYNAMIC: "Linear"},
    "nn.quantized.modules": {_EAGER: _MODULES_QUANTIZED},
    "optim._adafactor": {"optim": "Adafactor"},
    "optim._functional": {
        "optim.functional_forms": "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd sparse_adam"
    },
    "optim._multi_tensor": {"optim": "ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD"},
    "optim._muon": {"optim": "Muon"},
    "package": {
        _BYTES: "Importer ObjMismatchError ObjNotFoundError OrderedImporter PackageExporter PackageImporter"
    },
    "package.package_exporter": {_BYTES: "EmptyMatchError PackageExporter PackagingError"},
    "package.package_importer": {_BYTES: "PackageImporter"},
    "profiler.profiler": {
        "dispatch.layers.profiler.profile": "_default_schedule_fn=_always",
        "profiler": "ProfilerAction profile schedule supported_activities tensorboard_trace_handler",
    },
    "quantization.fake_quantize": {_EAGER: _FAKE_QUANTIZE},
    "quantization.fuse_modules": {_EAGER: "fuse_known_modules fuse_modules"},
    "quantization.observer": {"ao.quantization": _OBSERVERS, _EAGER: _OTHER_OBSERVERS},
    "quantization.qconfig": {"ao.quantization": _QCONFIGS, _EAGER: _OTHER_QCONFIGS},
    "quantization.quantization_mappings": {
        "ao.quantization": "get_default_dynamic_quant_module_mappings",
        _EAGER: _MAPPINGS,
    },
    "quantization.quantize_fx": {_GRAPHS: _FX_STEPS},
    "quantization.stubs": {"ao.quantization": "DeQuantStub QuantStub", _EAGER: "QuantWrapper"},
    "signal.windows.windows": {
        "signal.windows": "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann "
        "kaiser nuttall"
    },
    "testing._comparison": {
        "testing": "assert_allclose assert_close default_tolerances=_default_tolerances get_tolerances=_get_tolerances"
    },
    "testing._creation": {"testing": "make_tensor"},
    "utils.backend_registration": {
        "utils": "generate_methods_for_privateuse1_backend rename_privateuse1_backend"
    },
    "utils.benchmark.utils": {},
    "utils.benchmark.utils.common": {
        "utils.benchmark": "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig "
        "unit_to_english"
    },
    "utils.benchmark.utils.compare": {"utils.benchmark": "Colorize Compare"},
    "utils.benchmark.utils.fuzzer": {"utils.benchmark": "FuzzedParameter FuzzedTensor Fuzzer ParameterAlias"},
    "utils.benchmark.utils.timer": {"utils.benchmark": "Language Timer timer"},
    "utils.bundled_inputs": {_SCRIPT: "augment_model_with_bundled_inputs bundle_inputs bundle_randn"},
    "utils.mkldnn": {_MKLDNN: "MkldnnConv2d MkldnnLinear to_mkldnn"},
    "utils.mobile_optimizer": {_SCRIPT: "LintCode generate_mobile_module_lints optimize_for_mobile"},
    "utils.throughput_benchmark": {
        "!only programs of TorchScript are measured from several threads: use torch.utils.benchmark": "ExecutionStats "
        "ThroughputBenchmark"
    },
    "xpu.graphs": {
        "xpu": "XPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables"
    },
    "xpu.memory": {
        "xpu": "MemPool XPUPluggableAllocator change_current_allocator empty_cache max_memory_allocated "
        "max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats "
        "memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats use_mem_pool"
    },
    "xpu.random": {
        "xpu": "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
        "set_rng_state_all"
    },
    "nn._reduction": {"nn.reductions": "get_enum legacy_get_enum legacy_get_string"},
    "utils._mode_utils": {
        "utils._python_dispatch": "all_same_mode no_dispatch=_DisableTensorDispatch",
    },
    "profiler.itt": {"dispatch.layers.profiler.itt": "is_available mark range range_pop range_push"},
    "utils.data.datapipes.iter.utils": {"utils.data.datapipes.iter.wrapper": "IterableWrapperIterDataPipe"},
    "autograd.profiler_util": {
        "dispatch.layers.profiler.events": "DeviceType EventList FunctionEvent FunctionEventAvg Interval Kernel"
    },
    "sparse._triton_ops_meta": {
        "!products of sparse tensors choose their tiles themselves": "get_meta minimize update"
    },
}
"""Rows of modules that are made."""

ALIASES: Mapping[str, str] = {
    "_VF": "_public",
    "_functorch.vmap": "dispatch.layers.vmap",
    "_vmap_internals": "dispatch.layers.old_vmap",
}
"""Modules of this package by PyTorch's names, for packages that replace functions in them."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "": {
        "_C": "DisableTorchFunction=DisableTensorFunction DisableTorchFunctionSubclass=DisableTensorFunctionSubclass",
        "_higher_order_ops": "while_loop",
        "futures": "Future",
        "jit": "fork wait",
        _SCRIPT: f"Graph Node ScriptObject Value {_SCRIPT_TYPES}",
    },
    "amp.autocast_mode": {"dispatch.layers.autocast.mode": "_cast"},
    "autograd.grad_mode": {"autograd": "set_multithreading_enabled"},
    "_C": {
        "": "Tag TensorBase=Tensor _VariableFunctions=_public dtype is_grad_enabled is_inference_mode_enabled",
        "linalg": "LinAlgError",
        "utils._python_dispatch": "_DisableTorchDispatch=_DisableTensorDispatch",
        "futures": "Future",
        "jit": "_is_tracing=is_tracing",
        _SCRIPT: f"Graph Node ScriptObject Value {_SCRIPT_TYPES}",
    },
    "ao.nn.quantized": {_EAGER: _MODULES_QUANTIZED},
    "ao.nn.quantized.dynamic": {
        _EAGER: "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d GRU GRUCell LSTM LSTMCell RNNCell"
    },
    "ao.quantization": {
        _EAGER: f"{_OTHER_OBSERVERS} {_OTHER_QCONFIGS} {_FAKE_QUANTIZE} {_EAGER_STEPS} {_MAPPINGS}",
        _GRAPHS: "QConfigMapping QuantType get_default_qat_qconfig_mapping get_default_qconfig_mapping",
    },
    "ao.quantization.observer": {_EAGER: _OTHER_OBSERVERS},
    "ao.quantization.qconfig": {_EAGER: _OTHER_QCONFIGS},
    "ao.quantization.quantize": {_EAGER: _EAGER_STEPS.replace(" fuse_modules fuse_modules_qat", "")},
    "ao.quantization.stubs": {_EAGER: "QuantWrapper"},
    "autograd": {
        "dispatch.layers.profiler.events": "DeviceType",
        "dispatch.layers.profiler.profile": "_profiler_enabled=is_recording",
        _FUNCTION: "NestedIOFunction",
    },
    "autograd.function": {_FUNCTION: "NestedIOFunction"},
    "autograd.variable": {"dispatch.autograd.old_variable": "VariableMeta=_OfTensors"},
    "cuda.memory": {
        "cuda": "host_memory_stats host_memory_stats_as_nested_dict list_gpu_processes "
        "reset_accumulated_host_memory_stats reset_peak_host_memory_stats"
    },
    "distributed.distributed_c10d": {"distributed": "reduce_op"},
    "distributed.rpc": {
        _REMOTE: "PyRRef RRef TensorPipeRpcBackendOptions WorkerInfo functions get_worker_info init_rpc remote "
        "rpc_async rpc_sync shutdown"
    },
    "distributed.tensor.parallel.style": {
        "distributed.tensor.parallel": "PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput"
    },
    "_dynamo": {
        _DYNAMO: "disallow_in_graph export forbid_in_graph optimize_assert replay run skip_frame "
        "substitute_in_graph"
    },
    "_higher_order_ops": {"": "cond"},
    "_higher_order_ops.triton_kernel_wrap": {_DYNAMO: "TraceableTritonKernelWrapper"},
    "distributed.fsdp.fully_sharded_data_parallel": {
        "distributed.fsdp.api": "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig "
        "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig OptimStateKeyType "
        "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings "
        "StateDictType"
    },
    "functional": {"": "broadcast_shapes istft lu pca_lowrank split stft svd_lowrank unravel_index"},
    "nn.functional": {
        "overrides": "handle_torch_function=handle_tensor_function has_torch_function=has_tensor_function "
        "has_torch_function_unary=has_tensor_function_unary "
        "has_torch_function_variadic=has_tensor_function_variadic"
    },
    "profiler": {
        "dispatch.layers.profiler.profile": "_ExperimentalConfig=ExperimentalConfig",
        "!use profile(...) and export_chrome_trace": "ExecutionTraceObserver",
    },
    "quantization": {
        "ao.quantization": "DeQuantStub MinMaxObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver "
        "QConfig QuantStub default_dynamic_qconfig default_per_channel_weight_observer default_weight_observer "
        "float16_dynamic_qconfig get_default_dynamic_quant_module_mappings per_channel_dynamic_qconfig "
        "quantize_dynamic",
        _EAGER: f"{_OTHER_OBSERVERS} {_OTHER_QCONFIGS} {_FAKE_QUANTIZE} {_EAGER_STEPS} {_MAPPINGS}",
    },
    "utils._python_dispatch": {
        "utils._python_dispatch": "BaseTorchDispatchMode=BaseTensorDispatchMode "
        "is_in_torch_dispatch_mode=is_in_tensor_dispatch_mode"
    },
    "nn.modules.batchnorm": {"nn.modules": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d"},
    "nn.modules.conv": {
        "nn.modules": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    },
    "nn.modules.instancenorm": {"nn.modules": "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"},
    "nn.modules.linear": {"nn.modules": "LazyLinear"},
    "nn.init": {
        "nn.init": "_no_grad_fill_=constant_ _no_grad_normal_=normal_ _no_grad_trunc_normal_=trunc_normal_ "
        "_no_grad_uniform_=uniform_ _no_grad_zero_=zeros_"
    },
    "nn.modules.loss": {"nn.modules": "LinearCrossEntropyLoss"},
    "nn.modules.transformer": {"nn.modules.transformer": "_get_activation_fn=_activation"},
    "nn.parameter": {"nn.modules.parameter": "_ParameterMeta"},
    "nn.parallel.distributed": {"distributed": "ReduceOp"},
    "optim.adadelta": {"optim.functional_forms": "adadelta"},
    "optim.adagrad": {"optim.functional_forms": "adagrad"},
    "optim.adam": {"optim.functional_forms": "adam"},
    "optim.adamax": {"optim.functional_forms": "adamax"},
    "optim.adamw": {"optim.functional_forms": "adamw"},
    "optim.asgd": {"optim.functional_forms": "asgd"},
    "optim.lr_scheduler": {"optim": "Optimizer"},
    "optim.nadam": {"optim.functional_forms": "nadam"},
    "optim.radam": {"optim.functional_forms": "radam"},
    "optim.rmsprop": {"optim.functional_forms": "rmsprop"},
    "optim.rprop": {"optim.functional_forms": "rprop"},
    "optim.sgd": {"optim.functional_forms": "sgd"},
    "optim.optimizer": {"optim.optimizer": "ParamsT=Params"},
    "serialization": {
        "serialization.loading": "MAP_LOCATION=MapLocation",
        "serialization.saving": "DEFAULT_PROTOCOL",
        "types": "FILE_LIKE=FileLike FileLike",
    },
}
"""Rows of names that modules of this package get in addition."""

PRIVATE = (
    "_custom_ops",
    "_higher_order_ops",
    "_inductor",
    "_jit_internal",
    "_prims_common",
    "_subclasses",
    "_utils",
    "classes",
    "mtia",
)
"""Modules of this package that PyTorch's root has as attributes before a program imports them."""

_ROOT = __name__.rpartition(".")[0]


class _Refused:
    """Base of names that exist to be imported, compared and annotated with, and raise when they are called."""

    _reason = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} is not supported: {cls._reason}")


def _find(module: str, row: Mapping[str, str], name: str) -> Any:
    """Return the object of a name that a row gives to a module. Raise LookupError if the row lacks the name."""
    for target, words in row.items():
        for word in words.split():
            theirs, _, ours = word.partition("=")
            if theirs == name:
                if target.startswith("!"):
                    shown = f"torch{module.removeprefix(_ROOT)}"
                    return type(name, (_Refused,), {"__module__": shown, "_reason": target[1:]})
                return getattr(import_module(f"{_ROOT}.{target}" if target else _ROOT), ours or theirs)
    raise LookupError(name)


def _names(row: Mapping[str, str]) -> list[str]:
    return sorted(word.partition("=")[0] for words in row.values() for word in words.split())


def _extend(module: ModuleType, row: Mapping[str, str]) -> None:
    """Make a module resolve the names of a row, after its own names."""
    own = vars(module).get("__getattr__")

    def find(name: str) -> Any:
        try:
            value = _find(module.__name__, row, name)
        except LookupError:
            if own is not None:
                return own(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None
        setattr(module, name, value)
        return value

    vars(module)["__getattr__"] = find


class _Loader(importlib.abc.Loader):
    """Loader of a module of the table."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of the module to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the names of its row, or put the module of an alias in its place."""
        name = module.__name__.removeprefix(f"{_ROOT}.")
        if name in ALIASES:
            sys.modules[module.__name__] = import_module(f"{_ROOT}.{ALIASES[name]}")
            return
        row = MODULES[name]
        vars(module)["__all__"] = _names(row)
        _extend(module, row)
        for each in (*MODULES, *ALIASES):
            package, _, last = each.rpartition(".")
            if package == name:
                _bind(module.__name__, last)


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of the modules of the table."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{_ROOT}.")
        if (name not in MODULES and name not in ALIASES) or name == fullname:
            return None
        is_package = any(each.startswith(f"{name}.") for each in MODULES)
        return ModuleSpec(fullname, _Loader(), origin=__file__, is_package=is_package)


def install() -> None:
    """Have Python find the modules of the table, and modules have the names that the table adds."""
    sys.meta_path.append(_Finder())
    for name, row in NAMES.items():
        full = f"{_ROOT}.{name}" if name else _ROOT
        when_imported(full, partial(lambda full, row: _extend(sys.modules[full], row), full, row))
    for name in PRIVATE:
        _bind(_ROOT, name)
    for name in (*MODULES, *ALIASES):
        package, _, last = f"{_ROOT}.{name}".rpartition(".")
        if package.removeprefix(f"{_ROOT}.") not in MODULES:
            when_imported(package, partial(_bind, package, last))


def _bind(package: str, last: str) -> None:
    """Have a package, or a module, have a module of the table as an attribute, before the module is imported."""
    names = vars(sys.modules[package])
    names.setdefault("__path__", [])
    names.setdefault(last, LazyModule(f"{package}.{last}"))
