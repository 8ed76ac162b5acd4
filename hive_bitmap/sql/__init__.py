"""Statements on indexes, Hive's and openLooKeng's: text to values without Spark, and values done through `index`."""
