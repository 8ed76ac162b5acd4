/** The Python process that decides on scans: its start, the calls and requests to it, and the caches of its answers. */
package hive_bitmap.catalyst.python;
