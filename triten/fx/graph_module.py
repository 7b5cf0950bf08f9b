"""`GraphModule`: a module whose `forward` is generated from a graph (torch/fx/graph_module.py)."""

from __future__ import annotations

import copy
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..dispatch.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.modules.parameter import Parameter
from ..runtime.traceback_filter import hide_inner_frames
from .code_generation import PythonCode, PyTreeCodeGen
from .generated_code import MARK, compiled_function, explained, import_block
from .graph import Graph
from .namespace import known_globals
from .qualified_names import ROOT, root_name

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer

__all__ = ["GraphModule", "reduce_graph_module"]

Hook = Callable[..., object]

_KEPT_BY_COPIES = (
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_replace_hooks",
    "_create_node_hooks",
    "_erase_node_hooks",
    "_deepcopy_hooks",
)


class _Attributes(Module):
    """The attributes of a `GraphModule` without its graph: what a copy is made from."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = attributes


def _get_attr(model: Module, attr_name: str) -> Any:
    """Return the attribute with a dotted name.

    Raises:
        AttributeError: The attribute does not exist.
    """
    attribute: Any = model
    for name in attr_name.split("."):
        attribute = getattr(attribute, name)
    return attribute


def _parent_for(module: Module, path: list[str]) -> Module:
    """Return the submodule at a path; create empty modules for missing ones."""
    for name in path:
        child = getattr(module, name, None)
        if child is None:
            child = Module()
            setattr(module, name, child)
        module = child
    return module


def _assign_attr(value: Any, module: Module, target: str) -> None:
    """Put a value at a dotted name; a tensor that is no parameter becomes a buffer."""
    *path, name = target.split(".")
    parent = _parent_for(module, path)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        parent.register_buffer(name, value)
    else:
        setattr(parent, name, value)


def _copy_attr(source: Module, module: Module, target: str) -> None:
    """Take the attribute of a dotted name over, unless a module above it has been taken over."""
    *path, _ = target.split(".")
    theirs, ours = source, module
    for name in path:
        theirs, ours = getattr(theirs, name), getattr(ours, name, None)  # type: ignore[assignment]
        if theirs is ours:
            return
        if ours is None:
            break
    _assign_attr(_get_attr(source, target), module, target)


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Rebuild a module from its pickle: compile its code and trace it again.

    Args:
        body: The module's attributes, without its graph.
        import_block: The imports that its code needs.
    """
    from ._symbolic_trace import Tracer

    tracer_cls: Any = body.get("_tracer_cls") or Tracer

    class Restored(_Attributes):
        forward = compiled_function(f"{import_block}\n{body['_code']}", {})

    class KeepsModules(tracer_cls):  # type: ignore[misc]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    attributes = Restored(body)
    stacks = body.pop("_node_stacks", {})
    graph = KeepsModules().trace(attributes, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer_cls
    for node in graph.nodes:
        if node.name in stacks:
            node.stack_trace = stacks[node.name]
    made = GraphModule(attributes, graph)
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


class GraphModule(Module):
    """A module that runs a graph, as Python code that is written from it.

    Assign `graph`, or change it and call `recompile`, and `forward` does something else. An error in the generated code
    prints its lines to the standard error stream. A pickle holds the code, and loading one traces it anew.

    Args:
        root: holds what the graph names: a module, or a dict from dotted names to values.
        graph: the steps.
        class_name: the name of the class, for texts.

    Source: torch.fx.GraphModule.

    Example:
        >>> import triten as tt
        >>> module = tt.fx.symbolic_trace(tt.nn.Sequential(tt.nn.ReLU(), tt.nn.Flatten()))
        >>> for node in module.graph.find_nodes(op="call_module", target="1"):
        ...     node.replace_all_uses_with(node.args[0])
        ...     module.graph.erase_node(node)
        [output]
        >>> _ = module.recompile()
        >>> print(module.code.strip())
        def forward(self, input):
            input_1 = input
            _0 = getattr(self, "0")(input_1);  input_1 = None
            return _0
        >>> module(tt.tensor([[-1.0, 2.0]]))
        tensor([[0., 2.]])
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # `forward` is a class attribute, so each module gets its own subclass of the class that the program knows.
        base = next(each for each in cls.__mro__ if not each.__dict__.get("_is_of_one_module", False))
        own: Any = type(base.__name__, (base,), {"_is_of_one_module": True, "__module__": base.__module__})
        return super().__new__(own)  # type: ignore[no-any-return]

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _Attributes):
                for members in (root.named_children(), root.named_buffers(), root.named_parameters()):
                    for name, _ in members:
                        _copy_attr(root, self, name)
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda target: target.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        tracer_cls = graph._tracer_cls
        is_local = tracer_cls is not None and "<locals>" in tracer_cls.__qualname__
        self._tracer_cls: type[Tracer] | None = None if is_local else tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Hook] = []
        self._create_node_hooks: list[Hook] = []
        self._erase_node_hooks: list[Hook] = []
        self._deepcopy_hooks: list[Hook] = []
        self.graph = graph

    # The graph and its code

    @property
    def graph(self) -> Graph:
        """The steps; assigning another graph writes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"expected a Graph instance, but got {type(graph)}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Write `forward` anew after the graph was changed; modules below that have graphs write theirs."""
        graph = self._graph
        if isinstance(graph._codegen, PyTreeCodeGen):
            self._in_spec = graph._codegen.pytree_info.in_spec
            self._out_spec = graph._codegen.pytree_info.out_spec
        code = graph.python_code("self")
        self._code = code.src
        cls: Any = type(self)
        cls.forward = compiled_function(code.src, code.globals, graph._codegen._func_name, graph._co_fields)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if frames and frames[-1].filename.startswith(MARK):
                print(explained(frames[-1]), file=sys.stderr)
                raise error.with_traceback(None)  # noqa: B904 - the same error
            hide_inner_frames()
            raise

    # Submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted name, with empty modules above it where there are none.

        Returns:
            whether it was put there: not if something else than a module is in the way.
        """
        *path, name = target.split(".")
        parent: Any = self
        for each in path:
            child = getattr(parent, each, None)
            if child is None:
                child = Module()
                setattr(parent, each, child)
            if not isinstance(child, Module):
                return False
            parent = child
        parent.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module of a dotted name. Returns whether there was one."""
        path, _, name = target.rpartition(".")
        parent: Any = self
        for each in path.split(".") if path else ():
            parent = getattr(parent, each, None)
            if not isinstance(parent, Module):
                return False
        if not isinstance(getattr(parent, name, None), Module):
            return False
        delattr(parent, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that the graph neither calls nor names, directly or as part of another."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            names = node.target.split(".")
            used.update(".".join(names[: i + 1]) for i in range(len(names)))
            if node.op == "call_module":
                try:
                    called = self.get_submodule(node.target)
                except AttributeError:
                    continue
                used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # Copies

    def __reduce__(self) -> tuple[Any, ...]:
        names = self.recompile().globals
        body = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        stacks = {node.name: node.stack_trace for node in self.graph.nodes if node.stack_trace}
        if stacks:
            body["_node_stacks"] = stacks
        return reduce_graph_module, (body, import_block(names))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        attributes = _Attributes(copy.deepcopy(self.__dict__, memo))
        GraphModule.__init__(made, attributes, attributes.__dict__["_graph"], type(self).__name__)
        for name in _KEPT_BY_COPIES:
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name], memo))
        made.meta = copy.deepcopy(self.meta, memo)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = self.meta
        return made

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as Python: a folder with its code and its weights, from which `module_name` is imported.

        Args:
            folder: made if it is not there.
            module_name: the class that the folder's package has.
        """
        from .. import nn
        from ..serialization import save

        path = Path(folder)
        path.mkdir(exist_ok=True)
        save(self.state_dict(), path / "state_dict.pt")
        plain = (
            *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
            *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
        )
        root = root_name()
        lines = ["from pathlib import Path", *(known.import_text for known in known_globals().values())]
        lines += [f"from {ROOT}.nn import *", "", ""]
        lines += [f"class {module_name}({root}.nn.Module):", "    def __init__(self):"]
        body = ["super().__init__()", "here = Path(__file__).parent"]
        for name, module in self.named_children():
            if type(module) in plain:
                body.append(
                    f"self.{name} = {module!r}"
                    if name.isidentifier()
                    else f"setattr(self, '{name}', {module!r})"
                )
            else:
                save(module, path / f"{name}.pt")
                body.append(f"setattr(self, '{name}', {root}.load(here / '{name}.pt', weights_only=False))")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                empty = f"{root}.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                body.append(f"self.register_buffer('{name}', {empty})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                empty = f"{root}.empty({list(parameter.shape)}, dtype={parameter.dtype})"
                body.append(f"self.{name} = {root}.nn.Parameter({empty})")
        body.append(f"self.load_state_dict({root}.load(here / 'state_dict.pt'))")
        lines += [f"        {line}" for line in body]
        lines += [f"    {line}".rstrip() for line in self.code.split("\n")]
        (path / "module.py").write_text("\n".join(lines).rstrip() + "\n")
        (path / "__init__.py").write_text("from .module import *\n")

    # Hooks, which passes that follow changes use

    def _register_replace_node_hook(self, f: Hook) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Hook) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Hook) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Hook) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Hook) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Hook) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Hook) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Hook) -> None:
        self._deepcopy_hooks.remove(f)

    @contextmanager
    def _set_replace_hook(self, f: Hook) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    # Printing

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Return the annotated code of the module and of its submodules that have graphs.

        Args:
            print_output: If True, also print the code. Default: True.
            include_stride, include_device: If True, show strides and devices of tensors. Default: False.
            colored: If True, use terminal colors. Default: False.
        """
        text = _readable(self, self._get_name(), include_stride, include_device, colored)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self.code, hint])


def _readable(
    module: GraphModule, name: str, include_stride: bool, include_device: bool, colored: bool
) -> str:
    code = module.graph.python_code(
        "self", verbose=True, include_stride=include_stride, include_device=include_device, colored=colored
    )
    text = _indented(f"class {name}({root_name()}.nn.Module):\n" + code.src.lstrip("\n"))
    below = [
        _readable(child, child_name, include_stride, include_device, colored)
        for child_name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return text + _indented("\n".join(["", *below]))


def _indented(text: str) -> str:
    """Indent all lines but the first by four columns."""
    first, *lines = text.split("\n")
    return "\n".join([first, *(f"    {line}" if line.strip() else "" for line in lines)])
