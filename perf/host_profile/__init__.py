"""Host time of a program, by operator and by layer of the call: `python -m triten.perf profile SCRIPT`.

`sampling` interrupts the program periodically, `layers` maps source files to layers, and `command` runs a
script and prints the tables.
"""
