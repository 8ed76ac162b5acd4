package hive_bitmap.catalyst.queries;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * A possible filter on a scan. Rows with a {@code column} that is not among the values of {@code key} do not change the result of
 * the query.
 *
 * @param column a column of the scan
 * @param small the small side of a join, a plan that can be executed before the query
 * @param key a column of {@code small}
 * @param bytes the bytes that {@code small} reads
 */
public record RuntimeFilter(Attribute column, LogicalPlan small, Attribute key, long bytes) {}
