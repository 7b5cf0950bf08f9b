"""Registers collectives as operators: their schemas, kernels and derivatives."""

from __future__ import annotations

from typing import Any, NoReturn

from ...dispatch.autograd.registered_formula import formula_kernel
from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.core.kernel_function import KernelFunction
from ...dispatch.core.tags import Tag
from ...dispatch.custom_ops.custom_op import vmap_rules
from ...runtime.dispatch_key import BY_NAME
from . import kernels, meta
from .derivatives import formula_of
from .schemas import SCHEMAS

TAGS = frozenset({Tag.pt2_compliant_tag, Tag.maybe_aliasing_or_mutating})
"""Graphs leave communications in their order, and none of them out: other processes wait for each."""


def register() -> None:
    """Define the operators, and give them kernels for every backend."""
    dispatcher = Dispatcher.singleton()
    explicit, on_meta, autograd = (BY_NAME[key] for key in ("CompositeExplicitAutograd", "Meta", "Autograd"))
    for namespace, schemas in SCHEMAS.items():
        for schema in schemas:
            short = schema.partition("(")[0]
            name = f"{namespace}::{short}"
            entry = dispatcher.install(name, f"{namespace}::{schema}", __name__, TAGS)
            function = getattr(kernels, short)
            dispatcher.install_kernel(name, (explicit,), KernelFunction(function, source=function.__module__))
            dispatcher.install_kernel(
                name, (on_meta,), KernelFunction(meta.KERNELS[short], source=meta.__name__)
            )
            formula = formula_of(entry, short)
            if formula is not None:
                kernel = KernelFunction(
                    formula_kernel(entry, formula), takes_key_set=True, source=formula_of.__module__
                )
                dispatcher.install_kernel(name, (autograd,), kernel)
            vmap_rules[name] = _refusal(name)


def _refusal(name: str) -> Any:
    def refuse(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{name} is not supported under vmap: every process would have to map over as many examples. Call it on "
            "the whole batch."
        )

    return refuse
