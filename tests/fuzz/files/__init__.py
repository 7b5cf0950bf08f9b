"""Changes of files, and what reading a changed one may do.

`parts` splits a file into the parts that it is made of and puts them together again with right lengths and checksums;
`changes` changes bytes, and the structure of JSON, pickles and archives; `samples` has whole files of every format,
`formats` says how each is read and which errors it may raise; `guarded` reads one under limits and looks at what it
does, after `warm_up` imported what any reading does. The campaign itself is `campaigns/files.py`.
"""
