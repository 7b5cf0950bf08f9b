"""COO operators that work as on compressed tensors: conversion to compressed layouts, and products at their indices."""

from .compressed_products import OF_COORDINATES
from .compressed_structure import FROM_COO

KERNELS = FROM_COO | OF_COORDINATES
