"""The data of the figures of a token-level run."""

from __future__ import annotations

from aleatoric import registry, token_pipeline
from aleatoric.analyses.pictures import Panels, Picture, Reliability, plain
from aleatoric.errors import UsageError
from aleatoric.store import Store
from aleatoric.tokens.consistency import of_expectations, of_hits
from aleatoric.tokens.curves import Curve
from aleatoric.types import Study


def figure_data(store: Store) -> dict[str, Picture]:
    """Figure name -> data: reliability diagrams, and the studies' where rows were kept."""
    systems = token_pipeline.systems(store)
    found: dict[str, Picture] = {}
    for system in systems:
        ending = f" {system}" if len(systems) > 1 else ""
        found[f"reliability{ending}"] = reliability(store, system)
        found |= {f"{name}{ending}": one for name, one in _studies(store, system).items()}
    return found


def reliability(store: Store, system: str) -> Panels:
    """A diagram of the plain curve and one of every scheme's, with counts and consistency bars."""
    manifest = store.manifest
    curves = token_pipeline.calibration(store, system).curves
    diagrams = [
        _diagram(name, curve, manifest["seed"] if name == "ece" else None)
        for name, curve in curves.items()
    ]
    return Panels(system, tuple(diagrams))


def _diagram(name: str, curve: Curve, seed: int | None) -> Reliability:
    """The plain curve's hits are drawn from `seed`; expectations have their own variance."""
    if seed is None:
        low, high = of_expectations(curve.bins)
    else:
        found = of_hits(curve.cells, len(curve.bins), seed)
        low, high = found.low, found.high
    error = 100 * curve.errors()["ece"]
    return Reliability(
        f"{name} = {error:.2f}%",
        curve.edges,
        plain(curve.confidence),
        plain(curve.accuracy),
        plain(low),
        plain(high),
        plain(curve.counts),
    )


def _studies(store: Store, system: str) -> dict[str, Picture]:
    if not store.manifest["keep_rows"]:
        return {}
    table, manifest = token_pipeline.token_table(store, system), store.manifest
    found: dict[str, Picture] = {}
    for name in registry.names("token_analyses"):
        try:
            run = registry.find("token_analyses", name)
            study: Study = run(table, manifest["seed"], manifest["bins"])
        except UsageError:
            continue  # too few tokens or documents for it
        found |= study.figures
    return found
