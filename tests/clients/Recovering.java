import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * With automatic recovery, consumes from a queue that goes with its connection's end, bound to an exchange that goes
 * with its last binding; says "open", and prints how the connection was closed from outside, and that all is there
 * again: topology, consumer, confirms.
 */
public class Recovering {
    private static final LinkedBlockingQueue<String> bodies = new LinkedBlockingQueue<>();

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(arguments[0]));
        factory.setAutomaticRecoveryEnabled(true);
        factory.setTopologyRecoveryEnabled(true);
        factory.setNetworkRecoveryInterval(50);
        factory.setRequestedHeartbeat(0);
        Connection connection = factory.newConnection("recovering");
        CountDownLatch recovered = new CountDownLatch(1);
        LinkedBlockingQueue<String> closes = new LinkedBlockingQueue<>();
        connection.addShutdownListener(cause -> closes.add(described(cause)));
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            @Override
            public void handleRecovery(Recoverable recoverable) {
                recovered.countDown();
            }

            @Override
            public void handleRecoveryStarted(Recoverable recoverable) {}
        });
        Channel channel = connection.createChannel();
        channel.exchangeDeclare("java.e", "topic", false, true, null);
        channel.queueDeclare("java.q", false, true, true, null);
        channel.queueBind("java.q", "java.e", "a.#");
        channel.queueDeclare("java.kept", true, false, false, null);
        channel.confirmSelect();
        channel.basicQos(5);
        channel.basicConsume("java.q", false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws java.io.IOException {
                bodies.add(new String(body));
                getChannel().basicAck(envelope.getDeliveryTag(), false);
            }
        });
        publish(channel, "java.e", "a.b", "before");
        publish(channel, "", "java.kept", "kept");
        System.out.println("consumed " + bodies.take());
        System.out.println("open");
        System.out.println("closed " + closes.take());
        recovered.await();
        publish(channel, "java.e", "a.c", "after");
        System.out.println("consumed " + bodies.take());
        System.out.println("kept " + new String(channel.basicGet("java.kept", true).getBody()));
        channel.queueDelete("java.kept");
        connection.close();
    }

    private static void publish(Channel channel, String exchange, String key, String body) throws Exception {
        channel.basicPublish(exchange, key, MessageProperties.PERSISTENT_BASIC, body.getBytes());
        channel.waitForConfirmsOrDie();
    }

    private static String described(ShutdownSignalException cause) {
        AMQP.Connection.Close close = (AMQP.Connection.Close) cause.getReason();
        return close.getReplyCode() + " " + close.getReplyText() + (cause.isInitiatedByApplication() ? " by itself" : "");
    }
}
