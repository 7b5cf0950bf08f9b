"""Third-party Triton and PyTorch packages on triten, without PyTorch: `python -m triten.perf clients`.

`catalogue.py` lists them; `requirements.txt` pins their versions, which `make clients` installs from PyPI into a folder
of their own. Each is a program of `scripts/` that runs in a process by `triten.as_torch`. Triton kernels are compared
with the CPU inside the program; models print numbers, which `command.py` compares with those that PyTorch gave
(`expected.json`). `make programs` measures speed, and needs PyTorch; this needs none and runs in CI.
"""
