/** Keys of indexes that are expressions over columns: how they are resolved, their values, and the tests of keys that tests of columns imply. */
package hive_bitmap.catalyst.keys;
