"""Mutations of files, and limits on reading a mutated file.

`parts` splits a file into parts and joins them with correct lengths and checksums. `changes` mutates bytes
and the structure of JSON, pickles and archives. `samples` has whole files of every format. `formats` names
each format's reader and the errors that it may raise. `guarded` reads a file under limits and watches the
reader, after `warm_up` imported lazily loaded modules. The fuzz target is `campaigns/files.py`.
"""
