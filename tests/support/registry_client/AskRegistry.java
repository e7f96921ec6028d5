import org.springframework.cloud.stream.schema.registry.SchemaReference;
import org.springframework.cloud.stream.schema.registry.client.ConfluentSchemaRegistryClient;

/**
 * Asks a schema registry with a client from Maven, that of Spring Cloud Stream, and prints a line
 * for each answer.
 *
 * <p>Arguments: the registry's URL, a subject, a version of it, a schema's id.
 */
public final class AskRegistry {
  public static void main(String[] arguments) {
    var client = new ConfluentSchemaRegistryClient();
    client.setEndpoint(arguments[0]);
    var asked = new SchemaReference(arguments[1], Integer.parseInt(arguments[2]), "avro");
    String schema = client.fetch(Integer.parseInt(arguments[3]));
    System.out.println(schema);
    System.out.println(client.fetch(asked));
    System.out.println(client.register(arguments[1], "avro", schema).getId());
    try {
      client.register(arguments[1], "avro", "{\"type\":\"record\",\"name\":\"Mine\",\"fields\":[]}");
    } catch (RuntimeException refused) {
      System.out.println(refused.getMessage());
    }
  }
}
