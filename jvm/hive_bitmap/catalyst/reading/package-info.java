/**
 * Restricts Spark's own readers to the selected files and blocks of a relation, and checks in the tasks that each file is
 * still the one that was planned.
 */
package hive_bitmap.catalyst.reading;
