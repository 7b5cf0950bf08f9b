"""Server that shows runs as they arrive: `python -m triten.perf serve`.

- `watching` reads result files, progress files and a store, and knows when they change.
- `server` answers HTTP from memory. It has fixed routes and never maps a path of a request to a file.
- `live.html`, `live.css` and `live.js` are its page.
"""
