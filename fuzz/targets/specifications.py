"""What stands after --model, --decoder, --scheme, --until and in simulated:..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aleatoric.calibration.statistics import Scheme
from aleatoric.data.opening import open_corpus
from aleatoric.models import toy
from aleatoric.models.decoding import Decoder
from aleatoric.models.openai_spec import parse_decoder, parse_spec
from aleatoric.nextword.adaptive import parse_until
from aleatoric.studies.plan import Assumptions
from fuzz.trial import refusals, text_of

READERS: tuple[Callable[[str], Any], ...] = (
    Decoder.parse,
    Scheme.parse,
    parse_spec,
    parse_decoder,
    parse_until,
    toy.load,
    lambda text: Assumptions.parse([text]),
    lambda text: open_corpus(f"simulated:{text}"),
)

SEEDS = (
    b"temperature=0.5,top_p=0.9",
    b"gpt@http://127.0.0.1:9/v1?mode=chat&timeout=3",
    b"contexts=3,people=2",
    b"se=0.01",
    b"sd=0.2,icc=0.05",
    b"ancestral,samples=1",
)
TOKENS = (
    b"top_k=",
    b"typical=",
    b"greedy",
    b"@http://",
    b"?n=",
    b"seed=",
    b"nan",
    b"1e999",
    b"-0",
    b"\xd9\xa3",
    b":",
    b"parallel:",
    b"text:",
    b"recorded:",
)


def trial(data: bytes) -> None:
    """One input."""
    text = text_of(data)
    for read in READERS:
        with refusals():
            read(text)
