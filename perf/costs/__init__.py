"""Costs of a program by its shapes alone: bytes moved and floating-point operations, counted on Meta tensors.

`watching` runs the program, `formulas` has the cost of each operator, and `counting` adds the costs up.
"""

from .counting import Cost, OperatorCost, cost

__all__ = ["Cost", "OperatorCost", "cost"]
