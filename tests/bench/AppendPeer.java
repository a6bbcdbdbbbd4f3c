import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.Files;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/**
 * Threads that append to one table with Iceberg Java: one new file of 20 columns a commit, each commit its own
 * snapshot. Arguments: folder, JDBC URL, threads, seconds to measure, seconds to warm up. Prints one JSON object.
 */
public final class AppendPeer {
  private static final int VARIETY = 64;
  private static final int FIRST_DAY = 20454;
  private static final long DAY_US = 86_400_000_000L;

  /** Files of the local disk without Hadoop, which without its native library runs a program to make each of them. */
  public static final class LocalIO implements FileIO {
    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(path);
    }

    @Override
    public OutputFile newOutputFile(String path) {
      return Files.localOutput(path);
    }

    @Override
    public void deleteFile(String path) {
      new File(path).delete();
    }
  }

  private record Done(List<Double> latencies, long all, long gaveUp) {}

  private record Facts(int day, long size, Metrics metrics) {}

  public static void main(String[] args) throws Exception {
    String folder = args[0];
    int writers = Integer.parseInt(args[2]);
    double seconds = Double.parseDouble(args[3]);
    double warmUp = Double.parseDouble(args[4]);
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize(
        "bench",
        Map.of(
            "uri", args[1],
            "warehouse", folder,
            "io-impl", LocalIO.class.getName(),
            "jdbc.schema-version", "V1",
            "clients", "" + writers));
    TableIdentifier name = TableIdentifier.of(Namespace.of("bench"), "appends");
    catalog.createNamespace(name.namespace());
    Schema schema = schema();
    PartitionSpec spec = PartitionSpec.builderFor(schema).day("ts").build();
    // As for the other peer: more retries, sooner than by default, or most commits would be given up.
    catalog.createTable(name, schema, spec, Map.of(
        "format-version", "2",
        "commit.retry.num-retries", "1000",
        "commit.retry.min-wait-ms", "10",
        "commit.retry.max-wait-ms", "1000"));
    CountDownLatch start = new CountDownLatch(1);
    ExecutorService pool = Executors.newFixedThreadPool(writers);
    List<Future<Done>> running = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      int seed = writer;
      running.add(pool.submit(() -> {
        Table table = catalog.loadTable(name);
        start.await();
        return write(table, seed, seconds, warmUp);
      }));
    }
    start.countDown();
    List<Double> latencies = new ArrayList<>();
    long all = 0;
    long gaveUp = 0;
    for (Future<Done> one : running) {
      Done done = one.get();
      latencies.addAll(done.latencies());
      all += done.all();
      gaveUp += done.gaveUp();
    }
    pool.shutdown();
    Table table = catalog.loadTable(name);
    String total = table.currentSnapshot().summary().get("total-data-files");
    if (!total.equals("" + all)) {
      throw new IllegalStateException(all + " files were committed, the table has " + total);
    }
    System.out.println(
        "{\"seconds\":" + seconds + ",\"committed\":" + latencies.size() + ",\"latencies_ms\":" + latencies
            + ",\"all_committed\":" + all + ",\"gave_up\":" + gaveUp + "}");
    System.out.flush();
    System.exit(0);
  }

  private static Done write(Table table, int seed, double seconds, double warmUp) {
    List<Facts> facts = facts(table, new Random(seed));
    List<Double> latencies = new ArrayList<>();
    long measureFrom = System.nanoTime() + (long) (warmUp * 1e9);
    long endsAt = measureFrom + (long) (seconds * 1e9);
    int done = 0;
    int gaveUp = 0;
    while (true) {
      long started = System.nanoTime();
      if (started >= endsAt) {
        return new Done(latencies, done, gaveUp);
      }
      DataFile file = file(table, facts.get(done % VARIETY));
      while (true) {
        try {
          table.newFastAppend().appendFile(file).commit();
          break;
        } catch (CommitFailedException | CommitStateUnknownException refused) {
          if (refused instanceof CommitStateUnknownException) {
            throw refused;
          }
          gaveUp++;
          table.refresh();
        }
      }
      done++;
      long now = System.nanoTime();
      if (measureFrom <= now && now < endsAt) {
        latencies.add((now - started) / 1e6);
      }
    }
  }

  private static Schema schema() {
    List<Types.NestedField> fields = new ArrayList<>();
    for (int n = 0; n < 8; n++) {
      fields.add(optional(fields.size() + 1, "count_" + n, Types.LongType.get()));
    }
    for (int n = 0; n < 6; n++) {
      fields.add(optional(fields.size() + 1, "share_" + n, Types.DoubleType.get()));
    }
    for (int n = 0; n < 5; n++) {
      fields.add(optional(fields.size() + 1, "name_" + n, Types.StringType.get()));
    }
    fields.add(optional(fields.size() + 1, "ts", Types.TimestampType.withZone()));
    return new Schema(fields);
  }

  private static Types.NestedField optional(int id, String name, Type type) {
    return Types.NestedField.optional(id, name, type);
  }

  private static List<Facts> facts(Table table, Random random) {
    List<Facts> made = new ArrayList<>();
    for (int n = 0; n < VARIETY; n++) {
      int day = FIRST_DAY + random.nextInt(30);
      long records = 1_000 + random.nextInt(19_000);
      Map<Integer, Long> sizes = new HashMap<>();
      Map<Integer, Long> values = new HashMap<>();
      Map<Integer, Long> nulls = new HashMap<>();
      Map<Integer, Long> nans = new HashMap<>();
      Map<Integer, ByteBuffer> lower = new HashMap<>();
      Map<Integer, ByteBuffer> upper = new HashMap<>();
      for (Types.NestedField field : table.schema().columns()) {
        int id = field.fieldId();
        sizes.put(id, 1_000L + random.nextInt(89_000));
        values.put(id, records);
        nulls.put(id, (long) random.nextInt(50));
        if (field.type().typeId() == Type.TypeID.DOUBLE) {
          nans.put(id, 0L);
        }
        lower.put(id, bound(field.type(), day, random));
        upper.put(id, bound(field.type(), day, random));
      }
      Metrics metrics = new Metrics(records, sizes, values, nulls, nans, lower, upper);
      made.add(new Facts(day, 100_000 + random.nextInt(4_900_000), metrics));
    }
    return made;
  }

  private static ByteBuffer bound(Type type, int day, Random random) {
    return switch (type.typeId()) {
      case DOUBLE -> number().putDouble(0, random.nextDouble());
      case STRING -> ByteBuffer.wrap(String.format("%016x", random.nextLong()).getBytes(StandardCharsets.UTF_8));
      case TIMESTAMP -> number().putLong(0, day * DAY_US + (long) (random.nextDouble() * DAY_US));
      default -> number().putLong(0, (long) (random.nextDouble() * (1L << 40)));
    };
  }

  private static ByteBuffer number() {
    return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static DataFile file(Table table, Facts facts) {
    PartitionData partition = new PartitionData(table.spec().partitionType());
    partition.set(0, facts.day());
    return DataFiles.builder(table.spec())
        .withPath(table.location() + "/data/" + UUID.randomUUID() + ".parquet")
        .withFormat("parquet")
        .withFileSizeInBytes(facts.size())
        .withPartition(partition)
        .withMetrics(facts.metrics())
        .withSplitOffsets(List.of(4L))
        .build();
  }
}
