package hive_bitmap.catalyst.lake;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rows that are deleted of files whose rows an index counts, as the formats' own classes read them. What cannot be read is
 * not told: Spark counts such a file then, and fails as it does without an index, if it has to.
 */
final class DeletedRows {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final long MOST = 4 << 20; // rows of all files together, which take four bytes each on their way to Python
    private static final int TOGETHER = 8; // files, as in hive_bitmap/spark/preparing/index_lookup.py

    private DeletedRows() {}

    /** What is deleted of one file: at most so many rows, and how to read their positions in the file, ascending. */
    interface OfFile {
        long most();

        long[] read();
    }

    /** Returns what tells deletes of a file from its deletes at other times, of texts that name all of them. */
    static String id(List<String> deletes) {
        try {
            byte[] text = String.join("\n", deletes).getBytes(StandardCharsets.UTF_8);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }

    /**
     * Returns a JSON array with an item for each file: the positions of its deleted rows as integers of four bytes, the lowest
     * first, in Base64. It is null if they cannot be read, or if these and those of the files before are too many.
     */
    static StringBuilder text(List<OfFile> files) {
        ExecutorService readers = Executors.newFixedThreadPool(Math.min(Math.max(files.size(), 1), TOGETHER));
        try {
            List<Future<String>> found = new ArrayList<>();
            long left = MOST;
            for (OfFile file : files) {
                boolean fits = file.most() <= left;
                if (fits) left -= file.most();
                found.add(readers.submit(() -> fits ? encoded(file) : "null"));
            }
            StringBuilder text = new StringBuilder("[");
            for (Future<String> one : found) text.append(text.length() == 1 ? "" : ",").append(one.get());
            return text.append(']');
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CancellationException("it is not waited for which rows are deleted");
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        } finally {
            readers.shutdownNow();
        }
    }

    private static String encoded(OfFile file) {
        try {
            long[] rows = file.read();
            ByteBuffer bytes = ByteBuffer.allocate(Integer.BYTES * rows.length).order(ByteOrder.LITTLE_ENDIAN);
            for (long row : rows) bytes.putInt(Math.toIntExact(row));
            return '"' + Base64.getEncoder().encodeToString(bytes.array()) + '"';
        } catch (RuntimeException | LinkageError e) {
            LOG.info("Spark counts a file, since it is not known which of its rows are deleted: {}", e.toString());
            return "null";
        }
    }
}
