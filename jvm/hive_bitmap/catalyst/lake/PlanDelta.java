package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.NarrowedScanExec;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;

/**
 * The planner strategy for narrowed scans of Delta tables. Delta's own strategy plans the scan, with the filter over deleted rows;
 * then files and blocks are left out of this plan.
 */
public final class PlanDelta extends SparkStrategy {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String OF_DELTA = "org.apache.spark.sql.delta.PreprocessTableWithDVsStrategy";

    private final SparkSession session;

    private PlanDelta(SparkSession session) {
        this.session = session;
    }

    /**
     * Returns a relation restricted to choices of files, by their numbers in the listing; files without a choice are read whole.
     */
    public static LogicalRelation narrowed(
            LogicalRelation relation, Listing listing, Map<Integer, FileChoice> choices, Narrowing narrowing) {
        install(((HadoopFsRelation) relation.relation()).sparkSession());
        return NarrowedDelta.marked(relation, listing, choices, narrowing);
    }

    /**
     * Puts this strategy before all others of a session, because Delta's own strategy plans any scan of files, and comes before
     * those of other extensions.
     */
    private static void install(SparkSession session) {
        ExperimentalMethods methods = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().experimentalMethods();
        synchronized (PlanDelta.class) {
            List<SparkStrategy> existing = Scala.list(methods.extraStrategies());
            if (!existing.isEmpty() && existing.get(0) instanceof PlanDelta) return;
            List<SparkStrategy> strategies = new ArrayList<>(List.of(new PlanDelta(session)));
            for (SparkStrategy strategy : existing) if (!(strategy instanceof PlanDelta)) strategies.add(strategy);
            methods.extraStrategies_$eq(Scala.seq(strategies));
        }
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        LogicalPlan leaf = plan;
        while (leaf instanceof Filter || leaf instanceof Project) leaf = Scala.list(leaf.children()).get(0);
        NarrowedDelta narrowed = NarrowedDelta.of(leaf);
        if (narrowed == null) return Scala.seq(List.of());
        try {
            LogicalRelation marked = (LogicalRelation) leaf;
            LogicalRelation unmarked = NarrowedDelta.unmarked(marked);
            FileIndex location = ((HadoopFsRelation) unmarked.relation()).location();
            LogicalPlan plain = (LogicalPlan) plan.transformDown(Scala.replacing(node -> node == marked ? unmarked : null));
            SparkStrategy ofDelta = (SparkStrategy) Reflected.make(Reflected.type(OF_DELTA, location), session);
            List<SparkPlan> plans = new ArrayList<>();
            for (SparkPlan planned : Scala.list(ofDelta.apply(plain))) {
                plans.add((SparkPlan) planned.transformUp(Scala.replacing(node ->
                        node instanceof FileSourceScanExec scan && scan.relation().location() == location
                                ? new NarrowedScanExec(narrowed(scan, narrowed), narrowed.narrowing()) : null)));
            }
            return Scala.seq(plans);
        } catch (RuntimeException | LinkageError e) {
            LOG.warn("a scan of a Delta table is not narrowed: {}", e.toString());
            return Scala.seq(List.of());
        }
    }

    /** Restricts a scan that Delta has planned to the chosen files and blocks. */
    private FileSourceScanExec narrowed(FileSourceScanExec scan, NarrowedDelta narrowed) {
        HadoopFsRelation files = scan.relation();
        ParquetFileFormat format = (ParquetFileFormat) files.fileFormat();
        // If a file may not be split, Delta counts the rows of its reader to find deleted rows. So such a file is read whole.
        boolean splits = format.isSplitable(files.sparkSession(), files.options(), Scala.list(files.location().rootPaths()).get(0));
        HadoopFsRelation chosen = new HadoopFsRelation(
                new SelectedDeltaFiles(files.location(), narrowed.choices(), splits), files.partitionSchema(), files.dataSchema(),
                files.bucketSpec(), new SelectedDelta(format, narrowed.narrowing()), files.options(), files.sparkSession());
        Object[] arguments = new Object[scan.productArity()];
        for (int at = 0; at < arguments.length; at++) {
            arguments[at] = scan.productElement(at) == files ? chosen : scan.productElement(at);
        }
        return (FileSourceScanExec) scan.makeCopy(arguments);
    }
}
