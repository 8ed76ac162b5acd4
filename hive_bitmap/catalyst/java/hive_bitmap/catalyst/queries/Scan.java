package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.SelectedFiles;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * A table that a query reads: the relation, the conjuncts of the filter right above it with what else is known of the
 * rows that matter, and the columns that the query takes from it. {@code aggregate} is the aggregation that reads
 * nothing but this scan, or null.
 */
public final class Scan {
    final LogicalPlan relation;
    public final CatalogTable table;
    public final List<Expression> conjuncts;
    final List<Attribute> columns;
    public final Aggregate aggregate;
    final List<Expression> leaves = new ArrayList<>();
    public final List<Joins.Link> links = new ArrayList<>();
    /** The plans that were read first for a condition on this scan, and their rows. */
    final Map<LogicalPlan, List<InternalRow>> readFirst = new IdentityHashMap<>();
    /** What the aggregate is the count of, where the query asks only whether there is a row; else null. */
    public Existence existence;
    private Listing listing;

    public Scan(LogicalPlan relation, List<Expression> conjuncts, AttributeSet required, Aggregate aggregate) {
        this.relation = relation;
        this.table = relation instanceof HiveTableRelation hive
                ? hive.tableMeta() : ((LogicalRelation) relation).catalogTable().get();
        this.conjuncts = new ArrayList<>(conjuncts);
        this.aggregate = aggregate;
        this.columns = new ArrayList<>();
        for (Attribute column : Scala.list(relation.output())) {
            if (required == null || required.contains(column)) columns.add(column);
        }
    }

    /** A relation that can be narrowed: a table of the session's catalog that is read as files, and not yet narrowed. */
    public static boolean isIndexable(LogicalPlan plan) {
        return plan instanceof HiveTableRelation
                || plan instanceof LogicalRelation relation
                && relation.catalogTable().isDefined()
                && !relation.isStreaming()
                && relation.relation() instanceof HadoopFsRelation files
                && !(files.location() instanceof SelectedFiles);
    }

    /** Whether a hidden column is needed, which tells the file of a row and its place in it. */
    public boolean asksForFiles() {
        return columns.stream().anyMatch(column -> column.metadata().contains("__metadata_col"));
    }

    /** All columns of the relation. */
    List<Attribute> all() {
        return new ArrayList<>(Scala.list(relation.output()));
    }

    /** The relation's files; null of a table that Spark reads as Hive does. */
    HadoopFsRelation files() {
        return relation instanceof LogicalRelation files ? (HadoopFsRelation) files.relation() : null;
    }

    /** The files that Spark would read for this scan, by partition, listed once; null where it does not tell. */
    Listing listing() {
        if (listing == null && files() != null) listing = Listing.of(files().location(), partitionFilters());
        return listing;
    }

    /** Whether Spark has listed the files already. */
    boolean listsAtOnce() {
        return files() != null && files().location() instanceof InMemoryFileIndex;
    }

    /** Whether partitions of the metastore were listed for this scan. */
    boolean isListed() {
        return listing != null && listing.index != files().location();
    }

    /** The conjuncts that test nothing but partition columns. */
    List<Expression> partitionFilters() {
        List<Expression> found = new ArrayList<>();
        for (Expression one : conjuncts) {
            if (Conditions.isOver(one, partitionColumns())) found.add(named(one));
        }
        return found;
    }

    /** A condition with the table's own names of its columns, which a query may write in other letters. */
    private Expression named(Expression condition) {
        return (Expression) condition.transform(Scala.replacing(one -> {
            if (!(one instanceof Attribute used)) return null;
            for (Attribute column : all()) {
                if (column.exprId().equals(used.exprId())) return column;
            }
            return null;
        }));
    }

    /** The attributes of this relation that are partition columns. */
    List<Attribute> partitionColumns() {
        List<Attribute> found = new ArrayList<>();
        for (String name : files().partitionSchema().fieldNames()) {
            for (Attribute column : Scala.list(relation.output())) {
                if (column.name().equals(name)) found.add(column);
            }
        }
        return found;
    }
}
