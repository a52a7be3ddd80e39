"""The command that makes a number again, from the manifest of its run."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import Any

from aleatoric.levels.base import level_of
from aleatoric.report.tables import printable
from aleatoric.runs.job import Job
from aleatoric.runs.run import Store


def command_of(store: Store, system: str | None = None) -> str:
    """Return the command of a whole run, or of one of its models alone.

    A control needs no model: people are in the corpus. A fine-tuning run is made as a whole.
    """
    level = level_of(store)
    job = level.job_type.from_manifest(store.manifest, {})
    if system is not None and not level.needs_out:
        job = _of_system(job, store, system)
    is_live = any(not model.startswith("recorded:") for model in job.models)
    words = ["aleatoric", job.command, *job.arguments(is_live)]
    out = ["--out", f"{store.path.name}-again"] if level.needs_out else []
    return printable(shlex.join([*words, *out, "--json"]))


def _of_system(job: Job, store: Store, system: str) -> Job:
    """Return the job with the model and decoder of one system."""
    facts, known = store.systems()[system], {own.name: own.default for own in fields(job)}
    spec = facts.get("spec") or facts["model"].rpartition("@")[0]
    changes: dict[str, Any] = {"models": tuple(own for own in job.models if own == spec)}
    if "decoders" in known:
        asked, decoder = vars(job)["decoders"], str(facts["decoder"])
        changes["decoders"] = (decoder,) if decoder in asked else known["decoders"]
    return replace(job, **changes)
