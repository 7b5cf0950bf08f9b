"""Which of a kernel's declared configurations a launch takes: measured on request, remembered, shipped, or meant.

`choice.py` is what kernels ask when they are planned; it looks things up and runs nothing. `autotune.py` measures, on
demand only. Nothing here registers a kernel.
"""
