package hive_bitmap.catalyst.python;

import java.lang.reflect.Field;
import java.net.InetAddress;
import java.util.concurrent.TimeUnit;
import javax.net.SocketFactory;
import py4j.CallbackClient;
import py4j.Gateway;
import py4j.GatewayServer;
import py4j.Py4JJavaServer;
import py4j.Py4JPythonClient;
import py4j.PythonClient;

/**
 * Authenticates this JVM at py4j's port of the Python process. Any local program can connect to that port, so this JVM shows a
 * token.
 */
public final class CallbackPort {
    private CallbackPort() {}

    /** Has this JVM show the token on each new connection to the Python process. */
    public static void authenticate(GatewayServer server, String token) {
        Py4JPythonClient pythonClient = server.getCallbackClient();
        if (!(pythonClient instanceof PythonClient)) return; // py4j's other client keeps the token that it was made with
        Client client = new Client(server.getGateway(), pythonClient.getPort(), pythonClient.getAddress(), (Py4JJavaServer) server, token);
        try {
            Field field = Gateway.class.getDeclaredField("cbClient"); // py4j has no setter
            field.setAccessible(true);
            field.set(server.getGateway(), client);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A client that keeps its token when PySpark sets the port, unlike py4j's own client. */
    private static final class Client extends PythonClient {
        private final String token;

        Client(Gateway gateway, int port, InetAddress address, Py4JJavaServer server, String token) {
            super(gateway, null, port, address, CallbackClient.DEFAULT_MIN_CONNECTION_TIME, TimeUnit.SECONDS,
                    SocketFactory.getDefault(), server, true, GatewayServer.DEFAULT_READ_TIMEOUT, token);
            this.token = token;
        }

        @Override
        public Py4JPythonClient copyWith(InetAddress address, int port) {
            return new Client(gateway, port, address, javaServer, token);
        }
    }
}
