"""Derivative formulas of more than a line, a module for each family (torch FunctionsManual.cpp).

Formulas consist of dispatched operators, so that second derivatives work. Names are unique across the folder:
`derivatives.yaml` calls them without their module.
"""
