"""A run while it is worked on: what happens to it when the work ends, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aleatoric.errors import AleatoricError
from aleatoric.store import Store
from aleatoric.store.faults import before_any_work, told


@contextmanager
def working(store: Store, holds_work: Callable[[Store], bool]) -> Iterator[None]:
    """Work on a run that this process alone writes; others may write it afterwards.

    A new run goes again where its input is bad, unless it `holds_work` that cost time. Anything
    else that ends the work leaves what was saved.
    """
    try:
        with told(store.path):
            yield
    except AleatoricError as error:
        if store.is_created and not _safely(holds_work, store):
            store.discard()
            raise before_any_work(error) from error.__cause__
        store.close()
        raise
    except BaseException:
        store.close()
        raise
    store.release()


def _safely(holds_work: Callable[[Store], bool], store: Store) -> bool:
    """Whether a run holds work; one that cannot be read might."""
    try:
        with told(store.path):
            return holds_work(store)
    except AleatoricError:
        return True
