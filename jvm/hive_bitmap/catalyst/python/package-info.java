/** The Python process that decides: which process answers, how it is started and called, the requests to it, and caches of its answers. */
package hive_bitmap.catalyst.python;
