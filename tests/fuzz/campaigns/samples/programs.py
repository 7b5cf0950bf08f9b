"""A case as a program, which is the same for both libraries."""

from typing import Any

import numpy as np

from .values import argument_places, array_of_storage, contiguous, is_tensor, numpy_dtype

MAX_SHOWN = 64


def program(case: dict[str, Any]) -> str:
    """Return lines that a person can paste: the arguments, then the call."""
    lines = ["import numpy as np", "import triten as tt  # or: import torch as tt"]
    used = sorted({value["tensor"][0] for _, value in argument_places(case) if is_tensor(value)})
    device = "" if case["device"] == "cpu" else f", device={case['device']!r}"
    for number in used:
        name = case["storages"][number][0]
        lines.append(
            f"s{number} = tt.tensor({_values(array_of_storage(case['storages'][number]))}, dtype=tt.{name}{device})"
        )
    arguments = [_text(case, value) for value in case["arguments"]]
    arguments += [f"{name}={_text(case, value)}" for name, value in case["named"].items()]
    lines.append(f"result = tt.{case['call']}({', '.join(arguments)})")
    if case["backward"]:
        lines.append("# and the gradients of the results, with ones, by every tensor that asks for them")
    return "\n".join(lines)


def _values(array: np.ndarray) -> str:
    kind = numpy_dtype(array.dtype.name).kind
    wide: Any = complex if kind == "c" else array.dtype if kind in "iub" else np.float64
    items = array.astype(wide).tolist()
    rest = (
        f" + [1] * {len(items) - MAX_SHOWN}" if len(items) > MAX_SHOWN else ""
    )  # a cut one is close, not the case
    return _number_text(items[:MAX_SHOWN]) + rest


def _number_text(value: Any) -> str:
    return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")


def _text(case: dict[str, Any], value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_text(case, item) for item in value)}]"
    if not isinstance(value, dict):
        return _number_text(value) if isinstance(value, float) else repr(value)
    [kind] = value.keys() - {"grad"}
    content = value[kind]
    match kind:
        case "tensor":
            number, sizes, strides, offset = content
            length = len(array_of_storage(case["storages"][number]))
            text = f"s{number}"
            if strides != contiguous(sizes) or offset or length != int(np.prod(sizes)):
                text += f".as_strided({tuple(sizes)}, {tuple(strides)}, {offset})"
            elif len(sizes) != 1:
                text += f".reshape({tuple(sizes)})"
            return text + (".detach().requires_grad_()" if value.get("grad") else "")
        case "tuple":
            inside = ", ".join(_text(case, item) for item in content)
            return f"({inside},)" if len(content) == 1 else f"({inside})"
        case "dtype" | "memory_format" | "layout":
            return f"tt.{content}"
        case "device":
            return f"tt.device({content!r})"
        case "complex":
            return f"complex({_number_text(content[0])}, {_number_text(content[1])})"
        case "numpy":
            return f"np.{content[0]}({_number_text(content[1])})"
        case "array":
            return f"np.array({content})"
        case "slice":
            return f"slice({', '.join(map(repr, content))})"
        case "ellipsis":
            return "..."
        case "object":
            return "object()"
    return "{}"
