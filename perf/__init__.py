"""Measurements of triten beside its peers: `python -m triten.perf overhead | import-time | memory`.

Each module of this folder is one measurement or one means of measuring. What they find goes to the terminal
and, where asked, to a JSON file with the machine and the versions. Nothing in the package imports from here.
"""
