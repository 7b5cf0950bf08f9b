"""Weights of a norm, with singular values up to 1, or orthogonal (`torch.nn.utils.parametrizations`)."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from .parametrize import register_parametrization

Given = TypeVar("Given", bound=Module)

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def normed(direction: Tensor, magnitude: Tensor, dim: int) -> Tensor:
    """Scale a direction to a magnitude for each index of `dim`, or to a single one for -1."""
    return direction * (magnitude / _ops.norm_except_dim(direction, 2, dim))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Reshape a weight to a matrix: `dim` by all other dimensions."""
    return _ops.flatten(_ops.movedim(weight, dim, 0), 1)


def output_dim(module: Module) -> int:
    """Return the output dimension of a module's weight."""
    return int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d))


def found_weight(module: Module, name: str) -> Tensor:
    """Return a tensor attribute of a module.

    Raises:
        ValueError: The module has no tensor of this name.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, magnitude: Tensor, direction: Tensor) -> Tensor:
        return normed(direction, magnitude, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Any, Any]:
        return _ops.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Given, name: str = "weight", dim: int | None = 0) -> Given:
    """Parametrize a weight as a magnitude times a direction (`torch.nn.utils.parametrizations.weight_norm`).

    Args:
        module: The module that has the weight.
        name: The name of the weight.
        dim: The dimension whose indices each have a magnitude; None for a single magnitude.

    Source: T. Salimans and D. Kingma, "Weight normalization", 2016.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.parametrizations.weight_norm(tt.nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
        (triten.Size([2, 1]), triten.Size([2, 3]))
    """
    found_weight(module, name)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take the state of the hooks of old."""
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state for key in old):
            for i, key in enumerate(old):
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)

    module.register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                for vector, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    self.register_buffer(vector, self._unit(matrix.new_empty(size).normal_()))
                self._iterate(matrix, 15)

    def _unit(self, vector: Tensor) -> Tensor:
        return F.normalize(vector, dim=0, eps=self.eps)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        """Turn both vectors toward those of the largest singular value."""
        for _ in range(count):
            self._u.copy_(self._unit(matrix @ self._v))
            self._v.copy_(self._unit(matrix.mH @ self._u))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return self._unit(weight)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            with no_grad():
                self._iterate(matrix, self.n_power_iterations)
        return weight / _ops.vdot(self._u.clone(), matrix @ self._v.clone())

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Given,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Given:
    """Divide a weight by its largest singular value (`torch.nn.utils.parametrizations.spectral_norm`).

    Args:
        module: The module that has the weight.
        name: The name of the weight.
        n_power_iterations: by how many the value is followed at each forward pass in training.
        eps: the least norm of the vectors that follow it.
        dim: the matrix's rows; the outputs' unless given.

    Raises ValueError for a name that the module has not and a number of iterations below 1, IndexError for a dimension
    out of range.

    Source: T. Miyato and others, "Spectral normalization for generative adversarial networks", 2018.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.parametrizations.spectral_norm(tt.nn.Linear(3, 2))
        >>> abs(tt.linalg.matrix_norm(layer.weight, 2).item() - 1) < 1e-3
        True
    """
    weight = found_weight(module, name)
    norm = _SpectralNorm(weight, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return register_parametrization(module, name, norm)


MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    def __init__(self, weight: Tensor, kind: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and kind == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.kind, self.has_base = weight.shape, kind, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        rows, columns = x.shape[-2:]
        if self.kind == "householder":
            below = x.tril(-1)
            orthogonal = _ops.linalg_householder_product(below, 2.0 / (1.0 + (below * below).sum(-2)))
            # The diagonal holds signs.
            orthogonal = orthogonal * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            x = x.tril()
            if rows != columns:
                x = _ops.cat([x, x.new_zeros(*x.shape[:-1], rows - columns)], dim=-1)
            skew = x - x.mH
            if self.kind == "matrix_exp":
                orthogonal = _ops.matrix_exp(skew)
            else:
                eye = _ops.eye(rows, dtype=x.dtype, device=x.device)
                orthogonal = _ops.linalg_solve(eye - 0.5 * skew, eye + 0.5 * skew)
            orthogonal = orthogonal[..., :columns]
        if self.has_base:
            orthogonal = self.base @ orthogonal
        return orthogonal.mT if wide else orthogonal

    def right_inverse(self, target: Tensor) -> Tensor:
        if target.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {target.shape}."
            )
        wide = target.shape[-2] < target.shape[-1]
        tall = target.mT if wide else target
        rows, columns = tall.shape[-2:]
        if not self.has_base:
            if self.kind != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            reflectors, scales = _ops.geqrf(tall)
            signs = reflectors.diagonal(dim1=-2, dim2=-1)
            signs.copy_(_ops.where(scales == 0, -signs.sign(), signs.sign()))
            return reflectors.mT if wide else reflectors
        if rows != columns:
            more = _ops.randn(*tall.shape[:-2], rows, rows - columns, dtype=tall.dtype, device=tall.device)
            tall = _orthogonalized(_ops.cat([tall, more], dim=-1))
        else:
            tall = tall.clone() if _is_orthogonal(tall) else _orthogonalized(tall)
        self.base = tall
        start = _ops.zeros_like(target)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def _is_orthogonal(x: Tensor) -> bool:
    from ...runtime.scalar_type import finfo

    rows, columns = x.shape[-2:]
    eye = _ops.eye(columns, dtype=x.dtype, device=x.device).expand(*x.shape[:-2], columns, columns)
    return bool(_ops.allclose(x.mH @ x, eye, atol=10.0 * rows * finfo(x.dtype).eps))


def _orthogonalized(x: Tensor) -> Tensor:
    """Return the Q of the QR decomposition whose R has a positive diagonal."""
    q, r = _ops.linalg_qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Given,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Given:
    """Parametrize a weight with orthonormal columns, or rows if fewer (`torch.nn.utils.parametrizations.orthogonal`).

    Args:
        module: The module that has the weight.
        name: The name of the weight, which has at least two dimensions.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; the first one for square and for complex
            matrices, the last one for others unless given.
        use_trivialization: If True, the weight is a product with a fixed matrix, which lets it be assigned to.
            Default: True.

    Raises ValueError for other weights and maps.

    Source: M. Lezcano-Casado and D. Martinez-Rubio, "Cheap orthogonal constraints in neural networks", 2019.

    Example:
        >>> import triten as tt
        >>> weight = tt.nn.utils.parametrizations.orthogonal(tt.nn.Linear(4, 2)).weight
        >>> tt.allclose(weight @ weight.mT, tt.eye(2), atol=1e-5)
        True
    """
    weight = found_weight(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    square = weight.shape[-2] == weight.shape[-1]
    kind = orthogonal_map or ("matrix_exp" if square or weight.is_complex() else "householder")
    if kind not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(module, name, _Orthogonal(weight, kind, use_trivialization), unsafe=True)
