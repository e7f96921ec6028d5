import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * Counts events by type with Kafka Streams, exactly once, and writes each new count to a topic.
 *
 * <p>Arguments: bootstrap servers, URL of the schema registry (that of the operator), topic of
 * events, topic of counts.
 */
public final class CountEvents {
  public static void main(String[] arguments) {
    Serde<GenericRecord> events =
        Serdes.serdeFrom(new NoSerializer(), new EventDeserializer(arguments[1]));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[2], Consumed.with(Serdes.String(), events))
        .map((tenant, event) -> KeyValue.pair(text(event, "event_type"), text(event, "event_id")))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count()
        .toStream()
        .to(arguments[3], Produced.with(Serdes.String(), Serdes.Long()));
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3] + "-counter");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    // A count for each type fits into memory; its changelog topic keeps it.
    settings.put(
        StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
        BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static String text(GenericRecord event, String field) {
    return event.get(field).toString();
  }

  /** Events are only read. */
  static final class NoSerializer implements Serializer<GenericRecord> {
    @Override
    public byte[] serialize(String topic, GenericRecord event) {
      throw new UnsupportedOperationException("events are only read");
    }
  }

  /** Reads Confluent's wire format: a zero byte, the schema's id in four bytes, the datum. */
  static final class EventDeserializer implements Deserializer<GenericRecord> {
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<Integer, Schema> schemas = new ConcurrentHashMap<>();
    private final String registry;

    EventDeserializer(String registry) {
      this.registry = registry;
    }

    @Override
    public GenericRecord deserialize(String topic, byte[] value) {
      if (value == null) {
        return null;
      }
      Schema written = schemas.computeIfAbsent(ByteBuffer.wrap(value, 1, 4).getInt(), this::fetch);
      try {
        var decoder = DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null);
        return new GenericDatumReader<GenericRecord>(written).read(null, decoder);
      } catch (java.io.IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
    }

    private Schema fetch(int id) {
      try {
        URI where = URI.create(registry + "/schemas/ids/" + id);
        var answer = http.send(HttpRequest.newBuilder(where).build(), BodyHandlers.ofString());
        String schema = new ObjectMapper().readTree(answer.body()).get("schema").asText();
        return new Schema.Parser().parse(schema);
      } catch (Exception error) {
        throw new IllegalStateException("no schema " + id + " at " + registry, error);
      }
    }
  }
}
