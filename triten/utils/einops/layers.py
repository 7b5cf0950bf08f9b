"""The layers of einops as modules (`einops.layers.torch`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

from ... import _public as tt
from ...nn.modules.module import Module
from ...nn.parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, Module):  # type: ignore[misc]
    """`einops.rearrange` as a module.

    Args:
        pattern: The rearrangement, such as ``"b c h w -> b (c h w)"``.
        axes_lengths: sizes that the pattern leaves open.

    Example:
        >>> import triten as tt
        >>> from triten.utils.einops import Rearrange
        >>> tt.nn.Sequential(Rearrange("b c h w -> b (c h w)"), tt.nn.Linear(12, 5))(tt.ones(2, 3, 2, 2)).shape
        triten.Size([2, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange `input`."""
        rearranged: Tensor = self._apply_recipe(input)
        return rearranged


class Reduce(ReduceMixin, Module):  # type: ignore[misc]
    """`einops.reduce` as a module.

    Args:
        pattern: The rearrangement; dimensions that are missing on its right are reduced.
        reduction: "min", "max", "sum", "mean", "prod", "any", "all", or a function of a tensor and dimensions.
        axes_lengths: sizes that the pattern leaves open.

    Example:
        >>> import triten as tt
        >>> from triten.utils.einops import Reduce
        >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(tt.ones(1, 3, 4, 6)).shape
        triten.Size([1, 3, 2, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Reduce `input`."""
        reduced: Tensor = self._apply_recipe(input)
        return reduced


class EinMix(_EinmixMixin, Module):  # type: ignore[misc]
    """A linear layer over any dimensions: a sum of products with a weight, and a bias.

    Args:
        pattern: the input's dimensions, and the result's.
        weight_shape: the weight's dimensions, by the names of the pattern.
        bias_shape: the bias's dimensions; None for no bias.
        axes_lengths: sizes of the dimensions that the parameters have.

    Example:
        >>> import triten as tt
        >>> from triten.utils.einops import EinMix
        >>> mix = EinMix("t b i -> t b o", weight_shape="i o", bias_shape="o", i=4, o=5)
        >>> mix(tt.ones(2, 3, 4)).shape
        triten.Size([2, 3, 5])
    """

    def _create_parameters(
        self,
        weight_shape: Sequence[int],
        weight_bound: float,
        bias_shape: Sequence[int] | None,
        bias_bound: float,
    ) -> None:
        self.weight = Parameter(tt.zeros(tuple(weight_shape)).uniform_(-weight_bound, weight_bound))
        self.bias = (
            None
            if bias_shape is None
            else Parameter(tt.zeros(tuple(bias_shape)).uniform_(-bias_bound, bias_bound))
        )

    def _create_rearrange_layers(
        self,
        pre_reshape_pattern: str | None,
        pre_reshape_lengths: Mapping[str, int] | None,
        post_reshape_pattern: str | None,
        post_reshape_lengths: Mapping[str, int] | None,
    ) -> None:
        make: Any = Rearrange

        def layer(pattern: str | None, lengths: Mapping[str, int] | None) -> Rearrange | None:
            return None if pattern is None else make(pattern, **(lengths or {}))

        self.pre_rearrange = layer(pre_reshape_pattern, pre_reshape_lengths)
        self.post_rearrange = layer(post_reshape_pattern, post_reshape_lengths)

    def forward(self, input: Tensor) -> Tensor:
        """Compute the einsum of `input` and the weight, plus the bias."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = tt.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
