"""The optimizer rule: plain Spark uses the indexes. All that touches Spark's internals is here, in Java and py4j."""
