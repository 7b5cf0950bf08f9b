"""What an operator's declaration says, as frozen dataclasses (torchgen/model.py is the example).

A `NativeFunction` is one entry of a YAML file, or one that ``autogen`` derives from it; it round-trips to
the entry's fields. Everything is checked here, with the place in the file, so that generators trust it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

from ...runtime.dispatch_key import BY_NAME
from ..schema import FunctionSchema, OperatorName, parse_name, parse_schema
from ..schema.function_schema import AliasInfo, Argument, Return
from .docs import OperatorDocs
from .location import Location, ModelError

FIELDS = frozenset(
    {
        "autogen",
        "device_check",
        "device_guard",
        "dispatch",
        "docs",
        "exact_out",
        "func",
        "meta",
        "planner",
        "precomputed",
        "python_binding",
        "python_module",
        "structured",
        "structured_delegate",
        "strided_out",
        "structured_inherits",
        "stub",
        "tags",
        "variants",
        "wrapped_numbers",
    }
)
BACKENDS = ("CPU", "CUDA", "Meta")
IGNORED_BACKENDS = frozenset(
    {
        "CompositeImplicitAutogradNestedTensor",
        "MKLDNN",
        "MPS",
        "MTIA",
        "Mkldnn",
        "MkldnnCPU",
        "NestedTensorCPU",
        "NestedTensorCUDA",
        "NestedTensorHPU",
        "NestedTensorMeta",
        "ZeroTensor",
    }
)
"""Entries for libraries and layouts that are not built: parsed, and then left alone."""


@dataclass(frozen=True)
class NativeFunction:
    """One operator.

    `meta`, `stub` and `planner` name functions of the family's module in `structured/meta/`; `dispatch` maps
    keys to functions of `composite/`. `wrapped_numbers` lets Python numbers stand for tensors, as PyTorch's
    parser does for arithmetic; ``rest`` for all but the first, ``src`` for the second alone, ``one`` where
    another argument is a tensor. `python_binding` is false for overloads that only the dispatcher knows, and
    ``positional`` for those that Python reaches through another overload's signature (``x.softmax("C")``),
    ``keywords`` where that signature takes those of its parameters that no other overload has by keyword alone,
    and ``either`` for both. `written` marks the in-place and ``out=`` forms that ``autogen`` makes of a
    composite: its result, copied to where they want it. `docs` stands on the first entry of a name alone.
    """

    schema: FunctionSchema
    family: str
    location: Location
    variants: frozenset[str] = frozenset({"function"})
    structured: bool = False
    structured_delegate: str | None = None
    structured_inherits: str | None = None
    precomputed: tuple[str, ...] = ()
    autogen: tuple[str, ...] = ()
    dispatch: tuple[tuple[str, str], ...] = ()
    device_check: str | None = None
    device_guard: bool = True
    python_module: str | None = None
    python_binding: bool | str = True
    tags: frozenset[str] = frozenset()
    meta: str | None = None
    stub: str | None = None
    planner: str | None = None
    wrapped_numbers: bool | str = False
    form: str = field(default="functional")
    exact_out: bool = False
    strided_out: bool = False
    written: bool = field(default=False)
    docs: OperatorDocs | None = None

    @property
    def name(self) -> OperatorName:
        """The operator's name and overload."""
        return self.schema.operator_name

    @property
    def base(self) -> str:
        """The public name, in-place underscore included."""
        return self.name.base_name

    @property
    def identifier(self) -> str:
        """The name and overload as one Python identifier, such as ``add_Tensor``."""
        return f"{self.base}_{self.name.overload}" if self.name.overload else self.base

    @property
    def is_view(self) -> bool:
        """Whether the operator returns a view of its first argument."""
        return self.structured_inherits == "ViewBase"

    def to_fields(self) -> dict[str, Any]:
        """Return the YAML fields that this declaration was parsed from."""
        out: dict[str, Any] = {"func": str(self.schema)}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if (
                each.name in ("schema", "family", "location", "form", "written")
                or value == each.default
                or value == ()
            ):
                continue
            if each.name in ("variants", "tags", "autogen"):
                value = ", ".join(sorted(value) if isinstance(value, frozenset) else value)
            elif each.name == "dispatch":
                value = dict(value)
            elif each.name == "precomputed":
                value = list(value)
            elif each.name == "docs":
                value = value.to_fields()
            out[each.name] = value
        if out.get("variants") == "function":
            del out["variants"]
        return out

    @staticmethod
    def from_fields(fields: dict[str, Any], family: str, location: Location) -> NativeFunction:
        """Parse one entry. Raises ModelError for an unknown field or a contradiction."""
        unknown = sorted(set(fields) - FIELDS)
        if unknown:
            raise ModelError(f"{location}: unknown fields {unknown}; known are {sorted(FIELDS)}")
        if "func" not in fields:
            raise ModelError(f"{location}: an entry needs a 'func'")
        schema = parse_schema(fields["func"], str(location))
        variants = frozenset(_words(fields.get("variants", "function")))
        if not variants <= {"function", "method"}:
            raise ModelError(f"{location}: variants are function and method, got {sorted(variants)}")
        dispatch: list[tuple[str, str]] = []
        for keys, kernel in (fields.get("dispatch") or {}).items():
            for key in _words(keys):
                if key in IGNORED_BACKENDS:
                    continue
                if key not in BY_NAME:
                    raise ModelError(f"{location}: dispatch of {schema.operator_name} names no key: {key}")
                dispatch.append((key, kernel))
        made = NativeFunction(
            schema=schema,
            family=family,
            location=location,
            variants=variants,
            structured=bool(fields.get("structured", False)),
            structured_delegate=fields.get("structured_delegate"),
            structured_inherits=fields.get("structured_inherits"),
            precomputed=tuple(str(p) for p in fields.get("precomputed", ())),
            autogen=tuple(_words(fields.get("autogen", ""))),
            dispatch=tuple(dispatch),
            device_check=fields.get("device_check"),
            device_guard=bool(fields.get("device_guard", True)),
            python_module=fields.get("python_module"),
            python_binding=_binding(fields.get("python_binding", True), location),
            tags=frozenset(_words(fields.get("tags", ""))),
            meta=fields.get("meta"),
            stub=fields.get("stub"),
            planner=fields.get("planner"),
            wrapped_numbers=fields.get("wrapped_numbers", False),
            exact_out=bool(fields.get("exact_out", False)),
            strided_out=bool(fields.get("strided_out", False)),
            form=form_of(schema),
            docs=OperatorDocs.from_fields(fields["docs"], location) if "docs" in fields else None,
        )
        if made.structured and made.structured_delegate:
            raise ModelError(
                f"{location}: {schema.operator_name} is structured and delegates; it can be one of them"
            )
        if "method" in variants and not any(a.name == "self" for a in schema.arguments):
            raise ModelError(f"{location}: a method needs an argument 'self': {schema}")
        if not (made.structured or made.structured_delegate or made.planner or made.dispatch):
            made = replace(made, dispatch=(("CompositeImplicitAutograd", made.base),))
        return made

    def derive(self, name: str) -> NativeFunction:
        """Return the in-place or ``out=`` form of this functional operator that ``autogen`` names.

        The result of the overload ``grad_input`` has that name.
        """
        derived_name = parse_name(name)
        alias = AliasInfo(("a",), ("a",), True)
        arguments = list(self.schema.arguments)
        if derived_name.base_name == self.base + "_":
            arguments[0] = arguments[0].replaced(alias_info=alias)
            returns: tuple[Return, ...] = (self.schema.returns[0].replaced(alias_info=alias),)
        elif derived_name.base_name == self.base:
            returns = ()
            letters = "abcdefgh"
            has_several = len(self.schema.returns) > 1
            only = "grad_input" if derived_name.overload == "grad_input" else "out"
            for number, (letter, each) in enumerate(zip(letters, self.schema.returns, strict=False)):
                mark = AliasInfo((letter,), (letter,), True)
                out = Argument(
                    each.name or f"out{number}" if has_several else only,
                    each.type,
                    kwarg_only=True,
                    alias_info=mark,
                )
                arguments.append(out)
                returns += (each.replaced(alias_info=mark),)
        else:
            raise ModelError(
                f"{self.location}: autogen {name} is neither {self.base}_ nor an out= form of {self.base}"
            )
        schema = self.schema.replaced(operator_name=derived_name, arguments=tuple(arguments), returns=returns)
        form = form_of(schema)
        variants = frozenset({"method"}) if form == "inplace" else frozenset({"function"})
        if form == "inplace" and "function" in self.variants:
            variants |= {"function"}
        # Python's functions have no argument grad_input: derivatives call them, operators go by `tt.ops`.
        binding = False if derived_name.overload == "grad_input" else self.python_binding
        if not self.structured:
            return replace(
                self,
                schema=schema,
                form=form,
                variants=variants,
                python_binding=binding,
                autogen=(),
                written=True,
                docs=None,
            )
        return replace(
            self,
            python_binding=binding,
            schema=schema,
            form=form,
            variants=variants,
            autogen=(),
            meta=self.meta or self.base,
            stub=self.stub or f"{self.base}_stub",
            docs=None,
        )


def form_of(schema: FunctionSchema) -> str:
    """``inplace``, ``out`` or ``functional``."""
    if schema.is_inplace:
        return "inplace"
    return "out" if schema.out_arguments else "functional"


def _binding(value: Any, location: Location) -> bool | str:
    if value not in (True, False, "positional", "keywords", "either"):
        raise ModelError(
            f"{location}: python_binding is True, False, positional, keywords or either, got {value!r}"
        )
    return value  # type: ignore[no-any-return]


def _words(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(v).strip() for v in value]
    return [word.strip() for word in str(value).split(",") if word.strip()]


__all__ = ["BACKENDS", "FIELDS", "Location", "ModelError", "NativeFunction", "form_of"]
