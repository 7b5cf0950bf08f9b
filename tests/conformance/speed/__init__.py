"""How fast each operator is beside PyTorch: ``python -P -m triten.tests.conformance speed``.

* `operands`: what an operator is called with, small and large, made of the database's own first samples;
* `large`: operands of the operators whose samples do not grow by a rule, as data;
* `survey`: the timing, in one process and in turn, and what is printed of it.
"""
