"""Reductions of complex numbers, which are pairs of real ones: two accumulators, or one for each part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..geometry import Geometry
from ..launch import launch_nothing
from . import joint_reduction_kernels as k
from .joint_reduction import Accumulator, JointReduction, pairs_starting, plan_joint
from .reduction import REDUCTIONS, TRUTHS, reduction
from .sides import Sides, doubled, sides_of, through_contiguous

Factory = Callable[[StructuredCall], PlannedKernel]


def count_of(call: StructuredCall, count: int) -> Callable[..., float]:
    """Return the number of summed elements, for a mean."""
    return lambda *_: float(count)


def truth(start: int) -> Callable[[ScalarType, ScalarType, int], Sequence[Accumulator]]:
    """Return one boolean accumulator."""
    return lambda input, output, count: ((tl.int1, start),)


COMPLEX: dict[str, JointReduction] = {
    "sum_stub": JointReduction(k.add_pairs, k.pairs_across, k.pair, k.all_of, pairs_starting(0)),
    "mean_stub": JointReduction(
        k.add_pairs, k.pairs_across, k.pair, k.both_over_number, pairs_starting(0), count_of
    ),
    "prod_stub": JointReduction(k.multiply_pairs, k.products_of_pairs, k.pair, k.all_of, pairs_starting(1)),
    "any_stub": JointReduction(k.either, k.any_across, k.is_not_zero, k.all_of, truth(0)),
    "all_stub": JointReduction(k.both, k.all_across, k.is_not_zero, k.all_of, truth(1)),
}
"""Reduction of each operator."""


def complex_reduction(row: JointReduction) -> Factory:
    """Return the kernel factory of a row over a complex input; the output is complex or bool."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        dims = call.extra["dims"]
        if not (out.dtype.is_complex or out.dtype.name == "bool"):
            raise call.refuse(out)
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = sides_of(spec, out, dims, False)
        if not sides.fits():
            return through_contiguous(call, factory, dims)
        writes_pairs = out.dtype.is_complex
        reduced = doubled(sides.reduced, (True,))
        pair = Sides(
            doubled(sides.kept, (True, writes_pairs)),
            Geometry(reduced.sizes, (reduced.strides[0], reduced.strides[0])),
        )
        part, half = spec.dtype.to_real(), spec.dtype.itemsize // 2
        results = [out.dtype.to_real()] * 2 if writes_pairs else [out.dtype]
        run = plan_joint(call, row, pair, [part, part], results)
        number = row.number(call, sides.n)(())
        other = out.dtype.itemsize // 2

        def into(out_data: object, x: object, *_: object) -> None:
            source, target = x.address, out_data.address  # type: ignore[attr-defined]
            targets = [target, target + other] if writes_pairs else [target]
            run([source, source + half], targets, number)

        return PlannedKernel(into)

    return factory


def real_or_complex(real: Factory, of_complex: Factory) -> Factory:
    """Return one factory for real and complex inputs."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec: TensorSpec = call.args["self"]
        return of_complex(call) if spec.dtype.is_complex else real(call)

    return factory


for _stub, _row in REDUCTIONS.items():
    _real = reduction(_row, TRUTHS.get(_stub))
    _of_complex = COMPLEX.get(_stub)
    register_stub(
        _stub, "cuda", real_or_complex(_real, complex_reduction(_of_complex)) if _of_complex else _real
    )
