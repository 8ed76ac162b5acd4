package hive_bitmap.catalyst.spark;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** A leaf of a logical plan, with the methods that Scala's compiler would generate for a case class. */
public abstract class Leaf extends LogicalPlan implements LeafNode {
    private final Seq<Attribute> output;

    public Leaf(Seq<Attribute> output) {
        this.output = output;
    }

    /** Returns the values that determine whether two leaves of a class are equal. */
    protected abstract Object[] identity();

    /** Returns a new leaf that is equal to this one. */
    protected abstract Leaf copy();

    @Override
    public LogicalPlan clone() {
        Leaf copy = copy();
        copy.copyTagsFrom(this);
        return copy;
    }

    /** Clones this leaf. The arguments are ignored, because no rule changes anything in a leaf. */
    @Override
    public LogicalPlan makeCopy(Object[] arguments) {
        return clone();
    }

    @Override
    public Seq<Attribute> output() {
        return output;
    }

    @Override
    public AttributeSet producedAttributes() {
        return outputSet();
    }

    @Override
    public Seq<LogicalPlan> children() {
        return Scala.seq(List.of());
    }

    @Override
    public LogicalPlan mapChildren(Function1<LogicalPlan, LogicalPlan> change) {
        return this;
    }

    @Override
    public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
        return this;
    }

    /**
     * Returns the fields of this node in a plan as JSON. Spark finds them only in the parameters of a case class, which this is
     * not.
     */
    @Override
    public scala.collection.immutable.List<scala.Tuple2<String, org.json4s.JValue>> jsonFields() {
        return jsonFieldsOf(output);
    }

    /** Returns a node's only field in a plan as JSON: the names of its columns. */
    static scala.collection.immutable.List<scala.Tuple2<String, org.json4s.JValue>> jsonFieldsOf(Seq<Attribute> output) {
        String names = Scala.list(output).stream().map(Attribute::name).collect(Collectors.joining(", "));
        return scala.collection.immutable.List$.MODULE$.from(Scala.seq(List.of(new scala.Tuple2<>("output", new org.json4s.JString(names)))));
    }

    @Override
    public int productArity() {
        return identity().length;
    }

    @Override
    public Object productElement(int at) {
        return identity()[at];
    }

    @Override
    public boolean canEqual(Object other) {
        return other != null && other.getClass() == getClass();
    }

    @Override
    public boolean equals(Object other) {
        return this == other
                || canEqual(other) && java.util.Arrays.equals(identity(), ((Leaf) other).identity())
                        && output.equals(((Leaf) other).output);
    }

    @Override
    public int hashCode() {
        return java.util.Arrays.hashCode(identity());
    }
}
