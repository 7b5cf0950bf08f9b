"""Factorisations by LAPACK, matrix by matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.structured.library_routine import ROUTINES, raise_failure, routine_of
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime import lapack
from .error_state import quiet
from .undispatched import np


def by_lapack(stub: str) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of a stub."""

    def factory(call: StructuredCall) -> PlannedKernel:
        routine = routine_of(stub, call)
        names, count = call.runtime, len(call.outputs)
        first = call.args[(*routine.reads, *(name for _, name in routine.copies))[0]]
        batch = (call.outputs[routine.copies[0][0]] if routine.copies else first).sizes[:-2]
        places = [names.index(name) for name in routine.reads]
        copies = [(out, names.index(name)) for out, name in routine.copies]
        numbers = [names.index(name) for name in routine.numbers]
        tails = [-1 if name in routine.vectors else -2 for name in routine.reads]

        def into(*data: Any) -> None:
            outputs, arguments = data[:count], data[count:]
            for out, place in copies:
                np.copyto(outputs[out], arguments[place])
            inputs = [
                np.broadcast_to(arguments[place], (*batch, *arguments[place].shape[tail:]))
                for place, tail in zip(places, tails, strict=True)
            ]
            inputs += [arguments[place] for place in numbers]
            info = np.zeros(batch, np.int32) if routine.info is None else outputs[routine.info]
            quiet(routine.run)(lapack, outputs, inputs, info)
            if routine.failure is not None:
                raise_failure(routine.failure, info)

        return PlannedKernel(into)

    return factory


for _stub in ROUTINES:
    register_stub(_stub, "cpu", by_lapack(_stub))
