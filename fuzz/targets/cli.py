"""The command line: words from its own vocabulary in any order, with hostile values among them.

Each byte picks a word, so that nothing is fetched and nothing outside the folder is written: no
model but toy and recorded ones, no address but a closed one.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from unittest import mock

from aleatoric.cli import main
from fuzz.trial import written

WORDS = (
    "word", "token", "text", "score", "report", "compare", "plan", "list", "fetch", "reproduce",
    "next-word", "e-ece", "production", "--corpus", "--model", "--decoder", "--estimator",
    "--samples", "--until", "--tolerance", "--protocol", "--choose", "--metric", "--splits",
    "--interval", "--seed", "--encoding", "--json", "--format", "--help", "--version", "--data",
    "--analysis", "--system", "--assume", "--se", "--width", "--power", "--difference", "--people",
    "--groups", "--level", "--alpha", "--probe", "--tokeniser", "--template", "--stop", "--turns",
    "--limit", "--max-new-tokens", "--scheme", "--bins", "--window", "--documents", "--url",
    "simulated:contexts=2,people=3", "simulated:people=0", "c.jsonl", "m.jsonl", "t.jsonl",
    "nowhere", "recorded:m.jsonl", "recorded:", "toy", "toy:temperature=2",
    "openai:x@http://127.0.0.1:9/v1?retries=0",
    "translation:.", "ancestral", "top_k=0", "exact", "mc", "se=0.1", "paper", "corrected",
    "bins=x", "tvd_none", "percentile", "utf-16", "latin-1", "latex", "csv", "markdown",
    "terminal", "run",
    "replacement", "sd=0.2,icc=0.05", "lexical-1", "whitespace", "0", "1", "-1", "2", "nan", "inf",
    "1e999", "99999999999999999999", "0.5", "", " ", "\x1b[31m\u202e", "\ud800", "'", "--", "-",
    "-h", "[red]x[/]", "*", "{input}", "http://127.0.0.1:9/x", "corpora", "nothing", "é" * 300,
    "--columns", "--missing", "--sample", "context=@header,response=*", "context=a,response=b",
)  # fmt: skip
SEEDS = tuple(
    bytes(WORDS.index(word) for word in line.split())
    for line in (
        "word --corpus simulated:contexts=2,people=3 --model toy --splits 1 --json",
        "word --corpus c.jsonl --model recorded:m.jsonl --splits 1 --format csv",
        "text --corpus t.jsonl --probe lexical-1 --tokeniser whitespace --splits 1",
        "token --corpus c.jsonl --model toy",
        "score run --json",
        "plan --assume sd=0.2,icc=0.05 --se 0.5 --samples exact --people 2",
        "list corpora",
        "compare run",
        "report run",
        "fetch nothing",
        "reproduce next-word --data nowhere",
    )
)
TOKENS = tuple(bytes([number]) for number in range(len(WORDS)))
CORPUS = b'{"id": 1, "context": "There are", "responses": {"many": 3, "two": 1}}\n'
MODEL = b'{"id": 1, "samples": {"many": 2, "no": 2}}\n'
TEXTS = b'{"id": 1, "input": "Hi?", "references": ["Hello there.", "Hi."]}\n'
FILES = b"\n=====\n".join((CORPUS, MODEL, TEXTS))
MOST = 12


def trial(data: bytes) -> None:
    """One command: it ends with status 0, 1 or 2, never with a traceback."""
    argv = [WORDS[byte % len(WORDS)] for byte in data[:MOST]]
    # Typer completes commands and downloads belong to the network: neither is of interest here.
    if "fetch" in argv and "nothing" not in argv:
        return
    folder = written(FILES, "c.jsonl", "m.jsonl", "t.jsonl")[0].parent
    before, out, err = os.getcwd(), io.StringIO(), io.StringIO()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(sys, "argv", ["aleatoric", *argv]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.suppress(SystemExit),
        ):
            main()
    finally:
        os.chdir(before)
    said = err.getvalue()
    assert "Traceback" not in said, said
    assert "\x1b[31m" not in said + out.getvalue(), (argv, said)
