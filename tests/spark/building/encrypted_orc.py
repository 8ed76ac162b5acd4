"""An ORC file with an encrypted column, as ORC's own Java writes it, with a key that only the writer has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import get_field, set_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 10  # rows of equal values


def write(spark: SparkSession, path: Path, batches: int = 30, mask: str = "nullify") -> None:
    """Write k = 0, 1, .. and s = 's0', 's1', .., ten rows each. Readers without the key see s masked."""
    jvm: Any = spark._jvm
    orc = jvm.org.apache.orc
    schema = orc.TypeDescription.fromString("struct<k:int,s:string>")
    keys = orc.InMemoryKeystore().addKey("pii", orc.EncryptionAlgorithm.AES_CTR_128, b"0123456789abcdef")
    options = orc.OrcFile.writerOptions(jvm.org.apache.hadoop.conf.Configuration()).setSchema(schema)
    options = options.setKeyProvider(keys).encrypt("pii:s").masks(f"{mask}:s")
    writer = orc.OrcFile.createWriter(jvm.org.apache.hadoop.fs.Path(f"file:{path}"), options)
    batch = schema.createRowBatch()
    for number in range(batches):
        batch.reset()
        k, s = get_field(batch, "cols")
        k.fill(number % 5)
        s.fill(f"s{number % 5}".encode())
        set_field(batch, "size", BATCH)
        writer.addRowBatch(batch)
    writer.close()
