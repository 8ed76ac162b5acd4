/** Keys of indexes that are expressions over columns: their resolution, their values, and what tests of the columns imply for them. */
package hive_bitmap.catalyst.keys;
