package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.Enumeration;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** A statement that calls Python, and that Spark executes once, like its own commands. */
abstract class PythonCommand extends Leaf implements LeafRunnableCommand {
    final String text;

    PythonCommand(String text, Seq<Attribute> output) {
        super(output);
        this.text = text;
    }

    @Override
    public String simpleString(int maxFields) {
        return getClass().getSimpleName() + " " + text;
    }

    // Scala's compiler would generate the following from the traits of commands.

    @Override
    public Map<String, SQLMetric> metrics() {
        return scala.collection.immutable.Map$.MODULE$.empty();
    }

    @Override
    public Statistics stats() {
        return org.apache.spark.sql.catalyst.plans.logical.Statistics$.MODULE$.DUMMY();
    }

    @Override
    public Seq<Enumeration.Value> nodePatterns() {
        return Scala.seq(List.of(TreePattern.COMMAND()));
    }

    @Override
    public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq<Enumeration.Value> patterns) {}
}
