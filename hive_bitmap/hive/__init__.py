"""The parts that only Hive needs.

The parts are queries through a Hive server, and native indexes of Hive 2.
"""
