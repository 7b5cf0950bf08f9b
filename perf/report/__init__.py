"""`python -m triten.perf report`: result files of the suite as a page, as Markdown for logs, or as JSON.

`data` arranges the files' data, independently of the output; `markdown` and `page` format it. The page's
text, style and script are the files `page.html`, `page.css` and `*.js`, which filter, tabulate and plot the
data. Nothing here measures.
"""
