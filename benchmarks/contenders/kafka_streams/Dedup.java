import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.rocksdb.Options;

/**
 * The dedup stage on Kafka Streams: the first of an event's deliveries within 7 days goes on.
 *
 * <p>Arguments are name=value. {@code input}, {@code output} and {@code state} are topics and a
 * directory; {@code key} is {@code sliced} from the bytes or {@code decoded} by the Avro schema in
 * the file {@code schema}; {@code lookup} is {@code range}, as in Kafka's own example of
 * deduplication, or {@code point}; {@code cached} puts Kafka Streams' cache before the store;
 * {@code write.buffer.mib} sizes RocksDB's. All others are settings of Kafka Streams.
 */
public final class Dedup {
  static final long WINDOW = Duration.ofDays(7).toMillis();
  static final int FRAME = 5;
  static final int FINGERPRINT = 16;

  /** A record's fingerprint. */
  interface Key {
    byte[] of(byte[] value) throws Exception;
  }

  /** Whether a fingerprint was seen within the window; remembers it if not. */
  interface Seen {
    boolean before(Bytes key, long timestamp);
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> given = new HashMap<>();
    for (String argument : arguments) {
      String[] parts = argument.split("=", 2);
      given.put(parts[0], parts[1]);
    }
    KafkaStreams streams = new KafkaStreams(topology(given), properties(given));
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  static Properties properties(Map<String, String> given) {
    Properties properties = new Properties();
    properties.putAll(given);
    properties.put("application.id", given.get("group"));
    properties.put("bootstrap.servers", given.get("bootstrap"));
    properties.put("state.dir", given.get("state"));
    properties.put("processing.guarantee", "exactly_once_v2");
    properties.put("num.stream.threads", "1");
    properties.put("replication.factor", "1");
    properties.put("auto.offset.reset", "earliest");
    properties.put("enable.metrics.push", "false");
    properties.put("rocksdb.config.setter", WriteBuffer.class);
    return properties;
  }

  static Topology topology(Map<String, String> given) throws Exception {
    boolean point = given.get("lookup").equals("point");
    Schema schema =
        given.get("key").equals("decoded")
            ? new Schema.Parser().parse(Path.of(given.get("schema")).toFile())
            : null;
    Topology topology = new Topology();
    topology.addSource(
        "in", new ByteArrayDeserializer(), new ByteArrayDeserializer(), given.get("input"));
    topology.addProcessor("dedup", () -> new First(schema, point), "in");
    topology.addStateStore(store(point, Boolean.parseBoolean(given.get("cached"))), "dedup");
    topology.addSink(
        "out",
        given.get("output"),
        new ByteArraySerializer(),
        new ByteArraySerializer(),
        "dedup");
    return topology;
  }

  static StoreBuilder<WindowStore<Bytes, byte[]>> store(boolean point, boolean cached) {
    Duration window = Duration.ofMillis(point ? WINDOW / 2 : WINDOW);
    Duration kept = Duration.ofMillis(point ? 3 * (WINDOW / 2) : WINDOW + WINDOW / 7);
    StoreBuilder<WindowStore<Bytes, byte[]>> builder =
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore("seen", kept, window, false),
            Serdes.Bytes(),
            Serdes.ByteArray());
    return cached ? builder.withCachingEnabled() : builder;
  }

  static final class First implements Processor<byte[], byte[], byte[], byte[]> {
    private final Key key;
    private final boolean point;
    private ProcessorContext<byte[], byte[]> context;
    private Seen seen;

    First(Schema schema, boolean point) {
      this.key = schema == null ? First::sliced : new Decoded(schema);
      this.point = point;
    }

    static byte[] sliced(byte[] value) {
      return Arrays.copyOfRange(value, FRAME, FRAME + FINGERPRINT);
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      this.context = context;
      WindowStore<Bytes, byte[]> store = context.getStateStore("seen");
      this.seen = point ? new ByPoint(store) : new ByRange(store);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      try {
        if (!seen.before(Bytes.wrap(key.of(record.value())), record.timestamp())) {
          context.forward(record);
        }
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
  }

  /** Decodes the whole envelope, into the same object each time. */
  static final class Decoded implements Key {
    private final GenericDatumReader<GenericRecord> reader;
    private BinaryDecoder decoder;
    private GenericRecord envelope;

    Decoded(Schema schema) {
      reader = new GenericDatumReader<>(schema);
    }

    @Override
    public byte[] of(byte[] value) throws Exception {
      decoder =
          DecoderFactory.get().binaryDecoder(value, FRAME, value.length - FRAME, decoder);
      envelope = reader.read(envelope, decoder);
      return ((GenericFixed) envelope.get("fingerprint")).bytes().clone();
    }
  }

  /** Asks for all of the window: an iterator over three segments for each record. */
  record ByRange(WindowStore<Bytes, byte[]> store) implements Seen {
    private static final byte[] NOTHING = new byte[0];

    @Override
    public boolean before(Bytes key, long timestamp) {
      Instant from = Instant.ofEpochMilli(timestamp - WINDOW + 1);
      try (WindowStoreIterator<byte[]> found =
          store.backwardFetch(key, from, Instant.ofEpochMilli(timestamp))) {
        if (found.hasNext()) {
          return true;
        }
      }
      store.put(key, NOTHING, timestamp);
      return false;
    }
  }

  /** Files keys under half windows, so that three lookups, with bloom filters, tell. */
  record ByPoint(WindowStore<Bytes, byte[]> store) implements Seen {
    private static final long HALF = WINDOW / 2;

    @Override
    public boolean before(Bytes key, long timestamp) {
      long newest = timestamp - timestamp % HALF;
      for (long start = newest; start >= newest - 2 * HALF; start -= HALF) {
        byte[] first = store.fetch(key, start);
        if (first != null && timestamp - ByteBuffer.wrap(first).getLong() < WINDOW) {
          return true;
        }
      }
      store.put(key, ByteBuffer.allocate(Long.BYTES).putLong(timestamp).array(), newest);
      return false;
    }
  }

  public static final class WriteBuffer implements RocksDBConfigSetter {
    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
      options.setWriteBufferSize(
          Long.parseLong((String) configs.get("write.buffer.mib")) * 1024 * 1024);
    }

    @Override
    public void close(String store, Options options) {}
  }
}
