"""Real stores on loopback: HDFS in a JVM, an S3 server, and a proxy before it that counts, delays and fails."""
