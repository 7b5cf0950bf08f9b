"""Functionalization: programs without writes and views, by functional forms of operators over shared storages."""
