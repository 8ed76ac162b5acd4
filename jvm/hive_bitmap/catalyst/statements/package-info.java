/** Index statements (CREATE INDEX, ..) in Spark's parser, as commands that Python executes. */
package hive_bitmap.catalyst.statements;
