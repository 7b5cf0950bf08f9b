"""Pipeline stages split from a model's graph: `pipeline`, `SplitPoint`, `pipe_split`
(`torch.distributed.pipelining`).

A graph is split into consecutive parts. A stage takes all earlier values that it or a later stage uses. It
returns all values that later stages use, so values pass through the stages in between.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from ... import fx
from ...nn.modules.module import Module
from ..groups import Group
from .stage import PipelineStage

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Position of a split: before or after a submodule (`torch.distributed.pipelining.SplitPoint`)."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Cut the model here, in a `forward` (`torch.distributed.pipelining.pipe_split`). Called, it does nothing."""
    if _tracing.tracer is not None:
        _tracing.tracer.create_proxy("call_function", pipe_split, (), {})


class _Tracing(threading.local):
    tracer: fx.Tracer | None = None


_tracing = _Tracing()


class _Tracer(fx.Tracer):
    """Records calls of the submodules at which the model is cut as single steps."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    def trace(self, root: Any, *args: Any, **kwargs: Any) -> fx.Graph:
        before, _tracing.tracer = _tracing.tracer, self
        try:
            return super().trace(root, *args, **kwargs)
        finally:
            _tracing.tracer = before

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        if module_qualified_name in self._names:
            return True
        contains_split = any(name.startswith(f"{module_qualified_name}.") for name in self._names)
        return not contains_split and super().is_leaf_module(m, module_qualified_name)


class Pipe:
    """A model cut into stages (`torch.distributed.pipelining.Pipe`); `pipeline` makes one.

    Attributes:
        num_stages: Number of stages.
    """

    def __init__(self, stages: Sequence[fx.GraphModule]) -> None:
        self._stages = list(stages)
        self.num_stages = len(stages)

    def get_stage_module(self, stage_idx: int) -> fx.GraphModule:
        """Return the module of a stage, with the names of its layers in the model.

        Raises:
            ValueError: there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return self._stages[stage_idx]

    def build_stage(self, stage_index: int, device: Any, group: Group = None) -> PipelineStage:
        """Return a stage for a schedule.

        Args:
            stage_index: Index of the stage.
            device: Device of its layers and computation.
            group: Group of the pipeline. Default: all ranks.
        """
        module = self.get_stage_module(stage_index)
        return PipelineStage(module.to(device), stage_index, self.num_stages, device, group=group)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages in sequence in this process."""
        result = self._stages[0](*args, **kwargs)
        for stage in self._stages[1:]:
            result = stage(*(result if isinstance(result, tuple) else (result,)))
        return result

    def __str__(self) -> str:
        return "\n".join(f"stage {number}:\n{each.code}" for number, each in enumerate(self._stages))


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
) -> Pipe:
    """Cut a model into stages (`torch.distributed.pipelining.pipeline`).

    The model is traced (`tt.fx`), so that its `forward` may not depend on values of tensors. It is cut where
    `split_spec` says, or at calls of `pipe_split`.

    Args:
        module: the model.
        mb_args: a microbatch's arguments, with which the stages are tried; on the Meta device, too.
        mb_kwargs: Keyword arguments of the example microbatch.
        split_spec: Split points, by names of submodules.

    Raises:
        ValueError: there is no such submodule, or it is not called once.
        NotImplementedError: two stages share a parameter, whose gradients would have to be added.
        TypeError: something else than tensors passes from stage to stage.

    Example:
        >>> import triten as tt
        >>> from triten.distributed.pipelining import SplitPoint, pipeline
        >>> model = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.ReLU(), tt.nn.Linear(3, 1))
        >>> pipe = pipeline(model, (tt.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        (2, ['2.weight', '2.bias'])
    """
    cuts = dict(split_spec or {})
    names = {name for name, _ in module.named_modules()}
    for name in cuts:
        if name not in names or not name:
            raise ValueError(f"pipeline: split_spec names {name!r}, which is no submodule of the model")
    graph = _Tracer(list(cuts)).trace(module)
    pipe = Pipe([_stage(module, graph, part) for part in _Parts(graph, cuts).parts()])
    _check_parameters(pipe)
    _try(pipe, mb_args, dict(mb_kwargs or {}))
    return pipe


class _Parts:
    """The nodes of a graph in consecutive parts."""

    def __init__(self, graph: fx.Graph, cuts: Mapping[str, SplitPoint]) -> None:
        self._graph, self._cuts = graph, cuts

    def parts(self) -> list[list[fx.Node]]:
        """Return the compute nodes of each part. Raise ValueError unless each split point occurs exactly
        once.
        """
        parts: list[list[fx.Node]] = [[]]
        met = dict.fromkeys(self._cuts, 0)
        for node in self._graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            where = self._cuts.get(str(node.target)) if node.op == "call_module" else None
            if where is not None:
                met[str(node.target)] += 1
            if node.target is pipe_split:
                parts.append([])
                continue
            if where is SplitPoint.BEGINNING and parts[-1]:
                parts.append([])
            parts[-1].append(node)
            if where is SplitPoint.END:
                parts.append([])
        wrong = [name for name, count in met.items() if count != 1]
        if wrong:
            raise ValueError(
                f"pipeline: split_spec: the model must call each of these submodules exactly once: {wrong}"
            )
        nonempty = [part for part in parts if part]
        return nonempty or [[]]


def _stage(module: Module, graph: fx.Graph, part: Sequence[fx.Node]) -> fx.GraphModule:
    """Build the module of a part: its inputs are earlier values, its outputs are values used later."""
    nodes = list(graph.nodes)
    order = {node: number for number, node in enumerate(nodes)}
    begin = order[part[0]] if part else 0
    end = order[part[-1]] if part else len(nodes) - 1
    is_first = not any(
        node.op not in ("placeholder", "output") and node.target is not pipe_split for node in nodes[:begin]
    )
    output = nodes[-1]
    is_last = not any(
        node.op not in ("placeholder", "output") and node.target is not pipe_split
        for node in nodes[end + 1 :]
    )
    inside = set(part)
    made = fx.Graph()
    values: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        if node.op == "placeholder" and is_first:
            values[node] = made.node_copy(node, values.__getitem__)
        elif not is_first and node not in inside and order[node] < begin and _is_used(node, begin, order):
            values[node] = made.placeholder(node.name)
    for node in part:
        values[node] = made.node_copy(node, values.__getitem__)
    if is_last:
        made.output(fx.map_arg(output.args[0], values.__getitem__))
    else:
        sent = [node for node in nodes[: end + 1] if node in values and _is_used(node, end + 1, order)]
        sent += [node for node in nodes[end + 1 :] if node.op == "placeholder" and node in values]
        made.output(tuple(values[node] for node in sent))
    return fx.GraphModule(module, made)


def _is_used(node: fx.Node, begin: int, order: Mapping[fx.Node, int]) -> bool:
    return any(order[user] >= begin for user in node.users)


def _check_parameters(pipe: Pipe) -> None:
    owner: dict[int, tuple[int, str]] = {}
    for number in range(pipe.num_stages):
        for name, parameter in pipe.get_stage_module(number).named_parameters():
            before, known = owner.setdefault(id(parameter), (number, name))
            if before != number:
                raise NotImplementedError(
                    f"pipeline: stages {before} and {number} share the parameter {known!r} ({name!r}), whose gradients "
                    "are not added across stages; put both uses into one stage"
                )


def _try(pipe: Pipe, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run the stages in sequence on Meta tensors, to detect values that cannot pass between them."""
    from ...func import functional_call
    from ...utils._pytree import tree_map
    from .stage import _to_meta

    stage_args, stage_kwargs = tree_map(_to_meta, args), tree_map(_to_meta, kwargs)
    for number in range(pipe.num_stages):
        module = pipe.get_stage_module(number)
        state = {
            name: _to_meta(value) for name, value in [*module.named_parameters(), *module.named_buffers()]
        }
        stage_args = functional_call(module, state, stage_args, stage_kwargs)
        stage_kwargs = {}
        if number + 1 < pipe.num_stages:
            for each in stage_args:
                if not hasattr(each, "requires_grad"):
                    raise TypeError(
                        f"pipeline: stage {number} passes a {type(each).__name__} to the next stage, which accepts "
                        "only tensors"
                    )
