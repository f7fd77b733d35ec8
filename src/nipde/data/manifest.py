"""The list of every file of an archive with its SHA-256, written last: an archive without one is not finished."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Self

from nipde.errors import IntegrityError

MANIFEST = "manifest.json"
PROGRESS = "progress"


@dataclass(frozen=True)
class ShardRecord:
    """One finished shard: its files' digests, and what made them."""

    shard: int
    files: dict[str, str]
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Where the record waits for the manifest."""
        return f"{PROGRESS}/{self.shard:08d}.json"

    def to_bytes(self) -> bytes:
        """File content."""
        return _canonical(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read back; raises ValueError on anything unexpected."""
        record = json.loads(data)
        if not isinstance(record, dict):
            raise ValueError("not a shard record")
        return cls(int(record["shard"]), dict(record["files"]), dict(record["versions"]))


@dataclass(frozen=True)
class Manifest:
    """Digests of all files, and what computed them; `digest` names the content."""

    fixed: dict[str, str]
    shards: list[ShardRecord] = field(default_factory=list)

    @property
    def files(self) -> dict[str, str]:
        """Every file and its digest."""
        return {**self.fixed, **{key: value for record in self.shards for key, value in record.files.items()}}

    @property
    def digest(self) -> str:
        """One SHA-256 for the content: all files, but not what computed them."""
        return sha256(_canonical(self.files))

    def to_bytes(self) -> bytes:
        """File content: the body, the content's digest, and a checksum over both."""
        body = {**self._body(), "digest": self.digest}
        return _canonical({**body, "checksum": sha256(_canonical(body))})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read back, refusing any byte that `to_bytes` would not have written."""
        try:
            body = json.loads(data)
            builds = body["builds"]
            shards = [ShardRecord(i, dict(s["files"]), builds[s["build"]]) for i, s in enumerate(body["shards"])]
            manifest = cls(dict(body["fixed"]), shards)
            intact = manifest.to_bytes() == data
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            intact = False
        if not intact:
            raise IntegrityError(
                f"{MANIFEST} is damaged (whole file)", remedy="copy the archive again, or generate it again"
            )
        return manifest

    def _body(self) -> dict[str, Any]:
        builds: list[dict[str, str]] = []
        shards = []
        for record in self.shards:
            if record.versions not in builds:
                builds.append(record.versions)
            shards.append({"files": record.files, "build": builds.index(record.versions)})
        return {"builds": builds, "fixed": self.fixed, "shards": shards}


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


@lru_cache(maxsize=8)
def versions(*beyond: str) -> dict[str, str]:
    """What computed a shard; `beyond`: what else a recipe's solver stands on."""
    names = ("nipde", "numpy", "scipy", "zarr", *beyond)
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _canonical(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, indent=1).encode()
