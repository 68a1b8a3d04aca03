"""How the job is started."""

from harness.apache_kafka import SMALL_JVM
from harness.broker import WORK

UPPER_CASE = ["java", *SMALL_JVM, "-Xmx400m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
UPPER_CASE += ["-cp", f"{WORK}/flink/classes:{WORK}/flink/libs/*", "io.logway.flink.UpperCase"]
