"""Published corpora: where they lie, their checksums and licences."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from aleatoric.errors import UsageError


@dataclass(frozen=True)
class Download:
    """A published file. Without a `sha256`, the first download is trusted and remembered."""

    url: str
    filename: str
    sha256: str | None
    licence: str
    page: str
    encoding: str = "utf-8"
    members: tuple[str, ...] = ()
    """Of an archive, the files that are unpacked beside it."""


DOWNLOADS = {
    "provo": Download(
        url="https://osf.io/download/e4a2m/",
        filename="Provo_Corpus-Predictability_Norms.csv",
        # Recorded by several public projects that downloaded this file (14,301,138 bytes).
        sha256="965fb72eab55f51e08fc1b5622638b85b1085976ff513e2a7bee4adbbd4e6489",
        licence="CC BY 4.0",
        page="https://osf.io/sjefs/",
        encoding="mac-roman",
    ),
    "wmt14-10ref": Download(
        url="https://raw.githubusercontent.com/facebookresearch/analyzing-uncertainty-nmt/"
        "099839c9fe0cdaa2738468105267abc91a65803e/wmt14-en-de.extra_refs.gz",
        filename="wmt14-en-de.extra_refs.gz",
        sha256=None,
        licence="CC BY-NC 4.0",
        page="https://github.com/facebookresearch/analyzing-uncertainty-nmt",
    ),
    "dailydialog++": Download(
        url="https://iitmnlp.github.io/DailyDialog-plusplus/dataset/dev.json",
        filename="dailydialogpp-dev.json",
        sha256=None,
        licence="none stated",
        page="https://iitmnlp.github.io/DailyDialog-plusplus/",
    ),
    "writingprompts": Download(
        url="https://dl.fbaipublicfiles.com/fairseq/data/writingPrompts.tar.gz",
        filename="writingPrompts.tar.gz",
        sha256=None,
        licence="none stated",
        page="https://github.com/facebookresearch/fairseq/tree/main/examples/stories",
        members=tuple(
            f"writingPrompts/{split}.wp_{side}"
            for split in ("valid", "test")
            for side in ("source", "target")
        ),
    ),
}
"""What can be fetched as one file, by corpus name. A new corpus is one entry."""

# Recorded by TensorFlow Datasets, which downloads the same files.
_ASSET = {
    "asset.valid.orig": "83dca90b5c53365a9c4a70222aed129c6df3c3f6b5da82ee94312e179b93fff1",
    "asset.valid.simp.0": "27b0c4a40c91b875c82a8ed76ff7cf0476b03a3a6998a2e3ef6e18000efda624",
    "asset.valid.simp.1": "5043e9db5934c3d538b91f56d23466177813896da10f153d2b16c0c415ac5e84",
    "asset.valid.simp.2": "578dd487cf03f6f66bb4acd2c44b464c3ac9fb42dc64b8e6afd391778ebc7ea7",
    "asset.valid.simp.3": "4ab95ba6f7a60adde2f57201c0b749384ce64c97f8378fb0ab185367709a8386",
    "asset.valid.simp.4": "f6f1d4bf9f87b532b37d7f5700ec384f817dba10247c91df629e1f6eee6c3aa9",
    "asset.valid.simp.5": "182114cfbb2960358b0e2d71737ead9a2abb0c27d3f65281335f079ae4447e3b",
    "asset.valid.simp.6": "aba27b505dad048982e902a04c4ffc5ab9e926b38d2383920aea798fd42de376",
    "asset.valid.simp.7": "73d7983107eca6b98a9aec62ea75ea8d5adf313755b7e105608f212dead124cd",
    "asset.valid.simp.8": "58f8e1109d87a4e3c5403705b8782750bb849cb8389a698156e00ca6512dd5c4",
    "asset.valid.simp.9": "35a861e174ce5458fdcd1866e49aa84297fcb6b51fd98d6633b71932a646832e",
}
SETS = {
    "asset": tuple(
        Download(
            f"https://raw.githubusercontent.com/facebookresearch/asset/main/dataset/{name}",
            name,
            sha256,
            "CC BY-NC 4.0",
            "https://github.com/facebookresearch/asset",
        )
        for name, sha256 in _ASSET.items()
    ),
}
"""Corpora of several files, which are fetched together."""


def named(name: str, url: str | None = None, sha256: str | None = None) -> Download:
    """The download of a corpus, from another address or with another checksum if asked.

    >>> named("provo").licence
    'CC BY 4.0'
    """
    if name not in DOWNLOADS:
        known = ", ".join((*DOWNLOADS, *SETS))
        raise UsageError(f"there is nothing to fetch for {name!r}; use {known}.")
    found = DOWNLOADS[name]
    if url is not None:
        found = replace(found, url=_checked_url(url))
    if sha256 is not None:
        found = replace(found, sha256=_checked_sha256(sha256))
    return found


def files_of(name: str, url: str | None = None, sha256: str | None = None) -> tuple[Download, ...]:
    """All downloads of a corpus; another address or checksum fits one file alone.

    >>> len(files_of("asset")), len(files_of("provo"))
    (11, 1)
    """
    if name not in SETS:
        return (named(name, url, sha256),)
    if url is not None or sha256 is not None:
        n = len(SETS[name])
        raise UsageError(f"{name} has {n} files, so it takes no --url and no --sha256.")
    return SETS[name]


def published_encoding(sha256: str) -> str | None:
    """The encoding of a file that is one of the published ones, byte for byte.

    >>> published_encoding("0" * 64) is None, published_encoding(DOWNLOADS["provo"].sha256 or "")
    (True, 'mac-roman')
    """
    return next((d.encoding for d in DOWNLOADS.values() if d.sha256 == sha256), None)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!a} is no web address; use http:// or https://.")
    return url


def _checked_sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise UsageError(f"{text!a:.80} is no SHA-256; it has 64 hexadecimal digits.")
    return text.lower()
