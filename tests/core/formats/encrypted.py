"""Parquet files that are encrypted, whole or in part, with keys that stand in the file."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

KINDS = ("footer", "column", "uniform")


class _Keys(pe.KmsClient):
    def __init__(self, connection: object) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write(path: Path, table: pa.Table, kind: str, column: str = "s") -> None:
    """Write a table whose footer and `column` are encrypted, or the column alone, or all with one key."""
    keys = {} if kind == "uniform" else {"column_keys": {"c": [column]}}
    how = pe.EncryptionConfiguration(
        footer_key="f",
        plaintext_footer=kind != "footer",
        uniform_encryption=kind == "uniform",
        cache_lifetime=dt.timedelta(minutes=5),
        **keys,
    )
    properties = pe.CryptoFactory(_Keys).file_encryption_properties(pe.KmsConnectionConfig(), how)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
