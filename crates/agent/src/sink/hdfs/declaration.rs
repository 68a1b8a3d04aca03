//! What the sink `hdfs` can be told: Flume's keys and defaults (Flume 1.11 User Guide, HDFS Sink).

use crate::codec::avro_file::{AVRO_BLOCK_BYTES, AVRO_CODECS};
use crate::declaration::{Declaration, Fallback, Key, Kind, Role, key};

const CODECS: &[&str] = &[
    "gzip",
    "GzipCodec",
    "org.apache.hadoop.io.compress.GzipCodec",
    "snappy",
    "SnappyCodec",
    "org.apache.hadoop.io.compress.SnappyCodec",
    "deflate",
    "DefaultCodec",
    "org.apache.hadoop.io.compress.DefaultCodec",
    "zstd",
    "ZStandardCodec",
    "org.apache.hadoop.io.compress.ZStandardCodec",
];

const NO_KERBEROS: Kind = Kind::Only(&[], "there is no Kerberos here");

const fn ignored(name: &'static str, why: &'static str, doc: &'static str) -> Key {
    key(name, Kind::Ignored(why), Fallback::Nothing, doc)
}

const fn number(
    name: &'static str,
    bounds: (i64, i64, &'static str),
    fallback: &'static str,
    doc: &'static str,
) -> Key {
    let (min, max, unit) = bounds;
    key(name, Kind::Number(min, max, unit), Fallback::Is(fallback), doc)
}

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "hdfs",
    aliases: &["org.apache.flume.sink.hdfs.HDFSEventSink"],
    doc: "Writes events into files of HDFS, with Flume's keys. A batch is committed when it is on the disks of all DataNodes that \
          have it (`hsync`). A file that grows has another name, and gets its own when it is complete. What is left of one that a \
          kill broke off keeps the first name: its events are there, and those of a batch that was not committed come again in another file.",
    keys: &[
        key(
            "hdfs.path",
            Kind::Text,
            Fallback::Required,
            "Where files are: `hdfs://HOST:PORT/PATH`, or a path of the file system that Hadoop's configuration names \
             (`HADOOP_CONF_DIR`). `%{NAME}` is the value of a header, `%Y %m %d %H %M` and others are parts of the time in the \
             header `timestamp`, in UTC, and `%[localhost]` and `%[IP]` are this machine. Events whose path has a part `.` or `..` \
             or control characters, or needs a time that they have not, go to the dead letters.",
        ),
        key(
            "hdfs.filePrefix",
            Kind::Text,
            Fallback::Is("FlumeData"),
            "What names begin with; it may have escapes, too.",
        ),
        key(
            "hdfs.fileSuffix",
            Kind::MaybeEmpty,
            Fallback::Nothing,
            "What names end in, with its dot. Without it those of packed files end in what is usual, such as `.gz`.",
        ),
        key(
            "hdfs.inUsePrefix",
            Kind::MaybeEmpty,
            Fallback::Nothing,
            "What stands before the name of a file that grows.",
        ),
        key(
            "hdfs.inUseSuffix",
            Kind::MaybeEmpty,
            Fallback::Is(".tmp"),
            "What stands behind the name of a file that grows.",
        ),
        key("hdfs.emptyInUseSuffix", Kind::Flag, Fallback::Is("false"), "Whether nothing does."),
        number(
            "hdfs.rollInterval",
            (0, 86_400 * 366, "s"),
            "30",
            "A file is complete when it is so old; 0 for never.",
        ),
        number(
            "hdfs.rollSize",
            (0, i64::MAX, "bytes"),
            "1024",
            "A file is complete with so many bytes of bodies; 0 for never.",
        ),
        number(
            "hdfs.rollCount",
            (0, i64::MAX, "events"),
            "10",
            "A file is complete with so many events; 0 for never.",
        ),
        number(
            "hdfs.idleTimeout",
            (0, 86_400 * 366, "s"),
            "0",
            "A file is complete when nothing was written for so long; 0 for never.",
        ),
        number(
            "hdfs.batchSize",
            (1, 1_000_000, "events"),
            "100",
            "How many events are written before they are made durable.",
        ),
        key(
            "hdfs.fileType",
            Kind::Choice(&["SequenceFile", "DataStream", "CompressedStream"]),
            Fallback::Is("SequenceFile"),
            "A SequenceFile, whose keys are times; what the serializer makes; or that, packed by `hdfs.codeC`.",
        ),
        key(
            "hdfs.codeC",
            Kind::Only(CODECS, "bzip2 and LZO are not packed here"),
            Fallback::Nothing,
            "How files are packed. A SequenceFile is packed in blocks, each a batch.",
        ),
        key(
            "hdfs.writeFormat",
            Kind::Choice(&["Writable", "Text"]),
            Fallback::Is("Writable"),
            "Whether the values of a SequenceFile are `BytesWritable` or `Text`.",
        ),
        key(
            "serializer",
            Kind::Choice(&["TEXT", "HEADER_AND_TEXT", "JSON", "AVRO_EVENT"]),
            Fallback::Is("TEXT"),
            "How events are written, but for a SequenceFile.",
        ),
        key(
            "serializer.appendNewline",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a line feed follows each body.",
        ),
        key(
            "serializer.compressionCodec",
            AVRO_CODECS,
            Fallback::Is("null"),
            "How blocks of `AVRO_EVENT` are compressed. Flume's bzip2 and xz are not there.",
        ),
        key(
            "serializer.syncIntervalBytes",
            AVRO_BLOCK_BYTES,
            Fallback::Is("2048000"),
            "How large a block of `AVRO_EVENT` becomes; one also ends with each batch.",
        ),
        number(
            "hdfs.maxOpenFiles",
            (1, 100_000, "files"),
            "5000",
            "With more, the one that nothing was written into for longest is complete.",
        ),
        key(
            "hdfs.useLocalTimeStamp",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether paths have the time of writing, and not that of the header `timestamp`.",
        ),
        key(
            "hdfs.round",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether times in paths are rounded down.",
        ),
        number("hdfs.roundValue", (1, 60, "units"), "1", "To a multiple of so many units."),
        key(
            "hdfs.roundUnit",
            Kind::Choice(&["second", "minute", "hour"]),
            Fallback::Is("second"),
            "Which unit.",
        ),
        key(
            "hdfs.timeZone",
            Kind::Only(&["UTC", "GMT", "Etc/UTC"], "times are in UTC here"),
            Fallback::Is("UTC"),
            "The zone of times in paths. Flume's default is the machine's own.",
        ),
        number(
            "hdfs.callTimeout",
            (1, i64::MAX, "ms"),
            "30000",
            "How long HDFS may take for one thing.",
        ),
        number(
            "hdfs.closeTries",
            (0, i64::MAX, "tries"),
            "0",
            "How often a complete file is tried to be renamed; 0 for until it is.",
        ),
        number(
            "hdfs.retryInterval",
            (1, i64::MAX, "s"),
            "180",
            "How long between two of these tries.",
        ),
        key(
            "hdfs.proxyUser",
            Kind::Text,
            Fallback::Nothing,
            "The user whose files they are. Without it that of `HADOOP_USER_NAME`, or the process's.",
        ),
        key("hdfs.kerberosPrincipal", NO_KERBEROS, Fallback::Nothing, "Kerberos."),
        key("hdfs.kerberosKeytab", NO_KERBEROS, Fallback::Nothing, "Kerberos."),
        ignored(
            "hdfs.minBlockReplicas",
            "a DataNode that fails is replaced, and the file goes on",
            "How many replicas keep a file from being complete too early.",
        ),
        ignored("hdfs.threadsPoolSize", "all cores are used", "Flume's threads."),
        ignored("hdfs.rollTimerPoolSize", "all cores are used", "Flume's threads."),
    ],
    shared: &[],
};
