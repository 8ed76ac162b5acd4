package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;

/** Copies relations and tables with changes, such as other files. */
public final class FileRelations {
    private FileRelations() {}

    /** Copies a table's description, or a part of it, with another value of one field. */
    @SuppressWarnings("unchecked")
    public static <T extends scala.Product> T copied(T description, String field, Object value) {
        List<Object> arguments = new ArrayList<>();
        for (int at = 0; at < description.productArity(); at++) {
            arguments.add(description.productElementName(at).equals(field) ? value : description.productElement(at));
        }
        try { // by reflection, since each version of Spark has added parameters to the constructor
            return (T) description.getClass().getConstructors()[0].newInstance(arguments.toArray());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("a table cannot be copied in this version of Spark", e);
        }
    }

    /** Copies a table with this size in bytes. Of its statistics, only those of columns are kept. */
    public static CatalogTable sized(CatalogTable table, long bytes) {
        scala.collection.immutable.Map<String, CatalogColumnStat> columns =
                table.stats().isEmpty() ? Scala.map(Map.of()) : table.stats().get().colStats();
        CatalogStatistics changed =
                new CatalogStatistics(scala.math.BigInt.apply(Math.max(bytes, 1)), Option.empty(), columns);
        return copied(table, "stats", Option.apply(changed));
    }

    /** Copies a relation with the files of another index. */
    public static HadoopFsRelation over(HadoopFsRelation files, FileIndex index) {
        return new HadoopFsRelation(
                index, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(),
                files.sparkSession());
    }

    /** Copies a relation with these files and this table. The expression ids stay the same. */
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
