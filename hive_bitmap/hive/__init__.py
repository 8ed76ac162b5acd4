"""The parts that only Hive needs.

They are queries through a Hive server, and native indexes of Hive 2.
"""
