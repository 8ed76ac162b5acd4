"""What a server sets for the safety of its tables, no session can undo."""

from __future__ import annotations

import pytest

from hive_bitmap.spark.metastore.security_settings import enforced

READS, OWNERS, ROOTS = (f"hive_bitmap.{name}" for name in ("engine_reads_only", "trusted_owners", "trusted_roots"))


@pytest.mark.parametrize(
    ("server", "session", "wanted"),
    [
        ({READS: "true"}, {READS: "false"}, {READS: "true"}),
        ({READS: " TRUE "}, {}, {READS: " TRUE "}),
        ({READS: "yes"}, {READS: "false"}, {READS: "yes"}),  # where it is read, it is refused
        ({READS: "false"}, {READS: "true"}, {READS: "true"}),
        ({}, {READS: "true"}, {READS: "true"}),
        ({OWNERS: "a,b"}, {OWNERS: "b, c"}, {OWNERS: "b"}),
        ({OWNERS: "a"}, {OWNERS: ""}, {OWNERS: ""}),
        ({OWNERS: "a"}, {}, {OWNERS: "a"}),
        ({OWNERS: ""}, {OWNERS: "me"}, {OWNERS: ""}),
        ({}, {OWNERS: "me"}, {OWNERS: "me"}),
        ({ROOTS: "/w"}, {ROOTS: "/"}, {ROOTS: ""}),
        ({"other": "x"}, {"other": "y"}, {"other": "y"}),
    ],
)
def test_a_session_may_only_be_stricter(
    server: dict[str, str], session: dict[str, str], wanted: dict[str, str]
) -> None:
    assert enforced(server, session) == wanted
