package hive_bitmap.catalyst.lake;

import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

/**
 * A byte range of a data file as an Iceberg task. It has its own start and length, and is split in its own way; for everything
 * else, such as the file, its deletes and its residual, it calls the task of the whole file. Iceberg's readers read a Parquet row
 * group if its middle is in the range, and an ORC stripe if its first byte is. The task is serialized to executors.
 */
final class RangeTask implements InvocationHandler, Serializable {
    private static final String TASK = "org.apache.iceberg.FileScanTask";

    private final Object whole;
    private final long start;
    private final long length;

    private RangeTask(Object whole, long start, long length) {
        this.whole = whole;
        this.start = start;
        this.length = length;
    }

    /** Returns a task for the bytes from {@code begin} to {@code end} of a task's file. */
    static Object of(Object whole, long begin, long end) {
        Class<?> type = Reflected.type(TASK, whole);
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, new RangeTask(whole, begin, end - begin));
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        switch (method.getName()) {
            case "start":
                return start;
            case "length":
                return length;
            case "split":
                return split((Long) arguments[0]);
            case "isFileScanTask":
                return true;
            case "asFileScanTask":
                return proxy;
            case "sizeBytes", "estimatedRowsCount", "filesCount":
                return InvocationHandler.invokeDefault(proxy, method, arguments);
            case "equals":
                return proxy == arguments[0];
            case "hashCode":
                return System.identityHashCode(proxy);
            case "toString":
                return whole + " from " + start + " to " + (start + length);
            default:
                return ofWhole(method, arguments);
        }
    }

    /** Calls a method of the task of the whole file. */
    private Object ofWhole(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(whole, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** Splits the range at the beginnings of blocks, into parts of at least {@code size} bytes, except for the last. */
    private List<Object> split(long size) {
        List<Object> parts = new ArrayList<>();
        List<Long> offsets = Reflected.get(Reflected.get(whole, "file"), "splitOffsets");
        long begin = start;
        for (long offset : offsets == null ? List.<Long>of() : offsets) {
            if (offset - begin < size || offset >= start + length) continue;
            parts.add(of(whole, begin, offset));
            begin = offset;
        }
        parts.add(of(whole, begin, start + length));
        return parts;
    }
}
