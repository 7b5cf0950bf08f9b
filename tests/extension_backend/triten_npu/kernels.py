"""The backend's kernels: under the dispatch key, for an ``out=`` form alone, and under stubs."""

from __future__ import annotations

import numpy as np

import triten as tt

from .memory import array_at, array_of

calls: list[str] = []
"""The kernels that have run, for tests."""

library = tt.library.Library("aten", "IMPL", "PrivateUse1")
everything_else = tt.library.Library("_", "IMPL", "PrivateUse1")
everything_else.fallback(tt.library.cpu_fallback)


def kernel(name):
    """Register a function as the kernel of an operator; it runs while its tensors' device is current."""

    def register(function):
        def run(*args, **kwargs):
            calls.append(name)
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, tt.Tensor) and a.is_npu]
            device = tensors[0].device if tensors else tt.device("npu", tt.npu.current_device())
            with tt.library.DeviceGuard(device):
                return function(*args, **kwargs)

        run.__wrapped__ = function
        library.impl(name, run)
        return function

    return register


def from_array(array, device):
    """Create a tensor on a device that holds an array."""
    out = tt.empty(array.shape, dtype=tt.from_numpy(array[..., None]).dtype, device=device)
    array_of(out)[...] = array
    return out


def allocate(size, stride, dtype, device):
    """Uninitialised memory as a tensor."""
    dtype = tt.get_default_dtype() if dtype is None else dtype
    span = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    pointer = tt.library.get_allocator("npu").allocate(span * dtype.itemsize, device)
    return tt.library.from_blob(pointer, size, stride, dtype=dtype)


@kernel("empty.memory_format")
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    like = tt.empty(size, memory_format=memory_format, device="meta")
    return allocate(size, like.stride(), dtype, device)


@kernel("empty_strided")
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return allocate(size, stride, dtype, device)


@kernel("_copy_from")
def copy_from(self, dst, non_blocking=False):
    if self.is_cpu:
        array_of(dst)[...] = self.numpy()
    elif dst.is_cpu:
        dst.numpy()[...] = array_of(self)
    else:
        source = array_of(self).copy()
        with tt.library.DeviceGuard(dst.device):
            array_of(dst)[...] = source
    return dst


@kernel("fill_.Scalar")
def fill_(self, value):
    array_of(self)[...] = value
    return self


@kernel("add.Tensor")
def add(self, other, *, alpha=1):
    return from_array(array_of(self) + as_operand(other, self) * self.dtype.np.type(alpha), self.device)


@kernel("add_.Tensor")
def add_(self, other, *, alpha=1):
    array_of(self)[...] += as_operand(other, self) * self.dtype.np.type(alpha)
    return self


def as_operand(value, like):
    """Return the second operand of a binary operator on the device, or a number."""
    if isinstance(value, tt.Tensor) and value.is_npu:
        return array_of(value)
    if isinstance(value, tt.Tensor) and value.ndim:
        raise RuntimeError(f"npu: an operand is on {like.device}, the other on {value.device}")
    return like.dtype.np.type(value.item() if isinstance(value, tt.Tensor) else value)


@kernel("mm")
def mm(self, mat2):
    return from_array(array_of(self) @ array_of(mat2), self.device)


@kernel("relu")
def relu(self):
    return from_array(np.maximum(array_of(self), 0), self.device)


@kernel("sum")
def sum_all(self, *, dtype=None):
    return from_array(np.asarray(array_of(self).sum(dtype=self.dtype.np)), self.device)


@kernel("sum.dim_IntList")
def sum_dim(self, dim, keepdim=False, *, dtype=None):
    axes = None if not dim else tuple(dim)
    return from_array(array_of(self).sum(axis=axes, keepdims=keepdim, dtype=self.dtype.np), self.device)


@kernel("sub.out")
def sub_out(self, other, *, alpha=1, out):
    difference = array_of(self) - as_operand(other, self) * self.dtype.np.type(alpha)
    out.resize_(difference.shape)
    array_of(out)[...] = difference
    return out


def binary_stub(name, ufunc):
    """Register a kernel factory; triten's meta function has determined shapes, dtypes and strides."""

    def factory(call):
        out_spec, specs = call.outputs[0], [call.args[each] for each in call.runtime]

        def into(out, *operands):
            calls.append(f"{name}_stub")
            if out_spec.device.index != tt.npu.current_device():
                raise RuntimeError(f"npu: a kernel on {out_spec.device} while another device is current")
            arrays = [
                array_at(o.address, s.sizes, s.strides, s.dtype) if hasattr(o, "address") else o
                for o, s in zip(operands, specs, strict=True)
            ]
            ufunc(*arrays, out=array_at(out.address, out_spec.sizes, out_spec.strides, out_spec.dtype))

        return tt.library.PlannedKernel(into)

    tt.library.register_stub(f"{name}_stub", "npu", factory)


binary_stub("mul", np.multiply)
binary_stub("exp", np.exp)
