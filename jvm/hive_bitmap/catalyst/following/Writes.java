package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.python.Caller;
import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.IndexTables;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends writes to Python, one after the other, in a separate thread. No statement waits until its write is sent. Writes to a
 * table that is known to have no index are not sent.
 */
public final class Writes {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final int MOST_WAITING = 1_000; // further writes are not sent; the next query that reads their files reports them
    private static final long SECONDS_TO_START = 60;
    private static final int MAX_TABLES = 10_000;
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final String NO_COLUMNS = "[]";
    private static final Map<TableIdentifier, Unindexed> UNINDEXED = new ConcurrentHashMap<>();
    private static volatile ThreadPoolExecutor thread = newThread();

    static {
        CurrentContext.atEnd(Writes::forget);
    }

    private Writes() {}

    /**
     * The {@code System.nanoTime()} at which a table had no index, and the version of the indexes ({@link Verdicts#version}) before
     * that.
     */
    private record Unindexed(long since, long version) {
        boolean holds() {
            return System.nanoTime() - since < TTL_NANOSECONDS && version == Verdicts.version();
        }
    }

    /**
     * Sends a committed write that {@code write} describes. A failure is only logged, because the statement itself has succeeded.
     */
    static void committed(SparkSession session, Supplier<Write> write) {
        try {
            committed(session, write.get());
        } catch (RuntimeException | LinkageError e) {
            LOG.debug("a write is not followed", e);
        }
    }

    /** Sends a committed write of a session that allows refreshes, without waiting. */
    static void committed(SparkSession session, Write write) {
        if (SideQuery.isRunning() || PythonCalls.isOff()) return;
        if (PythonCalls.isAbsent() && !Helper.isInstalled()) return;
        Unindexed unindexed = write.table() == null ? null : UNINDEXED.get(write.table());
        if (unindexed != null && unindexed.holds()) return;
        try {
            Caller caller = Caller.current();
            thread.execute(() -> caller.run(() -> tell(session, write)));
        } catch (RejectedExecutionException e) {
            LOG.debug("a write is not followed, as {} others wait", MOST_WAITING);
        }
    }

    /** Waits at most {@code seconds} until all writes so far are sent to Python; returns whether they are. */
    public static boolean areTold(long seconds) throws InterruptedException {
        try {
            thread.submit(() -> {}).get(seconds, TimeUnit.SECONDS);
            return true;
        } catch (RejectedExecutionException | ExecutionException | TimeoutException e) {
            return false;
        }
    }

    private static Void tell(SparkSession session, Write write) {
        try {
            if (PythonCalls.isAbsent() && !isReady(session, write)) return null;
            long version = Verdicts.version();
            Object columns = PythonCalls.callStatement(session, new Written(write)).get();
            if (write.table() == null || !NO_COLUMNS.equals(columns)) return null;
            if (UNINDEXED.size() >= MAX_TABLES) UNINDEXED.clear();
            UNINDEXED.put(write.table(), new Unindexed(System.nanoTime(), version));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | RuntimeException e) {
            LOG.debug("a write is not followed", e);
        }
        return null;
    }

    /** Starts the Python process if the table may have an index; returns whether the process is ready. */
    private static boolean isReady(SparkSession session, Write write) {
        if (write.table() == null) return false;
        String database = write.table().database().get();
        boolean isOwn = write.table().catalog().get().equals(Names.SESSION_CATALOG);
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        boolean mayExist = isOwn && IndexTables.mayExist(classic, database, write.table().table())
                || IndexTables.mayExistOfAnother(classic, database, write.table().table());
        if (!mayExist) return false;
        return Helper.awaited(session, SECONDS_TO_START) == null;
    }

    private static synchronized void forget() {
        UNINDEXED.clear();
        thread.shutdownNow();
        thread = newThread();
    }

    private static ThreadPoolExecutor newThread() {
        ThreadPoolExecutor executor = new ThreadPoolExecutor(
                1, 1, 60, TimeUnit.SECONDS, new ArrayBlockingQueue<>(MOST_WAITING), Writes::thread);
        executor.allowCoreThreadTimeOut(true);
        return executor;
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "hive_bitmap-writes");
        thread.setDaemon(true);
        return thread;
    }
}
