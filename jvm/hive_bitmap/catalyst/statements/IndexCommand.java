package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;

/** An index statement, which Python executes. The columns of its result are determined when it is parsed. */
final class IndexCommand extends PythonCommand {
    private IndexCommand(String text, Seq<Attribute> output) {
        super(text, output);
    }

    static IndexCommand of(String text, JsonNode columns, JsonNode types) {
        List<Attribute> output = new ArrayList<>();
        for (int at = 0; at < columns.size(); at++) {
            output.add(new AttributeReference(
                    columns.get(at).asText(), type(types.path(at).asText()), true, Metadata.empty(),
                    NamedExpression.newExprId(), Scala.seq(List.<String>of())));
        }
        return new IndexCommand(text, Scala.seq(output));
    }

    private static DataType type(String name) {
        return switch (name) {
            case "bigint" -> DataTypes.LongType;
            case "double" -> DataTypes.DoubleType;
            default -> DataTypes.StringType;
        };
    }

    private static Object value(JsonNode value, DataType type) {
        if (value.isNull()) return null;
        if (type.equals(DataTypes.LongType)) return value.asLong();
        return type.equals(DataTypes.DoubleType) ? (Object) value.asDouble() : value.asText();
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        List<Row> rows = new ArrayList<>();
        List<Attribute> columns = Scala.list(output());
        for (JsonNode row : Statement.run(session, text)) {
            Object[] values = new Object[row.size()];
            for (int at = 0; at < values.length; at++) values[at] = value(row.get(at), columns.get(at).dataType());
            rows.add(RowFactory.create(values));
        }
        return Scala.seq(rows);
    }

    @Override
    protected Leaf copy() {
        return new IndexCommand(text, output());
    }

    @Override
    protected Object[] identity() {
        return new Object[] {text};
    }
}
