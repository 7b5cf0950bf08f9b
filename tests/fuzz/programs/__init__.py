"""Random programs as text: written once, run by triten and by PyTorch.

`scope` holds the variables of a program. `computations`, `views`, `writes` and `gradients` have the kinds of
statements. `writer` generates whole programs. `execution` runs a program and records the observable state of
its variables. `judgement` compares two records. The fuzz targets' own comparisons do not belong here.
"""
