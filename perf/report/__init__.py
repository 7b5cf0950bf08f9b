"""`python -m triten.perf report`: result files of the suite as a page, as Markdown for logs, or as JSON.

`runs` reads the history. `linking` matches the benchmarks of its runs, `changes` tells changes from noise, and
`trends` follows the suites. `data` arranges all of it, independently of the output, with the sentences and tiles
of `summary`; `markdown` and `page` format it. The page's text, style and script are the files `page.html`,
`page.css` and `*.js`, which filter, tabulate and plot the data. Nothing here measures.
"""
