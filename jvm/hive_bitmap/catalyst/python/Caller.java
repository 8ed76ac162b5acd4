package hive_bitmap.catalyst.python;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.security.PrivilegedAction;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/**
 * For whom a thread works. A thread of a pool has what it inherited from the thread that happened to start it, which may have
 * worked for another client of a server, so each task is told.
 *
 * @param user Hadoop's user, for whom metastores and stores do what they are asked
 * @param name the user whom the Thrift Server has authenticated: {@code current_user()}, and the owner of tables that are
 *     created; null elsewhere
 * @param classes the class loader, with the classes of ADD JAR
 */
public record Caller(UserGroupInformation user, String name, ClassLoader classes) {
    /** The one for whom this thread works now. */
    public static Caller current() {
        try {
            ClassLoader classes = Thread.currentThread().getContextClassLoader();
            return new Caller(UserGroupInformation.getCurrentUser(), CurrentUserContext.CURRENT_USER().get(), classes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns what a task returns that this thread does for the caller. */
    public <T> T run(PrivilegedAction<T> task) {
        Caller before = current();
        become(this);
        try {
            return user.doAs(task);
        } finally {
            become(before);
        }
    }

    /** Names the caller, so that what is told to one is told to no other. */
    public String who() {
        return user + "/" + (name == null ? "" : name);
    }

    private static void become(Caller caller) {
        Thread.currentThread().setContextClassLoader(caller.classes);
        if (caller.name == null) CurrentUserContext.CURRENT_USER().remove();
        else CurrentUserContext.CURRENT_USER().set(caller.name);
    }
}
