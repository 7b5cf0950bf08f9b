"""What tensors of coordinates do as compressed ones do: become compressed, and products at their places."""

from .compressed_products import OF_COORDINATES
from .compressed_structure import FROM_COO

KERNELS = FROM_COO | OF_COORDINATES
