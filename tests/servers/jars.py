"""The jars of a server, fetched once from Maven Central into a folder that all checkouts share.

Every jar is named, with its version, in a list beside this module: nothing is resolved, so a server has the same class
path today and next year. A line is `group:artifact:version`, or `group:artifact:extension[:classifier]:version`, as
`mvn dependency:list` prints them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import pyspark

from hive_bitmap.spark import java

SECONDS = 900  # for the slowest download that is worth waiting for


class Unavailable(Exception):
    """What a server needs cannot be had here; the message says what and why."""


class Artifact(NamedTuple):
    group: str
    name: str
    version: str
    extension: str = "jar"
    classifier: str = ""


def listed(name: str) -> list[str]:
    """The coordinates in the list `name`.jars."""
    return Path(__file__).with_name(f"{name}.jars").read_text().split()


def cache() -> Path:
    """The folder in which what is fetched is kept, for all checkouts; it is made at need."""
    found = Path(os.environ.get("HIVE_BITMAP_CACHE") or Path.home() / ".cache" / "hive_bitmap")
    found.mkdir(parents=True, exist_ok=True)
    return found


def resolve(name: str, coordinates: Sequence[str] | None = None) -> Path:
    """A folder with the files of these coordinates (of the list `name` without them) and nothing else.

    It lies in $HIVE_BITMAP_CACHE (default ~/.cache/hive_bitmap), is made at first need, whole or not at all, and is
    never changed. Raises Unavailable where they cannot be fetched.
    """
    wanted = sorted(listed(name) if coordinates is None else coordinates)
    folder = cache() / f"{name}-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:12]}"
    with open(cache() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as work:
                _fetch([artifact(text) for text in wanted], Path(work))
                (Path(work) / "files").rename(folder)
    return folder


def artifact(coordinate: str) -> Artifact:
    """
    >>> artifact("g:a:1.0")
    Artifact(group='g', name='a', version='1.0', extension='jar', classifier='')
    >>> artifact("g:a:tar.gz:bin:1.0")
    Artifact(group='g', name='a', version='1.0', extension='tar.gz', classifier='bin')
    """
    group, name, *rest, version = coordinate.split(":")
    return Artifact(group, name, version, *rest)


def _fetch(artifacts: Sequence[Artifact], work: Path) -> None:
    """Fetch into `work`/files: with Maven where there is one, for its mirrors and its proxy, else with Spark's Ivy."""
    tool: Callable[[Sequence[Artifact], Path], list[str]] = _maven if shutil.which("mvn") else _ivy
    command = tool(artifacts, work)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not fetch the jars in {SECONDS} s") from None
    there = {path.name for path in work.glob("files/*")}
    missing = [a for a in artifacts if f"{'-'.join(filter(None, [*a[1:3], a.classifier]))}.{a.extension}" not in there]
    if missing:
        reason = (done.stdout + done.stderr).strip()[-1000:]
        raise Unavailable(f"{len(missing)} of {len(artifacts)} jars cannot be fetched, as {missing[0]}: {reason}")


def _maven(artifacts: Sequence[Artifact], work: Path) -> list[str]:
    excluded = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    tags = ("groupId", "artifactId", "version", "type", "classifier")
    dependencies = "".join(
        "<dependency>"
        + "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in zip(tags, a, strict=True) if text)
        + excluded
        + "</dependency>"
        for a in artifacts
    )
    (work / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>none</groupId>'
        "<artifactId>none</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={work / 'files'}"]
    return ["mvn", "--quiet", "--batch-mode", "--file", str(work / "pom.xml"), *goal]


def _ivy(artifacts: Sequence[Artifact], work: Path) -> list[str]:
    dependencies = "".join(
        f'<dependency org={quoteattr(a.group)} name={quoteattr(a.name)} rev={quoteattr(a.version)} transitive="false">'
        f"<artifact name={quoteattr(a.name)} type={quoteattr(a.extension)} ext={quoteattr(a.extension)}"
        + (f" m:classifier={quoteattr(a.classifier)}" if a.classifier else "")
        + "/></dependency>"
        for a in artifacts
    )
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="none" module="none"/>'
        f'<configurations defaultconfmapping="*->*"/><dependencies>{dependencies}</dependencies></ivy-module>'
    )
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    pattern = work / "files" / "[artifact]-[revision](-[classifier]).[ext]"
    command = [java.executable(), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "ivy")]
    return [*command, "-retrieve", str(pattern)]
