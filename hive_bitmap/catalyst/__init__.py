"""The optimizer rule: plain Spark uses the indexes. All that touches Spark's internals is here, in Java and py4j.

`enabling` switches it on for a session, `explanation` tells what it did, `sql_text` runs a text with it.
"""

__all__ = ["enabling", "explanation", "sql_text"]
