package hive_bitmap.catalyst;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import scala.collection.immutable.Seq;

/** {@link KeyCounts}, executed. */
final class KeyCountsExec extends DriverRowsExec {
    private final transient List<InternalRow> rows;

    KeyCountsExec(Seq<Attribute> output, List<InternalRow> rows) {
        super(output);
        this.rows = rows;
    }

    @Override
    List<InternalRow> rows() {
        return rows;
    }

    @Override
    DriverRowsExec copy() {
        return new KeyCountsExec(output(), rows);
    }

    @Override
    Object[] identity() {
        return new Object[] {rows};
    }
}
