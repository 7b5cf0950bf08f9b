"""Calls for a tiny wheel of kernels: one of a dtype that wheels hold, and one that they leave out."""

from typing import NamedTuple

import triten as tt


class Sample(NamedTuple):
    label: str
    run: object
    wide: tuple[str, ...] = ()
    refused: bool = False


def samples(capability):
    yield Sample("exp float32", lambda: tt.empty(4096, device="cuda").exp())
    yield Sample("exp float64", lambda: tt.empty(4096, device="cuda", dtype=tt.float64).exp())


def kernel_files():
    return {}


def functions():
    return []
