package hive_bitmap.catalyst.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/** Rows that Python sends as Arrow record batches. A batch takes one call, where a DataFrame would take dozens. */
public final class ArrowRows {
    private final StructType schema;
    public final List<InternalRow> rows = new ArrayList<>();

    public ArrowRows(String schema) {
        this.schema = (StructType) DataType.fromJson(schema);
    }

    /** Adds the rows of a batch, an encapsulated message of Arrow's IPC format, without the schema. */
    public ArrowRows add(byte[] batch) {
        UnsafeProjection projection = UnsafeProjection.create(schema);
        Iterator<InternalRow> batchRows = ArrowConverters$.MODULE$.fromBatchIterator(
                Scala.seq(List.of(batch)).iterator(), schema, SQLConf.get().sessionLocalTimeZone(), true, false, null);
        while (batchRows.hasNext()) rows.add(projection.apply(batchRows.next()).copy());
        return this;
    }

    public List<DataType> types() {
        return Arrays.stream(schema.fields()).map(StructField::dataType).toList();
    }

    /** Returns an attribute for each column, with new expression ids. */
    public List<Attribute> columns() {
        return new ArrayList<>(Scala.list(DataTypeUtils.toAttributes(schema)));
    }
}
