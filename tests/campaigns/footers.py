"""Footers of Parquet and ORC files changed field by field, so that Thrift and protobuf still parse them.

A random byte mostly breaks the encoding, which readers notice. A field that is missing, doubled, of another value or
under another id is what damages and other writers make of it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

EDGES = (0, 1, -1, 2, 7, 127, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63))
BOOLEANS, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = (1, 2), 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
NUMBERS = (I16, I32, I64)


@dataclass
class Node:
    """A field of a message: its number, its type, and its value, or the nodes that it consists of.

    `kind` is a type of Thrift's compact protocol, or a wire type of protobuf. `inner` is the type of the elements of a
    list; 0 for a message.
    """

    number: int
    kind: int
    value: Any = None
    children: list[Node] = field(default_factory=list)
    inner: int = 0

    def all(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.all()


class Reader:
    """Reads the primitive values of both encodings."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        found = self.number()
        return (found >> 1) ^ -(found & 1)


def number(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def signed(value: int) -> bytes:
    return number((value << 1) ^ (value >> 63))


def thrift(data: bytes) -> Node:
    """Parse a struct in Thrift's compact protocol."""
    return _struct(Reader(data), 0)


def _struct(source: Reader, at: int) -> Node:
    found, last = Node(at, STRUCT), 0
    while head := source.take(1)[0]:
        last = last + (head >> 4) if head >> 4 else source.signed()
        found.children.append(_value(source, last, head & 15))
    return found


def _value(source: Reader, at: int, kind: int) -> Node:
    match kind:
        case 1 | 2:
            return Node(at, kind)
        case 3:
            return Node(at, kind, source.take(1)[0])
        case 4 | 5 | 6:
            return Node(at, kind, source.signed())
        case 7:
            return Node(at, kind, source.take(8))
        case 8:
            return Node(at, kind, source.take(source.number()))
        case 9 | 10:
            head = source.take(1)[0]
            count = head >> 4 if head >> 4 < 15 else source.number()
            return Node(at, kind, None, [_element(source, head & 15) for _ in range(count)], head & 15)
        case 12:
            return _struct(source, at)
    raise AssertionError(f"type {kind} of field {at}")


def _element(source: Reader, kind: int) -> Node:
    return Node(0, kind, source.take(1)[0]) if kind in BOOLEANS else _value(source, 0, kind)


def thrift_bytes(node: Node) -> bytes:
    """Write a struct in Thrift's compact protocol; each id is written out, which every reader takes."""
    out = bytearray()
    for child in node.children:
        out += bytes([child.kind]) + signed(child.number & 0x7FFF) + _thrift_value(child)
    return bytes([*out, 0])


def _thrift_value(node: Node, *, element: bool = False) -> bytes:
    match node.kind:
        case 1 | 2:
            return bytes([node.value or node.kind]) if element else b""
        case 3:
            return bytes([node.value & 255])
        case 4 | 5 | 6:
            return signed(node.value)
        case 7:
            return bytes(node.value)
        case 8:
            return number(len(node.value)) + bytes(node.value)
        case 9 | 10:
            head = bytes([0xF0 | node.inner]) + number(len(node.children))
            return head + b"".join(_thrift_value(child, element=True) for child in node.children)
    return thrift_bytes(node)


# Which fields of ORC's messages are messages, by the path of their numbers: of Footer, PostScript and StripeFooter.
ORC_FOOTER: dict[int, Any] = {3: {}, 4: {5: {}}, 5: {}, 7: {n: {} for n in range(2, 11)}, 10: {}}
ORC_POSTSCRIPT: dict[int, Any] = {}
ORC_STRIPE: dict[int, Any] = {1: {}, 2: {}}


def protobuf(data: bytes, messages: dict[int, Any], at: int = 0) -> Node:
    """Parse a message; `messages` are the fields that are messages themselves, with theirs."""
    source, found = Reader(data), Node(at, 2, inner=1)
    while source.at < len(data):
        key = source.number()
        place, kind = key >> 3, key & 7
        if kind == 0:
            found.children.append(Node(place, kind, source.number()))
        elif kind in (1, 5):
            found.children.append(Node(place, kind, source.take(8 if kind == 1 else 4)))
        else:
            content = source.take(source.number())
            found.children.append(
                protobuf(content, messages[place], place) if place in messages else Node(place, 2, content)
            )
    return found


def protobuf_bytes(node: Node) -> bytes:
    """Write the fields of a message."""
    out = bytearray()
    for child in node.children:
        out += number((child.number & 0x1FFFFFFF) << 3 | child.kind)
        if child.kind == 0:
            out += number(child.value)
        elif child.kind in (1, 5):
            out += child.value
        else:
            content = protobuf_bytes(child) if child.inner else child.value
            out += number(len(content)) + content
    return bytes(out)


def changed(root: Node, rng: random.Random) -> str:
    """Change something in the message; return what."""
    parents = [node for node in root.all() if node.children]
    parent = rng.choice(parents)
    child = rng.choice(parent.children)
    way = rng.choice(WAYS)
    said = f"{way.__name__} field {child.number} (type {child.kind}) of field {parent.number}"
    way(parent, child, root, rng)
    return said


def leave_out(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    parent.children = [node for node in parent.children if node is not child]


def repeat(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    parent.children[parent.children.index(child) : 0] = [child] * rng.choice([1, 1, 2, 20])


def renumber(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    child.number = rng.choice([child.number + 1, max(child.number - 1, 1), rng.randrange(1, 20), 30_000])


def reorder(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    rng.shuffle(parent.children)


def revalue(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    """Give a value that is near the one before, at the edge of its type, or random."""
    if isinstance(child.value, int):
        near = child.value + rng.choice([-1, 1, 8, -8])
        child.value = rng.choice([near, rng.randrange(0, 40), rng.choice(EDGES), rng.getrandbits(63)])
    elif isinstance(child.value, bytes):
        size = len(child.value)
        other = bytes(rng.randrange(256) for _ in range(size))
        edge = struct.pack("<d", rng.choice([float("nan"), float("inf"), -0.0]))[:size].ljust(size, b"\0")
        fixed = child.kind in ((DOUBLE,) if parent.kind == STRUCT else (1, 5))
        child.value = rng.choice([other, edge] if fixed else [b"", other, child.value[: size // 2], child.value * 3])
    elif child.children or child.inner:
        child.children = child.children[: len(child.children) // 2]
    elif child.kind in BOOLEANS:
        child.kind = 3 - child.kind


def retake(parent: Node, child: Node, root: Node, rng: random.Random) -> None:
    """Take the value of another field of the same type."""
    alike = [n for n in root.all() if n.kind == child.kind and n.inner == child.inner and not _holds(n, child)]
    if alike:
        other = rng.choice(alike)
        child.value, child.children = other.value, list(other.children)


def _holds(node: Node, child: Node) -> bool:
    return any(one is child for one in node.all())


WAYS: tuple[Callable[[Node, Node, Node, random.Random], None], ...] = (
    leave_out,
    leave_out,
    repeat,
    renumber,
    reorder,
    revalue,
    revalue,
    revalue,
    retake,
)


def damaged_parquet(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a Parquet file with a changed footer, and what was changed."""
    size = int.from_bytes(data[-8:-4], "little")
    root = thrift(data[-8 - size : -8])
    said = "; ".join(changed(root, rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
    footer = thrift_bytes(root)
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1", said


def damaged_orc(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return an uncompressed ORC file with a changed footer, postscript or footer of a stripe, and what was changed."""
    postscript = protobuf(data[-1 - data[-1] : -1], ORC_POSTSCRIPT)
    said = {node.number: node.value for node in postscript.children}
    end = len(data) - 1 - data[-1]
    body, footer = data[: end - said[1]], protobuf(data[end - said[1] : end], ORC_FOOTER)
    which = rng.choice(["footer"] * 6 + ["postscript", "stripe"])
    if which == "stripe":
        body, told = _with_damaged_stripe(body, footer, rng)
    else:
        root = footer if which == "footer" else postscript
        told = "; ".join(changed(root, rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
    stored = protobuf_bytes(footer)
    for node in postscript.children:
        if node.number == 1 and which != "postscript":
            node.value = len(stored)
    tail = protobuf_bytes(postscript)[:255]
    return body + stored + tail + bytes([len(tail)]), f"{which}: {told}"


def _with_damaged_stripe(body: bytes, footer: Node, rng: random.Random) -> tuple[bytes, str]:
    """Change the footer of the last stripe, after which only the statistics of the stripes come."""
    stripe = {node.number: node.value for node in [n for n in footer.children if n.number == 3][-1].children}
    start = stripe[1] + stripe[2] + stripe[3]
    root = protobuf(body[start : start + stripe[4]], ORC_STRIPE)
    told = changed(root, rng)
    stored = protobuf_bytes(root)
    for node in [n for n in footer.children if n.number == 3][-1].children:
        if node.number == 4:
            node.value = len(stored)
    return body[:start] + stored + body[start + stripe[4] :], told
