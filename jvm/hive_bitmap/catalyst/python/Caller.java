package hive_bitmap.catalyst.python;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.security.PrivilegedAction;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/**
 * The identity that a thread works under. A pool thread inherits the identity of the thread that happened to start it, which may
 * have worked for another client of a server, so each task sets its caller explicitly.
 *
 * @param user Hadoop's user, by which metastores and stores check permissions
 * @param name the user whom the Thrift Server has authenticated: {@code current_user()}, and the owner of created tables; null
 *     elsewhere
 * @param classes the class loader, with the classes of ADD JAR
 */
public record Caller(UserGroupInformation user, String name, ClassLoader classes) {
    /** Returns the caller that this thread currently works for. */
    public static Caller current() {
        try {
            ClassLoader classes = Thread.currentThread().getContextClassLoader();
            return new Caller(UserGroupInformation.getCurrentUser(), CurrentUserContext.CURRENT_USER().get(), classes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Runs a task in this thread on behalf of the caller. Returns the task's result. */
    public <T> T run(PrivilegedAction<T> task) {
        Caller previous = current();
        become(this);
        try {
            return user.doAs(task);
        } finally {
            become(previous);
        }
    }

    /** Returns a name of the caller, under which Python caches what this caller may see. */
    public String who() {
        return user + "/" + (name == null ? "" : name);
    }

    private static void become(Caller caller) {
        Thread.currentThread().setContextClassLoader(caller.classes);
        if (caller.name == null) CurrentUserContext.CURRENT_USER().remove();
        else CurrentUserContext.CURRENT_USER().set(caller.name);
    }
}
