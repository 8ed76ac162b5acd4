/** Index statements (CREATE INDEX, ..) in Spark's parser, as commands that Python carries out. */
package hive_bitmap.catalyst.statements;
