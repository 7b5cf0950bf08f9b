"""Parallel styles that redistribute a module's inputs and outputs, and leave its parameters unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...mesh import DeviceMesh
from ..placements import Placement
from .style import ParallelStyle, as_distributed

if TYPE_CHECKING:
    from ....nn import Module

__all__ = ["PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput"]

Layouts = Placement | Sequence[Placement | None] | None
"""One placement for a single value, or one per value; None for a value that stays unchanged."""


def _each(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    if isinstance(layouts, Placement):
        return (layouts,)
    return None if layouts is None else tuple(layouts)


def _prepared(
    value: Any, mesh: DeviceMesh, now: Placement | None, desired: Placement | None, local: bool
) -> Any:
    """Redistribute a value to the wanted placement. Return it unchanged if its placement is unknown."""
    if now is None:
        return value
    made = as_distributed(value, mesh, (now,), None if desired is None or desired == now else (desired,))
    return made.to_local() if local else made


class PrepareModuleInput(ParallelStyle):
    """Inputs that come to lie as they are wanted (`torch.distributed.tensor.parallel.PrepareModuleInput`).

    Args:
        input_layouts: Placements of positional inputs that are plain tensors; None leaves an input unchanged.
        desired_input_layouts: Wanted placements of these inputs.
        input_kwarg_layouts: the same of inputs by name.
        desired_input_kwarg_layouts: the same of inputs by name.
        use_local_output: If True, this rank's parts are passed on as plain tensors, otherwise as `DTensor`.

    Raises:
        AssertionError: there are not as many wanted layouts as layouts.
    """

    _SAID = (
        "input_layouts",
        "desired_input_layouts",
        "input_kwarg_layouts",
        "desired_input_kwarg_layouts",
        "use_local_output",
    )

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts, self.desired_input_layouts = _each(input_layouts), _each(desired_input_layouts)
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.use_local_output = use_local_output
        if self.input_layouts is not None and self.desired_input_layouts is None:
            raise AssertionError("desired module inputs should not be None!")
        if len(self.input_layouts or ()) != len(self.desired_input_layouts or ()):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def prepare(own: Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
            local = self.use_local_output
            if self.input_layouts is not None:
                if len(inputs) != len(self.input_layouts):
                    raise ValueError(
                        f"module inputs and input_layouts should have same length! Got {len(inputs)} inputs of "
                        f"{type(own).__name__} and {len(self.input_layouts)} layouts"
                    )
                layouts = zip(inputs, self.input_layouts, self.desired_input_layouts or (), strict=True)
                inputs = tuple(
                    [_prepared(x, device_mesh, now, desired, local) for x, now, desired in layouts]
                )
            by_name = {
                name: _prepared(
                    value,
                    device_mesh,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                    local,
                )
                for name, value in named.items()
            }
            return inputs, by_name

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Outputs that come to lie as they are wanted (`torch.distributed.tensor.parallel.PrepareModuleOutput`).

    Args:
        output_layouts: Placements of outputs that are plain tensors; None leaves an output unchanged.
        desired_output_layouts: Wanted placements of these outputs.
        use_local_output: If True, this rank's parts are passed on as plain tensors, otherwise as `DTensor`.

    Raises:
        AssertionError: there are not as many wanted layouts as layouts.
    """

    _SAID = ("output_layouts", "desired_output_layouts", "use_local_output")

    def __init__(
        self,
        *,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _each(output_layouts) or ()
        self.desired_output_layouts = _each(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def finish(own: Module, inputs: Any, output: Any) -> Any:
            outputs = output if isinstance(output, tuple) else (output,)
            if len(outputs) != len(self.output_layouts):
                raise ValueError(
                    f"module outputs and output_layouts should have same length! Got {len(outputs)} outputs of "
                    f"{type(own).__name__} and {len(self.output_layouts)} layouts"
                )
            layouts = zip(outputs, self.output_layouts, self.desired_output_layouts, strict=True)
            local = self.use_local_output
            made = [_prepared(x, device_mesh, now, desired, local) for x, now, desired in layouts]
            return made[0] if len(made) == 1 else tuple(made)

        module.register_forward_hook(finish)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both (`torch.distributed.tensor.parallel.PrepareModuleInputOutput`).

    Args:
        input_layouts: as for `PrepareModuleInput`.
        desired_input_layouts: as for `PrepareModuleInput`.
        input_kwarg_layouts: as for `PrepareModuleInput`.
        desired_input_kwarg_layouts: as for `PrepareModuleInput`.
        use_local_input: If True, the module gets this rank's parts as plain tensors, otherwise a
            `DTensor` of each.
        output_layouts: as for `PrepareModuleOutput`.
        desired_output_layouts: as for `PrepareModuleOutput`.
        use_local_output: as for `PrepareModuleOutput`.
    """

    _SAID = ("prepare_module_input", "prepare_module_output")

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
