"""Reductions, scans, segments, statistics and distances."""
