"""Damages of an entry of a folder: a byte flipped, a file cut short, another's content, links, a folder in its place.

Each is done by a function of the entry, of other entries of the same index, and of a folder that is not the index's,
into which links lead. What was there is kept beside, so that it can be put back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2  # capabilities by which root reads what modes forbid
_CAPABILITY_VERSION = 0x20080522


@dataclass(frozen=True)
class Site:
    """Where a damage is done: the entry, all files of the index, and a folder of somebody else."""

    entry: Path
    files: Sequence[Path]
    elsewhere: Path
    rng: random.Random


def flip(site: Site) -> str:
    content = bytearray(site.entry.read_bytes())
    if not content:
        content = bytearray(1)
    at, bit = site.rng.randrange(len(content)), site.rng.randrange(8)
    content[at] ^= 1 << bit
    site.entry.write_bytes(content)
    return f"bit {bit} of byte {at} of {len(content)} flipped"


def overwrite_byte(site: Site) -> str:
    content = bytearray(site.entry.read_bytes() or b"\0")
    at, value = site.rng.randrange(len(content)), site.rng.choice([0, 0x0A, 0x22, 0x7F, 0x80, 0xFF])
    content[at] = value
    site.entry.write_bytes(content)
    return f"byte {at} of {len(content)} is {value:#x}"


def truncate(site: Site) -> str:
    size = site.entry.stat().st_size
    left = site.rng.choice([0, max(size - 1, 0), site.rng.randint(0, size)])
    os.truncate(site.entry, left)
    return f"cut to {left} of {size} bytes"


def lengthen(site: Site) -> str:
    with site.entry.open("ab") as file:
        file.write(site.rng.randbytes(site.rng.randint(1, 100)))
    return "bytes added at its end"


def take_content_of_another(site: Site) -> str:
    other = site.rng.choice(site.files)
    content = other.read_bytes()
    site.entry.write_bytes(content)
    return f"has the content of {other.name}"


def valid_json_of_another_kind(site: Site) -> str:
    content = site.rng.choice(["[]", "null", "3", '""', "{}", '{"pid": "x"}', '{"retired": "x"}', '{"host": null}'])
    site.entry.write_text(content)
    return f"says {content}"


def link_to_a_copy(site: Site) -> str:
    copy = site.elsewhere / f"copy-{site.rng.randrange(10**9)}"
    shutil.copyfile(site.entry, copy)
    _replace_by_link(site.entry, copy)
    return "a link to a copy elsewhere"


def link_to_another(site: Site) -> str:
    other = site.rng.choice(site.files)
    _replace_by_link(site.entry, other)
    return f"a link to {'itself' if other == site.entry else other.name}"


def dangling_link(site: Site) -> str:
    _replace_by_link(site.entry, site.elsewhere / "nothing")
    return "a dangling link"


def link_to_a_folder(site: Site) -> str:
    _replace_by_link(site.entry, site.elsewhere)
    return "a link to a folder elsewhere"


def link_to_a_copied_folder(site: Site) -> str:
    copy = site.elsewhere / f"folder-{site.rng.randrange(10**9)}"
    shutil.copytree(site.entry, copy, symlinks=True)
    _replace_by_link(site.entry, copy)
    return "a link to a copy of the folder elsewhere"


def become_a_folder(site: Site) -> str:
    remove(site.entry)
    site.entry.mkdir()
    (site.entry / "not ours").write_text("of somebody else")
    return "a folder with a file"


def become_a_file(site: Site) -> str:
    remove(site.entry)
    site.entry.write_text("no folder")
    return "a file in place of the folder"


def unreadable(site: Site) -> str:
    site.entry.chmod(0)
    return "may not be read"


def vanish(site: Site) -> str:
    remove(site.entry)
    return "is gone"


Damage = Callable[[Site], str]
OF_FILES: tuple[tuple[Damage, int], ...] = (
    (flip, 30),
    (overwrite_byte, 15),
    (truncate, 10),
    (lengthen, 3),
    (take_content_of_another, 6),
    (valid_json_of_another_kind, 3),
    (link_to_a_copy, 3),
    (link_to_another, 3),
    (dangling_link, 3),
    (link_to_a_folder, 3),
    (become_a_folder, 3),
    (unreadable, 5),
    (vanish, 4),
)
OF_FOLDERS: tuple[tuple[Damage, int], ...] = (
    (link_to_a_copied_folder, 4),
    (link_to_a_folder, 2),
    (dangling_link, 1),
    (become_a_file, 2),
    (unreadable, 2),
    (vanish, 2),
)


def remove(path: Path) -> None:
    """Remove whatever is at a path, and nothing that a link there leads to."""
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o755)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def digest(*folders: Path) -> dict[str, int | str]:
    """What is in folders: the checksum of each file, the target of each link, by path."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else crc32(path.read_bytes()) if path.is_file() else "folder"
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }


@contextlib.contextmanager
def bound_by_modes() -> Iterator[None]:
    """Let modes bind this thread, and those that it starts, even if its user is root (of Linux)."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        yield
        return
    before = _capabilities()
    _set_capabilities(before & ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH))
    try:
        yield
    finally:
        _set_capabilities(before)


def _capabilities() -> int:
    """The effective capabilities of this thread, of the first 32."""
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", header, data)
    return data[0]


def _set_capabilities(effective: int) -> None:
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", header, data)
    data[0] = effective
    _call("capset", header, data)


def _call(name: str, *arguments: ctypes.Array[ctypes.c_uint32]) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name} failed")


def _replace_by_link(path: Path, target: Path) -> None:
    remove(path)
    path.symlink_to(target)
