package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.FileRelations;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.Narrowing;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.WeakHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;

/**
 * The parts of a Delta table to read, stored under a mark in the options of its relation. The relation keeps Delta's own files and
 * format: Delta looks for them when it plans the scan, and adds the filter over deleted rows only if it finds them. A plan that
 * loses the mark reads more, but returns the same rows.
 *
 * @param choices the ranges of files to read, by path; a file without a choice is read whole
 */
record NarrowedDelta(Map<Path, FileChoice> choices, Narrowing narrowing) {
    private static final String MARK = "hive_bitmap.narrowed";
    /** The entries by mark, the string object in the options. An entry lives as long as a plan with this object. */
    private static final Map<String, NarrowedDelta> MARKED = Collections.synchronizedMap(new WeakHashMap<>());

    /**
     * Marks a relation with choices of files, by their numbers in the listing. The result has the bytes to read in its statistics.
     */
    static LogicalRelation marked(
            LogicalRelation relation, Listing listing, Map<Integer, FileChoice> choices, Narrowing narrowing) {
        HadoopFsRelation files = (HadoopFsRelation) relation.relation();
        Map<Path, FileChoice> byPath = new HashMap<>();
        long bytes = 0;
        for (int number = 0; number < listing.files.size(); number++) {
            FileChoice choice = choices.get(number);
            if (choice != null) byPath.put(listing.files.get(number).getPath(), choice);
            bytes += choice == null ? listing.files.get(number).getLen() : choice.bytes();
        }
        String mark = UUID.randomUUID().toString();
        MARKED.put(mark, new NarrowedDelta(byPath, narrowing));
        Option<CatalogTable> table = Option.apply(FileRelations.sized(relation.catalogTable().get(), bytes));
        return FileRelations.copied(relation, withOptions(files, files.options().updated(MARK, mark)), table);
    }

    /** Removes the mark from a relation. */
    static LogicalRelation unmarked(LogicalRelation relation) {
        HadoopFsRelation files = (HadoopFsRelation) relation.relation();
        HadoopFsRelation plain = withOptions(files, (scala.collection.immutable.Map<String, String>) files.options().removed(MARK));
        return FileRelations.copied(relation, plain, relation.catalogTable());
    }

    private static HadoopFsRelation withOptions(HadoopFsRelation files, scala.collection.immutable.Map<String, String> options) {
        return new HadoopFsRelation(
                files.location(), files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), options,
                files.sparkSession());
    }

    /** Returns the entry of a marked relation; null for any other plan. */
    static NarrowedDelta of(LogicalPlan plan) {
        if (!(plan instanceof LogicalRelation relation) || !(relation.relation() instanceof HadoopFsRelation files)) return null;
        Option<String> mark = ((scala.collection.Map<String, String>) files.options()).get(MARK);
        return mark.isEmpty() ? null : MARKED.get(mark.get());
    }
}
