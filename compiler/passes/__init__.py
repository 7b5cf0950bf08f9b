"""Passes: rewrites of a graph in place. A pass is a file; its docstring shows a graph before and after.

`compiler/pipeline.py` lists them in the order in which they run. Passes are bitwise exact: they remove steps and never
change the order of floating-point operations.
"""
