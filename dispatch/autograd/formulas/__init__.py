"""Derivative formulas that need more than a line, a module for each family (torch FunctionsManual.cpp).

They are made of dispatched operators, so that second derivatives follow. Names are unique across the folder:
`derivatives.yaml` calls them without their module.
"""
