package hive_bitmap.catalyst.reading;

import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;

/** Copies of relations of files, over other files. */
public final class FileRelations {
    private FileRelations() {}

    /** Returns the relation over the files of this index. */
    public static HadoopFsRelation over(HadoopFsRelation files, FileIndex index) {
        return new HadoopFsRelation(
                index, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(),
                files.sparkSession());
    }

    /** Returns a relation, with the same expression ids, of these files and this table. */
    public static LogicalRelation copied(LogicalRelation relation, HadoopFsRelation files, Option<CatalogTable> table) {
        Object[] arguments = new Object[relation.productArity()];
        for (int at = 0; at < arguments.length; at++) {
            Object argument = relation.productElement(at);
            if (argument instanceof HadoopFsRelation) argument = files;
            if (argument == relation.catalogTable()) argument = table;
            arguments[at] = argument;
        }
        return (LogicalRelation) relation.makeCopy(arguments);
    }
}
