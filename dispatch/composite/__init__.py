"""Composites: operators made of other operators, a module for each family (CompositeImplicitAutograd).

They call generated functions, so that autograd and every backend follow from their parts.
"""
