"""Connectionist temporal classification: a launch for the losses, two for their gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.transfer import copy_across
from ...runtime.data_ptr import DataPtr
from ..contiguous import contiguous_copy
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..launch import Launch, cdiv, next_power_of_2
from .ctc_kernels import ctc_forward, ctc_gradient, ctc_shares

MAX_BYTES = 16384
"""Bytes of a sequence's states, each a logarithm: a program has them all in its registers."""


class Problem:
    """The sizes, strides and lengths of a call."""

    def __init__(self, call: StructuredCall) -> None:
        spec, targets = call.args["log_probs"], call.args["targets"]
        check_dtypes(call, [spec])
        self.device = call.device
        self.element = f"*{spec.dtype.triton_name}"
        self.label = f"*{targets.dtype.triton_name}"
        self.times, self.batch, self.classes = spec.sizes
        labels: tuple[int, ...] = tuple(call.args["target_lengths"])
        self.width = 2 * max(labels, default=0) + 1
        max_width = MAX_BYTES // spec.itemsize
        if self.width > max_width:
            raise NotImplementedError(
                f"{call.name}: expected target_lengths of at most {(max_width - 1) // 2} of {spec.dtype.scalar_name} "
                f"on CUDA, but got {max(labels)}"
            )
        if targets.ndim == 1:
            firsts = [0, *itertools.accumulate(labels)][: self.batch]
            firsts = [first * targets.strides[0] for first in firsts]
        else:
            firsts = [n * targets.strides[0] for n in range(self.batch)]
        self.block = max(next_power_of_2(self.width), 2)
        self.warps = 4 if self.block <= 256 else 8 if self.block <= 1024 else 16
        self.lengths = np.array([call.args["input_lengths"], labels, firsts], np.int64)
        self.numbers = {
            "batch": self.batch,
            "times": self.times,
            "classes": self.classes,
            "width": self.width,
            "blank": call.args["blank"],
            "target_step": targets.strides[-1],
            **dict(zip(("xt", "xn", "xc"), spec.strides, strict=True)),
        }
        self.values = tuple(self.numbers.values())
        self._counts: DataPtr | None = None

    def counts(self) -> int:
        """Return the address of the times, labels and first labels of all sequences, which a plan's calls share."""
        if self._counts is None:
            data = get_allocator("cuda").allocate(self.lengths.nbytes, self.device)
            copy_across(data, self.lengths, self.lengths.nbytes)
            self._counts = data
        return self._counts.address

    def launch(self, kernel: Any, pointers: dict[str, str], **constants: object) -> Launch:
        """Return a launch over the states of each sequence."""
        options = constants or {"BLOCK": self.block}
        return Launch(
            self.device,
            kernel,
            pointers | dict.fromkeys(self.numbers, "i64"),
            options,
            elements=tuple(pointers),
            num_warps=4 if constants else self.warps,
        )


def ctc_loss(call: StructuredCall) -> PlannedKernel:
    """Losses and forward logarithms. A label that is no class is a fault, and counts as a blank."""
    problem = Problem(call)
    element = problem.element
    pointers = {"x": element, "targets": problem.label, "counts": "*i64", "flag": "*i32"}
    launch = problem.launch(ctc_forward, pointers | {"loss": element, "alpha": element})

    message = f"expected targets within [0, {problem.classes}), but got others"
    flags = fault_flags(call.device.resolved_index, [Fault("ctc_loss", RuntimeError, message)])

    def into(losses: Any, alpha: Any, x: Any, targets: Any) -> None:
        words = flags.begin()
        data = (x.address, targets.address, problem.counts(), words, losses.address, alpha.address)
        launch((problem.batch, 1, 1), *data, *problem.values)
        if flags.driver.launch_blocking and flags.raised():
            raise RuntimeError(f"ctc_loss: {message}")

    return PlannedKernel(into)


def ctc_loss_backward(call: StructuredCall) -> PlannedKernel:
    """Backward logarithms first, as the share of each state; then those of each class together."""
    problem = Problem(call)
    out, grad = call.outputs[0], call.args["grad"]
    element = problem.element
    inputs = {"x": element, "targets": problem.label, "counts": "*i64", "loss": element}
    shares = problem.launch(ctc_shares, inputs | {"alpha": element, "shares": element})
    block = min(next_power_of_2(problem.classes), 128)
    problem_of_classes = Launch(
        call.device,
        ctc_gradient,
        inputs
        | {"shares": element, "grad": element, "out": element}
        | dict.fromkeys((*problem.numbers, "grad_step"), "i64"),
        {"ZERO_INFINITY": bool(call.args["zero_infinity"]), "BLOCK": block, "STATES": 8},
        elements=(*inputs, "shares", "grad", "out"),
    )
    grid = folded(problem.times * problem.batch, cdiv(problem.classes, block))
    copies: list[Callable[[Any], Any]] = [
        contiguous_copy(call.args[name])[1] for name in ("neg_log_likelihood", "log_alpha")
    ]
    allocate = get_allocator("cuda").allocate
    nbytes = problem.batch * problem.times * problem.width * out.itemsize
    step = grad.strides[0]

    def into(out_data: Any, g: Any, x: Any, targets: Any, losses: Any, alpha: Any) -> None:
        cost, forward = (copied(data) for copied, data in zip(copies, (losses, alpha), strict=True))
        scratch = allocate(nbytes, call.device)
        addresses = (x.address, targets.address, problem.counts(), cost.address)
        shares((problem.batch, 1, 1), *addresses, forward.address, scratch.address, *problem.values)
        problem_of_classes(
            grid, *addresses, scratch.address, g.address, out_data.address, *problem.values, step
        )

    return PlannedKernel(into)


register_stub("_ctc_loss_stub", "cuda", ctc_loss)
register_stub("_ctc_loss_backward_stub", "cuda", ctc_loss_backward)
