"""Triton kernels without PyTorch: compiled ahead of time, stored on disk, found by key and launched.

Kernel modules import `lazy_triton` instead of `triton`. Only `real_triton` imports Triton for them.
"""
