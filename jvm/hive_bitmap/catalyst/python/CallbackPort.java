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

/** py4j's port of the Python process: any local program can connect to it, so this JVM shows a token there. */
public final class CallbackPort {
    private CallbackPort() {}

    /** Lets this JVM show the token on each connection that it opens to the Python process from now on. */
    public static void authenticate(GatewayServer server, String token) {
        Py4JPythonClient known = server.getCallbackClient();
        if (!(known instanceof PythonClient)) return; // py4j's other client keeps the token that it was made with
        Client client = new Client(server.getGateway(), known.getPort(), known.getAddress(), (Py4JJavaServer) server, token);
        try {
            Field field = Gateway.class.getDeclaredField("cbClient"); // py4j has no setter
            field.setAccessible(true);
            field.set(server.getGateway(), client);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** py4j's own client forgets its token when it is told the port, as PySpark does. */
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
