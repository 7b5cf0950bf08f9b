"""Triton kernels without PyTorch: compiled ahead of time, kept on disk, found by key and launched.

`lazy_triton` stands for `triton` in kernels' modules; `real_triton` is the one place that imports it for them.
"""
