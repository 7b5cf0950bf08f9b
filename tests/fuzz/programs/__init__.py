"""Programs drawn at random, as text: written once, run by triten and by PyTorch.

`scope` holds the variables that a program has so far, `computations`, `views`, `writes` and `gradients` the kinds of
statements, `writer` draws whole programs, `execution` runs one and records what can be observed of its variables,
`judgement` says whether two records agree. What campaigns compare, and how, does not belong here.
"""
