"""Where a program's host time goes, by operator and by layer of the call: `python -m triten.perf profile SCRIPT`.

`sampling` interrupts the program now and then, `layers` says what each place in the source belongs to, `command` runs
a script and prints the tables.
"""
