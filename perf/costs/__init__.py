"""What a program costs by its shapes alone: bytes moved and floating-point operations, counted on Meta tensors.

`watching` runs the program, `formulas` says what each operator takes, `counting` adds up.
"""

from .counting import Cost, OperatorCost, cost

__all__ = ["Cost", "OperatorCost", "cost"]
