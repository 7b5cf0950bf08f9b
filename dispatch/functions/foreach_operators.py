"""Kernels of the operators over lists of tensors: the functions of `foreach`, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.dispatch_key import BY_NAME
from ..core.dispatcher import Dispatcher
from ..core.foreach_schemas import SCHEMAS
from ..core.kernel_function import KernelFunction
from .foreach import FOREACH, whole_calls


def _kernel(name: str, keyword: str | None) -> Callable[..., Any]:
    """Return a function as a kernel, which calls the parts in modes too; `keyword` names its last argument."""
    function = FOREACH[name]

    def kernel(*args: Any) -> Any:
        named: dict[str, Any] = {}
        if keyword is not None:
            *args, value = args  # type: ignore[assignment]
            named = {} if keyword == "alpha" and value == 1 else {keyword: value}
        with whole_calls.seen():
            result = function(*args, **named)
        return None if name.endswith("_") else list(result)

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def register() -> None:
    """Define the operators."""
    dispatcher = Dispatcher.singleton()
    implicit = BY_NAME["CompositeImplicitAutograd"]
    for name, schema in SCHEMAS.items():
        dispatcher.install(name, schema, __name__, frozenset())
        base = name.removeprefix("aten::").partition(".")[0]
        keyword = "alpha" if " alpha=" in schema else "memory_format" if " memory_format=" in schema else None
        kernel = KernelFunction(_kernel(base, keyword), source=__name__)
        dispatcher.install_kernel(name, (implicit,), kernel)
