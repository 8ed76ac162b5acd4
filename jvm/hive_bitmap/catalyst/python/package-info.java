/**
 * The Python process that decides: which one answers, how it is called and started, the requests to it, and what is kept of its
 * answers.
 */
package hive_bitmap.catalyst.python;
