"""Reading and writing at indices that stand in tensors; writes add up in a fixed order, without atomics.

`picking.py` reads, `scatter.py` writes; `sorting/` brings equal indices together for it.
"""
