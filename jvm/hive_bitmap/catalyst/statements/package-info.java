/** Index statements (CREATE INDEX, ..), which Spark's parser turns into commands that Python executes. */
package hive_bitmap.catalyst.statements;
