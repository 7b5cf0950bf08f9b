"""Attention in blocks of queries."""
