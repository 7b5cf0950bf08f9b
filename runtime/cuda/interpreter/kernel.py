"""Kernel in Triton's interpreter: launched with arguments of the types of its signature.

Importing this module patches the interpreter (`semantics`); from then on, this process compiles no kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..driver import CompiledKernel, Grid, check_grid, kernel_name
from ..simulated.driver import check_divisible, check_tensor_map
from ..tensor_map import DescribedTensor, descriptor_type
from .semantics import ProgramRunner, argument_type, described, scalar_or_pointer

if TYPE_CHECKING:
    from .driver import InterpreterDriver

_runner = ProgramRunner()


class InterpretedKernel(CompiledKernel):
    """Kernel bound to its constants; its arguments get the signature's exact types."""

    __slots__ = (
        "_constexprs",
        "_descriptors",
        "_divisible",
        "_driver",
        "_is_debugged",
        "_is_users",
        "_kernel",
        "_names",
        "_num_warps",
        "_types",
    )

    def __init__(
        self,
        driver: InterpreterDriver,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        is_users: bool = False,
        is_debugged: bool = False,
        num_warps: int = 4,
    ) -> None:
        """Bind a kernel.

        If `is_users`, uses of undefined lanes are reported; triten's own tests poison them. If `is_debugged`, the
        kernel's assertions are checked. Kernels ask for `num_warps`, which changes nothing else.
        """
        self.name = kernel_name(kernel)
        self._driver = driver
        self._kernel = kernel
        self._names = [name for name in kernel.arg_names if name in signature]
        descriptor_types = {name: descriptor_type(signature[name]) for name in self._names}
        self._descriptors = {name: each for name, each in descriptor_types.items() if each is not None}
        self._types = [
            argument_type(
                f"*{found_.element}" if (found_ := descriptor_types[name]) is not None else signature[name]
            )
            for name in self._names
        ]
        self._constexprs = dict(constexprs)
        self._divisible = divisible
        self._is_users = is_users
        self._is_debugged = is_debugged
        self._num_warps = num_warps

    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        self._launch({}, grid, stream, *values)

    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        return partial(self._launch, dict(zip(self._descriptors, tensors, strict=True)))

    def _launch(
        self, tensors: Mapping[str, DescribedTensor], grid: Grid, stream: int, *values: int | float
    ) -> None:
        check_grid(self.name, grid)
        if 0 in grid:
            return
        if len(values) != len(self._names):
            raise TypeError(
                f"kernel '{self.name}': expected {len(self._names)} arguments {self._names}, "
                f"got {len(values)}"
            )
        arguments = dict(self._constexprs)
        for name, type_, value in zip(self._names, self._types, values, strict=True):
            if name in self._divisible:
                check_divisible(self.name, name, int(value))
            try:
                arguments[name] = scalar_or_pointer(type_, value)
            except (OverflowError, TypeError, ValueError) as error:
                raise TypeError(
                    f"kernel '{self.name}': argument '{name}': expected {type_}, got {value!r}"
                ) from error
            if name in self._descriptors:
                arguments[name] = self._described(name, arguments[name], int(value), tensors)
        driver = self._driver
        driver.launch_kernel(
            self.name,
            grid,
            stream,
            lambda blocks: _runner.run(
                self._kernel,
                self.name,
                arguments,
                grid,
                blocks,
                self._is_users,
                self._is_debugged,
                self._num_warps,
            ),
        )

    def _described(self, name: str, base: Any, address: int, tensors: Mapping[str, DescribedTensor]) -> Any:
        """Return a descriptor as the kernel sees it. Refuse what `cuTensorMapEncodeTiled` refuses."""
        tensor, type_ = tensors.get(name), self._descriptors[name]
        if tensor is None:
            raise TypeError(
                f"kernel '{self.name}': tensor descriptor '{name}' was given no sizes and strides"
            )
        itemsize = base.dtype.element_ty.primitive_bitwidth // 8
        check_tensor_map(self.name, name, tensor, type_.block, itemsize, address)
        return described(base, tensor, type_.block)
