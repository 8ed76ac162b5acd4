package hive_bitmap.catalyst.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import scala.collection.immutable.Seq;

/** The physical plan of {@link KeyCounts}. */
public final class KeyCountsExec extends DriverRowsExec {
    private final transient List<InternalRow> rows;

    public KeyCountsExec(Seq<Attribute> output, List<InternalRow> rows) {
        super(output);
        this.rows = rows;
    }

    @Override
    protected List<InternalRow> rows() {
        return rows;
    }

    @Override
    protected DriverRowsExec copy() {
        return new KeyCountsExec(output(), rows);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {rows};
    }
}
