"""Registers collectives as operators: their schemas, kernels and derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from ...dispatch.autograd.registered_formula import formula_kernel
from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.core.kernel_function import KernelFunction
from ...dispatch.core.tags import Tag
from ...dispatch.custom_ops.custom_op import vmap_rules
from ...dispatch.schema.type_check import register_type_check
from ...runtime.dispatch_key import BY_NAME
from ..process_group import ProcessGroup
from ..work import Work
from . import kernels, meta
from .derivatives import formula_of
from .legacy import kernel_of
from .schemas import CLASSES, LEGACY_SCHEMAS, SCATTER_SCHEMA, SCHEMAS

TAGS = frozenset({Tag.pt2_compliant_tag, Tag.maybe_aliasing_or_mutating})
"""Graphs leave communications in their order, and none of them out: other processes wait for each."""


def register() -> None:
    """Define the operators, and register kernels for every backend."""
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
    for cls in (ProcessGroup, Work):
        name = f"{CLASSES}.{cls.__name__}"
        register_type_check(name, partial(_is_instance, cls), python_name=cls.__name__, exact_types=(cls,))
    name = SCATTER_SCHEMA.partition("(")[0]
    dispatcher.install(name, SCATTER_SCHEMA, __name__, TAGS)
    dispatcher.install_kernel(name, (explicit,), KernelFunction(kernels.scatter_, source=kernels.__name__))
    for schema in LEGACY_SCHEMAS:
        short = schema.partition("(")[0]
        name = f"c10d_functional::{short}"
        dispatcher.install(name, f"c10d_functional::{schema}", __name__, TAGS)
        kernel = KernelFunction(kernel_of(short), source=kernel_of.__module__)
        dispatcher.install_kernel(name, (BY_NAME["CompositeImplicitAutograd"],), kernel)


def _is_instance(cls: type, value: object) -> bool:
    return isinstance(value, cls)


def _refusal(name: str) -> Any:
    def refuse(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{name} is not supported under vmap: every process would have to map over as many examples. Call it on "
            "the whole batch."
        )

    return refuse
