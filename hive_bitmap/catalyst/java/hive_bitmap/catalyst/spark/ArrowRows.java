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

/** Rows that Python gives as Arrow record batches, which takes a call a batch where a DataFrame takes dozens. */
public final class ArrowRows {
    private final StructType schema;
    public final List<InternalRow> rows = new ArrayList<>();

    public ArrowRows(String schema) {
        this.schema = (StructType) DataType.fromJson(schema);
    }

    /** Add the rows of a batch: an encapsulated IPC message, without its schema. */
    public ArrowRows add(byte[] batch) {
        UnsafeProjection projection = UnsafeProjection.create(schema);
        Iterator<InternalRow> found = ArrowConverters$.MODULE$.fromBatchIterator(
                Scala.seq(List.of(batch)).iterator(), schema, SQLConf.get().sessionLocalTimeZone(), true, false, null);
        while (found.hasNext()) rows.add(projection.apply(found.next()).copy());
        return this;
    }

    public List<DataType> types() {
        return Arrays.stream(schema.fields()).map(StructField::dataType).toList();
    }

    /** A new attribute a column. */
    public List<Attribute> columns() {
        return new ArrayList<>(Scala.list(DataTypeUtils.toAttributes(schema)));
    }
}
