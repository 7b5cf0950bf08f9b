"""Gate for continuous integration: did a commit make a benchmark slower? `python -m triten.perf gate`.

- `sources` measures or reads the baseline and the new result.
- `decision` classifies each row and decides; `markdown`, `openmetrics` and JSON are its output.

The statistics are those of `suite/compare.py`.
"""
