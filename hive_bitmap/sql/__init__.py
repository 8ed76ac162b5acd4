"""SQL text: index statements in Hive's words and openLooKeng's; any other statement is Spark's."""
