package hive_bitmap.catalyst.python;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import py4j.ClientServer;

/**
 * The Python process of a server, {@code python -m hive_bitmap.spark.catalyst.helper}. It answers in JVMs where no Python has
 * called {@link PythonCalls#register}. The first query that could use an index, or the first index statement, starts it. It
 * connects by py4j over the loopback interface, and is restarted if it dies. While it does not run, plans are Spark's own. It ends
 * with the JVM, when its standard input is closed.
 */
public final class Helper {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String MODULE = "hive_bitmap.spark.catalyst.helper";
    private static final long SECOND = 1_000_000_000L;
    private static final long LONGEST_PAUSE = 60 * SECOND;
    private static final long ENDING_MILLIS = 300;
    private static final Helper INSTANCE = new Helper();

    private boolean installed;
    private UserGroupInformation user;
    private Thread supervisor;
    private SparkContext context;
    private ClassLoader loader;
    private boolean isWanted;
    private Process process;
    private boolean ready;
    private int starts;
    private long pause = SECOND;
    private long notBefore = System.nanoTime();
    private String problem;

    static {
        CurrentContext.atEnd(INSTANCE::forget);
    }

    private Helper() {}

    /**
     * Allows the process to be started on demand. If Spark is configured with the extension, this is called whenever a session is
     * made. The first such session is the application's own: the process works as its user when it works for no caller.
     */
    public static void install() {
        synchronized (INSTANCE) {
            if (!INSTANCE.installed) INSTANCE.user = Caller.current().user();
            INSTANCE.installed = true;
        }
    }

    public static boolean isInstalled() {
        synchronized (INSTANCE) {
            return INSTANCE.installed;
        }
    }

    /** Starts the process in the background unless it runs already. */
    public static void want(SparkSession session) {
        INSTANCE.wantFor(session);
    }

    /** Waits at most {@code seconds} until the process can answer. Returns null if it can, else the reason why not. */
    public static String awaited(SparkSession session, long seconds) {
        return INSTANCE.await(session, seconds);
    }

    /** Ends the process; to be called when another Python answers, or indexes are switched off. */
    public static void stop() {
        INSTANCE.end();
    }

    /** Returns whether no Python answers. A process that has just ended does not answer, even if it is not yet detached. */
    public static boolean isPythonGone() {
        return PythonCalls.isAbsent() || PythonCalls.isServedByHelper() && hasDied();
    }

    /**
     * Returns whether the process has ended. Waits a moment, because a process that has lost its connections may be about to end.
     */
    private static boolean hasDied() {
        Process current;
        synchronized (INSTANCE) {
            if (!INSTANCE.installed) return false;
            current = INSTANCE.process;
        }
        if (current == null) return true;
        try {
            return current.waitFor(ENDING_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return !current.isAlive();
        }
    }

    private synchronized void wantFor(SparkSession session) {
        if (!installed) return;
        SparkContext contextOfSession = session.sparkContext();
        if (context != contextOfSession) {
            end();
            context = contextOfSession;
            loader = ((org.apache.spark.sql.classic.SparkSession) session).sharedState().jarClassLoader();
        }
        isWanted = true;
        if (supervisor == null || !supervisor.isAlive()) {
            supervisor = new Thread(this::supervise, "hive_bitmap-helper");
            supervisor.setDaemon(true);
            supervisor.start();
        }
        notifyAll();
    }

    private synchronized String await(SparkSession session, long seconds) {
        long end = System.nanoTime() + seconds * SECOND;
        int startsBefore = starts;
        wantFor(session);
        while (!ready) {
            boolean failed = process == null && problem != null && (starts > startsBefore || notBefore - System.nanoTime() > 0);
            if (failed) return problem;
            long remaining = end - System.nanoTime();
            if (remaining <= 0) return "the Python process of hive_bitmap is still starting: try again in a moment";
            try {
                wait(Math.max(1, remaining / 1_000_000));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return "interrupted while the Python process of hive_bitmap was starting";
            }
        }
        return null;
    }

    private synchronized void forget() {
        end();
        installed = false;
        context = null;
        problem = null;
        pause = SECOND;
        notBefore = System.nanoTime();
    }

    private synchronized void end() {
        isWanted = false;
        ready = false;
        PythonCalls.attach(null);
        if (process != null) process.destroy();
    }

    private void supervise() {
        try {
            while (true) {
                SparkContext served = waitUntilWanted();
                Caller caller;
                int number;
                synchronized (this) {
                    number = ++starts;
                    caller = new Caller(user, null, loader);
                }
                runAs(caller, served, number);
                synchronized (this) {
                    notBefore = System.nanoTime() + pause;
                    pause = Math.min(2 * pause, LONGEST_PAUSE);
                    notifyAll();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Runs the process on behalf of a caller. Errors are only recorded, so that the supervisor, which alone can restart the
     * process, goes on.
     */
    private void runAs(Caller caller, SparkContext served, int number) {
        try {
            caller.run(() -> run(served, number));
        } catch (RuntimeException | LinkageError e) { // for example, py4j's server cannot listen
            failed(served, "it cannot be started (" + e + ")");
        }
    }

    private synchronized SparkContext waitUntilWanted() throws InterruptedException {
        while (true) {
            long remaining = notBefore - System.nanoTime();
            if (!isWanted || context == null) wait();
            else if (remaining > 0) wait(Math.max(1, remaining / 1_000_000));
            else return context;
        }
    }

    /**
     * Starts the process and logs its output until it ends. The threads that serve the process inherit the local properties and the
     * session of this thread. Both are cleared, because they belong to the client that happened to need the process first.
     */
    private Void run(SparkContext served, int number) {
        served.setLocalProperties(new Properties());
        SparkSession.clearActiveSession();
        String program = program(served.conf());
        ClientServer server = null;
        Process started = null;
        long startedAt = System.nanoTime();
        try {
            String secret = secret();
            server = new ClientServer.ClientServerBuilder(new Attachment(served, number))
                    .javaPort(0).javaAddress(InetAddress.getLoopbackAddress()).authToken(secret).build();
            server.startServer(true);
            int port = server.getJavaServer().getListeningPort();
            started = builder(program, served, port, secret).start();
            boolean isStillWanted;
            synchronized (this) {
                process = started;
                isStillWanted = isWanted && context == served;
            }
            if (!isStillWanted) started.destroy();
            String lastLine = listen(started);
            int status = started.waitFor();
            ended(served, program, status, lastLine, System.nanoTime() - startedAt);
        } catch (IOException e) {
            failed(served, started != null ? "its output cannot be read (" + e.getMessage() + ")"
                    : program + " cannot be started (" + e.getMessage() + "): set spark.hive_bitmap.python to a Python that has"
                    + " hive_bitmap installed");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            if (started != null) started.destroy(); // it has ended, unless its output could not be read
            synchronized (this) {
                process = null;
                ready = false;
                PythonCalls.attach(null);
            }
            if (server != null) server.shutdown();
        }
        return null;
    }

    private synchronized void ended(SparkContext served, String program, int status, String lastLine, long lifetime) {
        if (lifetime > LONGEST_PAUSE) pause = SECOND;
        if (!isWanted || context != served) return;
        if (ready) {
            LOG.warn("the Python process of hive_bitmap ended with status {}; it is started again when it is needed", status);
        } else if (lastLine.contains("No module named")) {
            failed(served, program + " cannot be used (" + lastLine + "): install hive_bitmap for it, or set spark.hive_bitmap.python to"
                    + " a Python that has it");
        } else {
            failed(served, program + " -m " + MODULE + " ended with status " + status + " before it was ready: " + lastLine);
        }
    }

    /** Logs why the process does not run, unless it was ended on purpose. */
    private synchronized void failed(SparkContext served, String why) {
        if (!isWanted || context != served) return;
        problem = "the Python process of hive_bitmap does not run: " + why;
        LOG.warn("indexes are not used: {}", problem);
    }

    private synchronized void attached(int number, BiFunction<Object, Object, Object> answers) {
        if (number != starts || process == null || !isWanted) return;
        PythonCalls.attach(answers);
        ready = true;
        problem = null;
        LOG.info("the Python process of hive_bitmap is ready: {}", process.pid());
        notifyAll();
    }

    /** Logs each line of the output and returns the last line. */
    private static String listen(Process started) throws IOException {
        String lastLine = "";
        try (BufferedReader output =
                new BufferedReader(new InputStreamReader(started.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                if (line.isBlank()) continue;
                lastLine = line.strip();
                if (line.startsWith("WARNING") || line.startsWith("ERROR")) LOG.warn("{}", line);
                else LOG.info("{}", line);
            }
        }
        return lastLine;
    }

    /** Returns the Python to run: the configured one, else that of Spark's own Python programs. */
    private static String program(SparkConf conf) {
        String[] names = {
            "spark.hive_bitmap.python", "hive_bitmap.python", "spark.pyspark.driver.python", "spark.pyspark.python"};
        for (String name : names) {
            if (!conf.get(name, "").isBlank()) return conf.get(name).strip();
        }
        String python = System.getenv("PYSPARK_PYTHON");
        return python == null || python.isBlank() ? "python3" : python;
    }

    private static ProcessBuilder builder(String program, SparkContext context, int port, String secret) {
        ProcessBuilder builder = new ProcessBuilder(program, "-u", "-m", MODULE).redirectErrorStream(true);
        Map<String, String> environment = builder.environment();
        for (String name : new String[] {"SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"}) {
            environment.remove(name); // the process must not become a client of Spark Connect
        }
        environment.put("PYSPARK_GATEWAY_PORT", Integer.toString(port));
        environment.put("PYSPARK_GATEWAY_SECRET", secret);
        environment.put("PYSPARK_PIN_THREAD", "true");
        environment.put("PYTHONSAFEPATH", "1"); // do not import modules from the server's working directory
        String workers = context.conf().get("spark.pyspark.python", environment.getOrDefault("PYSPARK_PYTHON", program));
        environment.put("PYSPARK_PYTHON", context.isLocal() ? program : workers);
        String home = environment.get("SPARK_HOME");
        if (home != null && new File(home, "python/pyspark/__init__.py").exists()) {
            String path = home + "/python" + py4jOf(new File(home, "python/lib"));
            environment.merge("PYTHONPATH", path, (inherited, added) -> added + File.pathSeparator + inherited);
        }
        return builder;
    }

    private static String py4jOf(File folder) {
        String[] names = folder.list((parent, name) -> name.startsWith("py4j-") && name.endsWith(".zip"));
        return names == null || names.length == 0 ? "" : File.pathSeparator + new File(folder, names[0]);
    }

    private static String secret() {
        byte[] bytes = new byte[32];
        new SecureRandom().nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /** The entry point of py4j, by which the process reaches this JVM. */
    public static final class Attachment {
        private final SparkContext context;
        private final int number;

        Attachment(SparkContext context, int number) {
            this.context = context;
            this.number = number;
        }

        public JavaSparkContext context() {
            return new JavaSparkContext(context);
        }

        /** Attaches the process, which calls this method when it is ready to answer. */
        public void attach(BiFunction<Object, Object, Object> answers) {
            INSTANCE.attached(number, answers);
        }
    }
}
