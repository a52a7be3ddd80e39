"""The explorer: runs of any size in the browser, from a local server that only reads."""
