"""The correctness check on a GPU: `make gpu-check`, or ``python -P tests/gpu/check.py``.

`samples*.py` say what every operator is called with, `layouts.py` how the operands lie in memory, `reference.py`
what is right and within what tolerance, `forms.py` runs one case in all its forms. `first_checks*.py` are the
runtime's own checks, before any operator. `shards.py` gives cases to worker processes, `results.py` keeps what they
answer. Nothing here imports PyTorch, and the workers block its import.
"""
