/**
 * Which files, and which blocks of them, Spark's own readers read of a relation; in a task, whether a file is still the one
 * that was planned.
 */
package hive_bitmap.catalyst.reading;
