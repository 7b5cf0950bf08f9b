"""Hold the layouts of results beside PyTorch's: strides, dtypes, storage offsets, and what is a view of what.

PyTorch's users rely on more than values: a channels-last image stays channels-last through a network, a transposed
operand gives a transposed sum, and a view is a view on every device. This program takes the sample inputs of
PyTorch's OpInfo database, lays them out in several ways, and compares results on PyTorch's CPU and Meta devices with
ours. It needs a virtual environment with torch (CPU), expecttest and the project:

    python tests/compatibility/layouts_of_results.py --ops '^(add|nn.functional.conv2d)$'
    python tests/compatibility/layouts_of_results.py --form inplace
    TRITEN_CUDA=interpret python tests/compatibility/layouts_of_results.py --device cuda --max-numel 512

What is found is put in classes, worst first:

- `raises`: PyTorch takes the sample in that layout and we refuse it;
- `layout`: PyTorch's CPU and Meta agree, and we differ in shape, dtype, storage offset or view, or in a stride that
  can be seen (of a dimension longer than 1, of a tensor with elements);
- `devices`: our own devices differ, where PyTorch's agree with each other or not;
- `disputed`: PyTorch's own CPU and Meta differ, and ours differ from its CPU;
- `unseen`: what differs are strides of dimensions of size 1, or of tensors without elements, or whether a result is
  a view of a tensor that nobody has.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import warnings
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

import triten as tt

# Not comparable: tools of PyTorch's own, sparse operands, in-place methods whose samples are given a copy.
SKIPPED = re.compile(
    r"^(jiterator_.*|torch\.ops\..*|masked\..*|sparse\..*|to_sparse|resize_|resize_as_|zero_"
    r"|max_pool2d_with_indices_backward)$"
)
# Samples in another order than the operator's own arguments.
ORDER = {
    "polygamma": (1, 0),
    "special.polygamma": (1, 0),
    "where": (1, 0, 2),
    "nn.functional.embedding": (1, 0),
}
IN_PLACE_ONLY = {"cauchy", "exponential", "geometric", "log_normal", "uniform"}
LAYOUTS = ("contiguous", "transposed", "reversed", "channels_last", "expanded", "sliced", "first_transposed")


class Refused(Exception):
    """The sample cannot be taken over: sparse, too large, an object of PyTorch's own."""


class TimeUp(Exception):
    """An operator has had its seconds."""


class Result(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]
    offset: int
    is_view: bool
    shares: tuple[int, ...]  # which tensor arguments have the same storage

    def seen(self) -> Result:
        """Without the strides that no element shows."""
        empty = 0 in self.shape
        stride = tuple(0 if empty or n == 1 else s for n, s in zip(self.shape, self.stride, strict=True))
        # Nobody can reach the base of a view that shares nothing with the arguments; nor any element of none.
        is_view = self.is_view and bool(self.shares) and not empty
        return self._replace(
            stride=stride,
            is_view=is_view,
            offset=0 if empty else self.offset,
            shares=() if empty else self.shares,
        )


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, (torch.Tensor, tt.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_in(item)]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors_in(item)]
    return []


def mapped(value: Any, of_tensor: Any, of_other: Any = lambda x: x) -> Any:
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(v, of_tensor, of_other) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(v, of_tensor, of_other) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, of_tensor, of_other) for k, v in value.items()}
    return of_other(value)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The tensor's values in another layout (an expanded one repeats its first column)."""
    tensor = tensor.detach()
    if layout == "contiguous" or tensor.ndim == 0:
        return tensor.contiguous()
    if layout == "transposed":
        if tensor.ndim < 2:
            return tensor.contiguous()
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "reversed":
        dims = tuple(reversed(range(tensor.ndim)))
        return tensor.permute(dims).contiguous().permute(dims)
    if layout == "channels_last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return tensor.contiguous(memory_format=formats.get(tensor.ndim, torch.contiguous_format))
    if layout == "expanded":
        if not tensor.numel() or tensor.ndim < 2:
            return tensor.contiguous()
        return tensor[..., :1].clone(memory_format=torch.contiguous_format).expand(tensor.shape)
    wide = torch.repeat_interleave(tensor, 2, dim=-1).contiguous()
    return wide[..., ::2]


class Sample:
    """A sample's arguments in one layout, made anew for PyTorch and for us."""

    def __init__(self, op: Any, sample: Any, layout: str, max_numel: int, in_place: bool) -> None:
        self.in_place = in_place
        arguments, keywords = [sample.input, *sample.args], dict(sample.kwargs)
        self.name = op.name
        count = 0

        def take(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal count
            if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
                raise Refused("layout")
            if tensor.numel() > max_numel:
                raise Refused("large")
            tensor = tensor.detach().resolve_conj().resolve_neg()
            count += 1
            if layout == "first_transposed":
                return laid_out(tensor, "transposed" if count == 1 else "contiguous")
            return laid_out(tensor, layout)

        self.arguments = mapped(arguments, take)
        self.keywords = mapped(keywords, take)

    def for_torch(self, device: str) -> tuple[list[Any], dict[str, Any]]:
        def copied(tensor: torch.Tensor) -> torch.Tensor:
            base = torch.as_strided(tensor, (tensor.untyped_storage().size() // tensor.itemsize,), (1,), 0)
            base = base.clone() if device == "cpu" else base.to(device)
            if is_plain(tensor):
                return base.view(tensor.shape).detach()
            return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

        def other(value: Any) -> Any:
            return torch.device(device) if isinstance(value, torch.device) and value.type == "cpu" else value

        return mapped(self.arguments, copied, other), mapped(self.keywords, copied, other)

    def for_us(self, device: str) -> tuple[list[Any], dict[str, Any]]:
        def copied(tensor: torch.Tensor) -> tt.Tensor:
            base = torch.as_strided(tensor, (tensor.untyped_storage().size() // tensor.itemsize,), (1,), 0)
            ours = tt.empty(base.shape, dtype=ours_named(tensor.dtype), device=device)
            if device != "meta":
                if base.dtype == torch.bfloat16:
                    ours.view(tt.int16).copy_(tt.from_numpy(base.view(torch.int16).numpy().copy()))
                else:
                    ours.copy_(tt.from_numpy(base.numpy().copy()))
            if is_plain(tensor):
                return ours.view(tuple(tensor.shape)).detach()
            return ours.as_strided(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

        def other(value: Any) -> Any:
            if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
                return ours_named(value)
            if isinstance(value, torch.device):
                return tt.device(device if value.type == "cpu" else str(value))
            if isinstance(value, (torch.Generator, torch.nn.Module)) or (
                callable(value) and not isinstance(value, type)
            ):
                raise Refused(type(value).__name__)
            return value

        arguments = mapped(self.arguments, copied, other)
        keywords = mapped(self.keywords, copied, other)
        if self.name in ORDER and not self.in_place:
            arguments = [arguments[i] for i in ORDER[self.name]]
        elif self.name == "einsum":
            arguments = [arguments[1], *arguments[0]]
        return arguments, keywords


def is_plain(tensor: torch.Tensor) -> bool:
    whole = tensor.untyped_storage().size() == tensor.numel() * tensor.itemsize
    return tensor.is_contiguous() and whole and tensor.numel() > 0


def ours_named(value: Any) -> Any:
    name = str(value).removeprefix("torch.")
    if not hasattr(tt, name):
        raise Refused(name)
    return getattr(tt, name)


def ours_of(op: Any, form: str) -> Any:
    """Our function of an operator, or None; for the in-place form, the method."""
    name = op.name
    if form == "inplace" or name in IN_PLACE_ONLY or op.variant_test_name == "in_place":
        return getattr(tt.Tensor, name.removesuffix("_") + "_", None)
    found: Any = tt
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if callable(found):
        return found
    method = getattr(tt.Tensor, name, None)
    if method is None or callable(method):
        return method
    return lambda x: getattr(x, name)


def results_of(value: Any, inputs: list[Any]) -> list[Result]:
    results = []
    for tensor in tensors_in(value):
        if isinstance(tensor, torch.Tensor):
            if tensor.layout != torch.strided:
                raise Refused("sparse")
            shares = tuple(i for i, x in enumerate(inputs) if torch._C._is_alias_of(tensor, x))
        else:
            storage = tensor.untyped_storage()
            shares = tuple(i for i, x in enumerate(inputs) if x.untyped_storage() is storage)
        results.append(
            Result(
                tuple(tensor.shape),
                str(tensor.dtype).split(".")[-1],
                tuple(tensor.stride()),
                tensor.storage_offset(),
                tensor._is_view(),
                shares,
            )
        )
    return results


def outcome(call: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """The layouts of a call's results, or the exception that it raised."""
    inputs = tensors_in([arguments, keywords])
    try:
        value = call(*arguments, **keywords)
    except (TimeUp, Refused):
        raise
    except Exception as error:  # every way of failing is a finding
        return error
    return results_of(value, inputs)


def with_out(call: Any, expected: list[Result], kind: str, empty_strided: Any, named: Any) -> Any:
    """The call with ``out=``: empty tensors to be resized, or right ones in a layout of their own."""

    def run(*arguments: Any, **keywords: Any) -> Any:
        outs = []
        for result in expected:
            if kind == "resized":
                outs.append(empty_strided((0,), (1,), named(result.dtype)))
            else:
                strides, step = [], 2
                for n in result.shape:
                    strides.append(step)
                    step *= max(n, 1)
                outs.append(empty_strided(result.shape, tuple(strides), named(result.dtype)))
        call(*arguments, **keywords, out=outs[0] if len(outs) == 1 else tuple(outs))
        return outs

    return run


def compare(op: Any, sample: Sample, form: str, device: str) -> tuple[str, str] | None:
    """The class and text of what differs in one sample, or None."""
    ours = ours_of(op, form.split("_")[0])
    theirs = op.inplace_variant if form == "inplace" else op.op

    def torch_call(device: str) -> Any:
        arguments, keywords = sample.for_torch(device)
        if not form.startswith("out"):
            return outcome(theirs, arguments, keywords)
        plain = outcome(theirs, *sample.for_torch(device))
        if not isinstance(plain, list):
            return plain

        def make(shape: Any, stride: Any, dtype: Any) -> Any:
            return torch.empty_strided(shape, stride, dtype=dtype, device=device)

        named = lambda name: getattr(torch, name)  # noqa: E731
        return outcome(with_out(theirs, plain, form[4:], make, named), arguments, keywords)

    def our_call(device: str, expected: Any) -> Any:
        arguments, keywords = sample.for_us(device)
        if not form.startswith("out"):
            return outcome(ours, arguments, keywords)

        def make(shape: Any, stride: Any, dtype: Any) -> Any:
            return tt.empty_strided(shape, stride, dtype=dtype, device=device)

        named = lambda name: getattr(tt, name)  # noqa: E731
        return outcome(with_out(ours, expected, form[4:], make, named), arguments, keywords)

    want = torch_call("cpu")
    if not isinstance(want, list):
        return None
    want_meta = torch_call("meta")
    got = our_call("cpu", want)
    other = our_call(device, want)
    if not isinstance(got, list):
        if isinstance(got, NotImplementedError) and "out" in form:
            return None
        return "raises", f"cpu: {type(got).__name__}: {' '.join(str(got).split())[:140]}"
    agree = isinstance(want_meta, list) and [r.seen() for r in want] == [r.seen() for r in want_meta]
    if not isinstance(other, list):
        if isinstance(want_meta, list) or device != "meta":
            return "raises", f"{device}: {type(other).__name__}: {' '.join(str(other).split())[:140]}"
    elif [r.seen() for r in got] != [r.seen() for r in other]:
        return "devices", f"cpu {text(got)} {device} {text(other)} torch {text(want)}"
    if agree and [r.seen() for r in got] != [r.seen() for r in want]:
        return "layout", f"ours {text(got)} torch {text(want)}"
    if not agree and [r.seen() for r in got] != [r.seen() for r in want]:
        return "disputed", f"ours {text(got)} torch {text(want)} its meta {text(want_meta)}"
    if isinstance(other, list) and got != other:
        return "unseen", f"cpu {text(got)} {device} {text(other)} torch {text(want)}"
    if got != want and isinstance(want_meta, list) and want == want_meta:
        return "unseen", f"ours {text(got)} torch {text(want)}"
    return None


def text(results: Any) -> str:
    if not isinstance(results, list):
        return f"<{type(results).__name__}: {' '.join(str(results).split())[:80]}>"
    parts = [
        f"{r.shape}:{r.stride}+{r.offset}{' view' if r.is_view else ''}{r.shares or ''} {r.dtype}"
        for r in results
    ]
    return "[" + "; ".join(parts[:4]) + "]"


def check(op: Any, arguments: argparse.Namespace, dtype: torch.dtype) -> dict[str, Any]:
    row: dict[str, Any] = {"name": op.name, "variant": op.variant_test_name, "compared": 0, "found": {}}
    found: dict[str, list[str]] = row["found"]
    forms = arguments.form.split(",")
    signal.alarm(arguments.seconds)
    try:
        for form in forms:
            has = op.inplace_variant is not None if form == "inplace" else op.supports_out
            if form != "functional" and not has:
                continue
            if ours_of(op, form.split("_")[0]) is None:
                continue
            torch.manual_seed(0)
            for n, sample in enumerate(op.sample_inputs("cpu", dtype)):
                if n >= arguments.max_samples:
                    break
                seen = set()
                for layout in arguments.layouts.split(","):
                    try:
                        laid = Sample(op, sample, layout, arguments.max_numel, form == "inplace")
                        strides = tuple(
                            (t.shape, t.stride()) for t in tensors_in([laid.arguments, laid.keywords])
                        )
                        if strides in seen:
                            continue
                        seen.add(strides)
                        difference = compare(op, laid, form, arguments.device)
                    except Refused:
                        continue
                    row["compared"] += 1
                    if difference:
                        shapes = [
                            f"{tuple(t.shape)}:{t.stride()}"
                            for t in tensors_in([laid.arguments, laid.keywords])
                        ]
                        scalars = [v for v in laid.arguments[1:] if not tensors_in(v)]
                        keywords = {k: v for k, v in laid.keywords.items() if not tensors_in(v)}
                        where = f"{form} {layout} {' '.join(shapes[:4])} {scalars or ''} {keywords or ''}"
                        found.setdefault(difference[0], []).append(f"{where}: {difference[1]}")
    except TimeUp:
        found.setdefault("time", []).append(f"over {arguments.seconds} s")
    finally:
        signal.alarm(0)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", default="", help="a regular expression on operator names")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="meta", help="our second device: meta, or cuda")
    parser.add_argument("--form", default="functional", help="functional, inplace, out_resized, out_strided")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--max-samples", type=int, default=8)
    parser.add_argument("--max-numel", type=int, default=20000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--classes", default="raises,layout,devices", help="what to print, and to fail for")
    parser.add_argument("--lines", type=int, default=2, help="differences printed for an operator and class")
    parser.add_argument("--json", help="write every row to this file")
    arguments = parser.parse_args()

    def ring(*_: Any) -> None:
        raise TimeUp

    signal.signal(signal.SIGALRM, ring)
    warnings.filterwarnings("ignore")
    dtype = getattr(torch, arguments.dtype)
    shown = arguments.classes.split(",")
    rows, totals, compared = [], Counter[str](), 0
    for op in op_db:
        if SKIPPED.match(op.name) or not re.search(arguments.ops, op.name) or dtype not in op.dtypes:
            continue
        row = check(op, arguments, dtype)
        rows.append(row)
        compared += row["compared"]
        for kind, lines in row["found"].items():
            totals[kind] += len(lines)
            if kind in shown or kind == "time":
                name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
                print(f"{kind} {name} ({len(lines)} of {row['compared']}):")
                for line in lines[: arguments.lines]:
                    print(f"    {line}")
                sys.stdout.flush()
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
    print(f"layouts of results {arguments.dtype} {arguments.form}: {compared} compared; {dict(totals)}")
    return 1 if any(totals[kind] for kind in shown) else 0


if __name__ == "__main__":
    sys.exit(main())
