"""`python -m triten.perf report`: result files of the suite as a page, as markdown for logs, or as JSON.

`data` arranges what the files say, and knows nothing of how it is shown; `markdown` and `page` show it. The page's own
text, style and script are the files beside them: `page.html`, `page.css`, and `*.js`, which filter, tabulate and plot
what `data` prepared. Nothing here measures.
"""
