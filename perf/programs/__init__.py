"""Programs of other people, written for PyTorch, under triten and under PyTorch: `python -m triten.perf programs`.

`catalogue.py` lists them, a line each; their packages and versions stand in `requirements.txt`. `worker.py` is the
process that runs one, under PyTorch as it is and under triten by `triten.as_torch`; it imports nothing of triten's.
`contest.py` runs both processes beside each other, `comparison.py` says whether their results agree, `table.py` writes
the page of the documentation. `scripts/` has the programs that are more than a model and its inputs.
"""
