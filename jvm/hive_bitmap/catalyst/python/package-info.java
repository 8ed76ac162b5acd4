/** The Python process that decides: its start, calls and requests to it, and caches of its answers. */
package hive_bitmap.catalyst.python;
