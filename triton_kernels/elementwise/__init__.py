"""Functions of one element: a skeleton for any strides, tables of operators over it, copies and fills.

`elementwise.py` is the skeleton, `pointwise.py` and `activation.py` the tables, `pointwise_functions.py` what they
compute. Whatever combines elements with one another belongs elsewhere.
"""
