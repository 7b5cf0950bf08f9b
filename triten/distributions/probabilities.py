"""Distributions whose parameter is a probability or its logit: the one is computed from the other when asked for."""

from __future__ import annotations

from typing import Any

from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from .distribution import Distribution, Shape
from .utils import broadcast_all, is_number, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["ByProbabilities", "ByWeights", "given_one"]


def given_one(probs: Any, logits: Any) -> bool:
    """Return whether `probs` is given, rather than `logits`.

    Raises:
        ValueError: Both or neither are given.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


class _ByEither(Distribution):
    probs: Any
    logits: Any

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        param: Tensor = self.__dict__["probs"] if self._is_by_probs else self.__dict__["logits"]
        return param

    @property
    def _is_by_probs(self) -> bool:
        return bool(self.__dict__["_by_probs"])

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new.__dict__["_by_probs"] = self._is_by_probs


class ByProbabilities(_ByEither):
    """Base of distributions with a probability, or a log-odd, for each element."""

    def _take(self, probs: Any, logits: Any, *other_params: Any) -> tuple[Shape, list[Tensor]]:
        """Broadcast the parameter with others and keep it: the batch's shape, and the others."""
        by_probs = given_one(probs, logits)
        supplied = probs if by_probs else logits
        param, *rest = broadcast_all(supplied, *other_params)
        self.__dict__["_by_probs"] = by_probs
        self.__dict__["probs" if by_probs else "logits"] = param
        is_scalar = is_number(supplied) and all(is_number(other) for other in other_params)
        return (() if is_scalar else tuple(param.shape)), rest

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)


class ByWeights(_ByEither):
    """Base of distributions with weights, or their logarithms, along the last dimension."""

    def _take(self, probs: Any, logits: Any) -> Tensor:
        """Normalize the parameter and keep it."""
        by_probs = given_one(probs, logits)
        name, supplied = ("probs", probs) if by_probs else ("logits", logits)
        if supplied.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        self.__dict__["_by_probs"] = by_probs
        param: Tensor
        if by_probs:
            param = supplied / supplied.sum(-1, keepdim=True)
        else:
            param = supplied - supplied.logsumexp(-1, keepdim=True)
        self.__dict__[name] = param
        return param

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)
