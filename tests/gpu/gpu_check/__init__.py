"""Correctness check on a GPU: `make gpu-check`, or ``python -P tests/gpu/check.py``.

`samples*.py` have every operator's arguments, `layouts.py` the operands' memory layouts, and `reference.py`
the expected results and tolerances. `forms.py` runs one case in all its forms. `first_checks*.py` check the
runtime before any operator. `shards.py` sends cases to worker processes, and `results.py` stores the replies.
Nothing here imports PyTorch, and the workers block its import.
"""
