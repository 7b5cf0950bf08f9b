"""Public names of triten, and the name under which each object is documented.

The reference documents an object once, under the first of its public names in the order of `NAMESPACES`. The
other names link to that entry.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_NAMESPACES = (
    "triten triten.nn triten.nn.functional triten.nn.init triten.nn.utils triten.nn.utils.parametrizations "
    "triten.nn.utils.parametrize triten.nn.utils.prune triten.nn.utils.rnn triten.nn.attention "
    "triten.nn.attention.flex_attention triten.nn.attention.bias triten.nn.attention.varlen triten.optim "
    "triten.optim.lr_scheduler triten.optim.swa_utils triten.distributions triten.distributions.constraints "
    "triten.linalg triten.fft triten.special triten.signal.windows triten.autograd triten.autograd.forward_ad "
    "triten.autograd.functional triten.autograd.graph triten.autograd.profiler triten.func triten.fx "
    "triten.fx.passes.shape_prop triten.fx.passes.split_module triten.fx.experimental.optimization "
    "triten.fx.experimental.proxy_tensor triten.amp triten.cuda triten.cuda.nvtx triten.cuda.profiler "
    "triten.accelerator triten.cpu triten.futures triten.monitor triten.storage triten.backends "
    "triten.backends.cpu triten.library triten.overrides triten.profiler triten.random triten.testing triten.utils "
    "triten.utils.data triten.utils.checkpoint triten.utils.hooks triten.utils._pytree triten.utils.benchmark "
    "triten.utils.flop_counter triten.utils.module_tracker triten.utils.weak triten.utils.data.datapipes.iter "
    "triten.utils.data.datapipes.map triten.multiprocessing triten.jit triten.hub triten.masked triten.nested "
    "triten.quasirandom triten.onnx triten.perf triten.triton_kernels triten.distributed "
    "triten.distributed.tensor triten.dispatch "
    "triten.array_api triten.array_api.fft triten.array_api.linalg triten.compiler triten.export triten.quantization "
    "triten.ao.quantization triten.ao.nn.quantized.dynamic "
    "triten.safetensors triten.sparse triten.nn.parallel triten.utils.collect_env triten.__config__ "
    "triten.__future__ "
    "triten.distributed._functional_collectives triten.distributed.algorithms "
    "triten.distributed.algorithms.ddp_comm_hooks triten.distributed.checkpoint "
    "triten.distributed.checkpoint.state_dict triten.distributed.cluster_environment "
    "triten.distributed.elastic.multiprocessing triten.distributed.elastic.multiprocessing.errors "
    "triten.distributed.fsdp triten.distributed.launcher triten.distributed.nn.functional triten.distributed.optim "
    "triten.distributed.pipelining triten.distributed.tensor.debug triten.distributed.tensor.experimental "
    "triten.distributed.tensor.parallel"
)
NAMESPACES = _NAMESPACES.split()

# Namespaces that declare no `__all__`: what of them is public.
DECLARED_HERE = {
    "triten.distributions.constraints": "Constraint MixtureSameFamilyConstraint is_dependent",
    "triten.testing": "assert_allclose assert_close make_tensor",
    "triten.random": (
        "default_generator fork_rng get_cpu_engine get_rng_state initial_seed manual_seed seed set_cpu_engine "
        "set_rng_state thread_safe_generator"
    ),
    "triten.utils._pytree": (
        "TreeSpec is_namedtuple is_namedtuple_class is_namedtuple_instance is_structseq is_structseq_class "
        "is_structseq_instance key_get keystr register_constant register_dataclass register_pytree_node tree_all "
        "tree_all_only tree_any tree_any_only tree_flatten tree_flatten_with_path tree_is_leaf tree_iter tree_leaves "
        "tree_leaves_with_path tree_map tree_map_ tree_map_only tree_map_only_ tree_map_with_path tree_structure "
        "tree_unflatten treespec_dumps treespec_loads treespec_pprint"
    ),
    "triten.multiprocessing": (
        "ProcessContext ProcessException ProcessExitedException ProcessRaisedException get_all_sharing_strategies "
        "get_sharing_strategy set_sharing_strategy spawn start_processes"
    ),
    "triten.perf": "Cost OperatorCost OperatorPlan Plan cost plan",
    "triten.triton_kernels": "autotune",
    "triten.dispatch": (
        "Dispatcher ExcludeDispatchKeyGuard FunctionSchema IncludeDispatchKeyGuard KernelFunction OperatorEntry "
        "RegistrationHandle SchemaError parse_schema show_trace"
    ),
}


def namespace_of(name: str) -> Any:
    """Return the module or class of a dotted name such as ``triten.nn.functional``."""
    found: Any = import_module("triten")
    path = "triten"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        found = getattr(found, part) if hasattr(found, part) else _imported(path)
    return found


def _imported(path: str) -> Any:
    """Import a submodule that is not an attribute of its package yet. Raise AttributeError if there is none."""
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise AttributeError(f"there is no {path}", name=path.rpartition(".")[2]) from error


@cache
def public_names(namespace: str) -> tuple[str, ...]:
    """Return the names of a namespace that a page must document: no modules, no leading underscore."""
    module = namespace_of(namespace)
    names = DECLARED_HERE[namespace].split() if namespace in DECLARED_HERE else module.__all__
    return tuple(
        sorted(
            name
            for name in names
            if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
        )
    )


@cache
def described_names() -> dict[int, str]:
    """For each public function and class, by its identity, the dotted name that describes it."""
    found: dict[int, str] = {}
    for namespace in NAMESPACES:
        module = namespace_of(namespace)
        for name in public_names(namespace):
            value = getattr(module, name)
            if isinstance(value, (FunctionType, type)):
                found.setdefault(id(value), f"{namespace}.{name}")
    return found


def family_of(function: Any) -> str | None:
    """Return the operator family of a generated function or method; None for a hand-written one."""
    module = str(getattr(function, "__module__", ""))
    if ".generated." not in module:
        return None
    return module.rpartition(".")[2].removeprefix("functions_").removeprefix("methods_")


@cache
def signatures(of_methods: bool = False) -> dict[str, list[str]]:
    """Return the signatures of generated functions, or of tensor methods, from the type stubs."""
    folder = Path(import_module("triten").__file__ or "").parent / "dispatch" / "generated"
    pattern = "*methods*.pyi" if of_methods else "*functions*.pyi"
    found: dict[str, list[ast.FunctionDef]] = {}
    for path in sorted(folder.rglob(pattern)):
        tree = ast.parse(path.read_text())
        for node in _functions(tree, of_methods):
            found.setdefault(node.name, []).append(node)
    return {name: _without_repetition(nodes) for name, nodes in found.items()}


def _functions(tree: ast.Module, of_methods: bool) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not of_methods:
            yield node
        elif isinstance(node, ast.ClassDef) and of_methods:
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    is_property = any(ast.unparse(each) == "property" for each in member.decorator_list)
                    if not is_property:
                        member.args.args = member.args.args[1:] if member.args.args else []
                        yield member


def _without_repetition(nodes: list[ast.FunctionDef]) -> list[str]:
    """Merge overloads that differ only in `out` into one signature with ``out=None``."""
    texts: list[str] = []
    for node in nodes:
        plain = ast.unparse(node.args)
        without_out = plain
        for spelling in (", *, out: Tensor", ", out: Tensor"):
            without_out = without_out.replace(spelling, "")
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        before = f"({without_out}){result}"
        if without_out != plain and before in texts:
            texts[texts.index(before)] = (
                f"({plain.replace('out: Tensor', 'out: Tensor | None = None')}){result}"
            )
        elif f"({plain}){result}" not in texts:
            texts.append(f"({plain}){result}")
    return [text.replace("=...", " = ...") for text in texts]


def with_defaults(text: str, function: Any) -> str:
    """Fill in the function's runtime defaults in a signature of the stubs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return text
    for each in parameters:
        default = repr(each.default)
        if each.default is not each.empty and len(default) < 30 and not default.startswith("<"):
            start = text.find(f"{each.name}: ")
            end = text.find(" = ...", start)
            if start >= 0 and end >= 0 and "," not in text[start:end]:
                text = f"{text[:end]} = {default}{text[end + 6 :]}"
    return text
