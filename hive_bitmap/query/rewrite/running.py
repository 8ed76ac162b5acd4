"""Running a query: with narrowed scans where they pay, else as it was written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hive_bitmap.query.rewrite.choices import Rewriting
from hive_bitmap.query.rewrite.explaining import explained
from hive_bitmap.query.rewrite.rewriting import rewrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def run(spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
    """What `spark.sql(text, args)` answers, its scans of indexed tables narrowed where that pays.

    EXPLAIN [ANALYZE] tells how. Raises what Spark raises.
    """
    explanation = explained(spark, text, args)
    return perform(spark, rewrite(spark, text, args), args) if explanation is None else explanation


def perform(spark: SparkSession, rewriting: Rewriting, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
    """The answer of a query that was rewritten; of the text as it was, if Spark refuses the other."""
    from pyspark.errors import AnalysisException

    if rewriting.result is not None:
        return rewriting.result
    if rewriting.frames:
        try:
            found = spark.sql(rewriting.template, args=args, **rewriting.frames)
            found.schema  # noqa: B018 - Spark Connect analyses when it is asked for the schema
            return found
        except AnalysisException as e:
            log.info("with narrowed scans Spark refuses, so they are left out: %s", str(e).splitlines()[0])
    return spark.sql(rewriting.text, args=args)
