package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.DriverRowsExec;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

/** The physical plan of {@link IndexAnswer}. It asks Python for the counts; if Python has none, Spark aggregates the table. */
public final class IndexAnswerExec extends DriverRowsExec {
    private final transient IndexAnswer answer;

    public IndexAnswerExec(IndexAnswer answer, Seq<Attribute> output) {
        super(output);
        this.answer = answer;
    }

    @Override
    protected List<InternalRow> rows() {
        return answer.rows(session());
    }

    @Override
    protected SparkPlan instead(boolean single) {
        return answer.original(session(), single);
    }

    @Override
    protected DriverRowsExec copy() {
        return new IndexAnswerExec(answer, output());
    }

    @Override
    protected Object[] identity() {
        return new Object[] {answer};
    }

    @Override
    public String simpleString(int maxFields) {
        return "IndexAnswer " + answer.label();
    }
}
