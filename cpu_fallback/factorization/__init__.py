"""Factorisations by LAPACK, and what is made of their factors."""
