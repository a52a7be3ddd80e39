"""Independent random streams, one per work item, derived from a seed and the item's name only.

So no result depends on batching, order, number of workers or resumption.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray


def stream(seed: int, *keys: str | int) -> np.random.Generator:
    """The random generator of the work item that `keys` name.

    >>> a, b = stream(0, "split", "1:2"), stream(0, "split", "1:2")
    >>> bool(a.random() == b.random())
    True
    """
    # Length-prefixed parts: ("ab", "c") and ("a", "bc") are different keys.
    parts = [str(seed), *map(str, keys)]
    text = "".join(f"{len(part)}:{part};" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=32).digest()
    # numpy takes any seed sequence, though its stubs name only its own.
    return np.random.Generator(np.random.PCG64(_Digest(digest)))  # type: ignore[arg-type]


class _Digest(ISeedSequence):
    """A digest as the state of a generator: it is well mixed, so mixing it again is not needed."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The first words of the digest."""
        return np.frombuffer(self._digest, dtype=dtype, count=n_words)
