"""The kills of `tests/campaigns` with an index on real stores, the metastore on a disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.campaigns import kills
from tests.servers.fixtures import started
from tests.stores.conftest import BUCKET, S3
from tests.stores.servers import s3 as s3_server
from tests.stores.servers.s3 import open_uploads

pytestmark = [pytest.mark.stores, pytest.mark.turn(2)]
USUAL = 2  # kills; five more for each N of --long N


@pytest.mark.parametrize("store", ["s3", "hdfs"])
def test_acts_are_killed_on_a_store(
    store: str,
    s3: S3,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tell_of_campaign: Callable[[str], None],
) -> None:
    long, seed = (request.config.getoption(name) for name in ("--long", "--seed"))
    root = f"s3a://{BUCKET}" if store == "s3" else request.getfixturevalue("hdfs")
    wanted = USUAL + 5 * long
    conf = {f"spark.hadoop.{name}": value for name, value in s3.settings.items()}
    report = kills.run(tmp_path, seed, wanted, f"{root}/{uuid4().hex}", {**conf, **clients()})
    tell_of_campaign(f"kills on {store}, seed {seed}: {report}")
    assert report.kills.total() == wanted
    assert store == "hdfs" or open_uploads(s3.port, BUCKET) == 0


def clients() -> dict[str, str]:
    """The settings by which a driver has a client of S3."""
    with started(contextlib.nullcontext(s3_server.client_jars())) as jars:
        return {"spark.driver.extraClassPath": f"{jars}/*", "spark.executor.extraClassPath": f"{jars}/*"}
