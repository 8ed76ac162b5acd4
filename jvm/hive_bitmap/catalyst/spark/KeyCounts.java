package hive_bitmap.catalyst.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The distinct keys of a scan's rows held in the driver, with the number of rows that have each key. Unlike a LocalRelation, this
 * leaf is executed in one partition.
 */
public final class KeyCounts extends Leaf {
    private static final int BYTES_A_COLUMN = 16;
    private final List<InternalRow> rows;

    public KeyCounts(Seq<Attribute> output, List<InternalRow> rows) {
        super(output);
        this.rows = rows;
    }

    public List<InternalRow> rows() {
        return rows;
    }

    @Override
    public Statistics computeStats() {
        long bytes = Math.max(1L, (long) rows.size() * Scala.list(output()).size() * BYTES_A_COLUMN);
        return new Statistics(
                scala.math.BigInt.apply(bytes), Option.empty(),
                org.apache.spark.sql.catalyst.expressions.AttributeMap$.MODULE$.empty(), false);
    }

    @Override
    protected Leaf copy() {
        return new KeyCounts(output(), rows);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {rows};
    }
}
