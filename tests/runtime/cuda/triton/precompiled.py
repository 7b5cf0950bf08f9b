"""Program that precompiles functions in a process whose kernels are not interpreted; it prints its findings as JSON."""

import json
import os
import sys

import triten as tt
from triten.runtime.cuda.triton import forked_compilation

found = {}
parameter = [0]


def step():
    parameter[0] += 1
    assert tt.cuda.is_precompiling() and tt.cuda.get_device_capability() == (9, 0)
    x = tt.ones(64, 128, device="cuda", requires_grad=True)
    x.exp().backward(x)


def record(name, call):
    seen = []
    try:
        result = call(lambda *progress: seen.append(progress))
    except Exception as error:
        found[name] = [type(error).__name__, str(error), getattr(error, "__notes__", [])]
        return
    found[name] = {
        **{
            field: getattr(result, field)
            for field in ("planned", "compiled", "cached", "launches", "stopped")
        },
        "progress": seen,
    }


def precompiled(fn, **options):
    return lambda progress: tt.cuda.precompile(fn, target=90, progress=progress, **options)


record("cold", precompiled(step, workers=2))
record("warm", precompiled(step, workers=1))
found["state"] = [parameter[0], tt.cuda.is_precompiling(), tt.cuda.is_available()]
record("read", precompiled(lambda: tt.ones(3, device="cuda")[0].item()))
record("shape", precompiled(lambda: tt.ones(3, device="cuda").nonzero()))


def placed():
    values = [tt.empty(2, device="cuda", dtype=each).tolist() for each in (tt.bfloat16, tt.int64, tt.bool)]
    assert values == [[3.0, 3.0], [3, 3], [True, True]], values


record("placeholder", precompiled(placed, placeholder=3.0, steps=1))


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def broken(error):
    raise error


record("error", precompiled(lambda: broken(KeyError("name"))))
record("odd error", precompiled(lambda: broken(Unpicklable("first", 2))))
find_or_compile = forked_compilation.find_or_compile


def faulty(kernel, *rest):
    if kernel.__name__ == "dense":
        os.abort()
    raise ValueError("no such instruction")


forked_compilation.find_or_compile = faulty
record("faulty", precompiled(lambda: step() or tt.ones(8, 8, device="cuda").double().sum(1), workers=1))
forked_compilation.find_or_compile = find_or_compile
json.dump(found, sys.stdout)
