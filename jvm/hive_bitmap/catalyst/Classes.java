package hive_bitmap.catalyst;

import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.security.CodeSource;
import java.util.Enumeration;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Loads all classes of the jar at once. The Thrift server opens a Hive session for each client, and closes the class loader of
 * {@code --jars} when such a session ends. Classes that are not loaded by then cannot be loaded any more.
 */
final class Classes {
    private static final String SUFFIX = ".class";

    private Classes() {}

    static void load() {
        CodeSource source = Classes.class.getProtectionDomain().getCodeSource();
        if (source == null || !source.getLocation().getPath().endsWith(".jar")) return;
        try (JarFile jar = new JarFile(new File(source.getLocation().toURI()))) {
            for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements();) {
                String name = entries.nextElement().getName();
                if (name.startsWith("hive_bitmap/") && name.endsWith(SUFFIX)) {
                    String type = name.substring(0, name.length() - SUFFIX.length()).replace('/', '.');
                    Class.forName(type, false, Classes.class.getClassLoader());
                }
            }
        } catch (IOException | URISyntaxException | ClassNotFoundException e) {
            throw new IllegalStateException("the classes of hive_bitmap cannot be loaded from " + source.getLocation(), e);
        }
    }
}
