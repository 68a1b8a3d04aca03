"""A Spark job reads a stream over a resharding. Its tables of leases are where the broker is, in a region that is told by a file.

It has no setting for where DynamoDB and CloudWatch are, so it goes there by HTTPS.
"""

import os
import subprocess
import unittest
import unittest.mock

import boto3

from harness.broker import WORK
from harness.secured import SecuredLogway
from harness.stream_job import JVM, STREAM, StreamJob, built, opened

OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent",
          "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")


class Spark(StreamJob, unittest.TestCase):
    def setUp(self):
        self.broker = SecuredLogway("kinesis-spark", {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(self.broker.kill)
        self.enterContext(unittest.mock.patch.dict(os.environ, self.broker.access_key()))
        self.authority = self.broker.files / "ca.crt"
        self.endpoint = f"https://{self.broker.kinesis}"
        self.kinesis = boto3.client("kinesis", endpoint_url=self.endpoint, region_name="us-east-1", verify=str(self.authority))
        self.begin("kinesis-spark")

    def test_reads_over_a_reshard(self):
        store, password = self.directory / "trusted.p12", "changeit"
        words = ["-importcert", "-noprompt", "-file", self.authority, "-keystore", store, "-storepass", password]
        subprocess.run(["keytool", *words], check=True, capture_output=True)
        regions = self.directory / "regions.xml"
        service = "<Endpoint><ServiceName>{}</ServiceName><Http>false</Http><Https>true</Https><Hostname>{}</Hostname></Endpoint>"
        services = "".join(service.format(name, self.broker.kinesis) for name in ("kinesis", "dynamodb", "monitoring"))
        regions.write_text(f"<XML><Regions><Region><Name>us-east-1</Name>{services}</Region></Regions></XML>")
        properties = {
            "javax.net.ssl.trustStore": store,
            "javax.net.ssl.trustStorePassword": password,
            "com.amazonaws.regions.RegionUtils.fileOverride": regions,
            "org.slf4j.simpleLogger.defaultLogLevel": "warn",
        }
        given = [f"-D{name}={value}" for name, value in properties.items()]
        arguments = [self.endpoint, STREAM, str(self.file)]
        self.read_over_a_reshard(
            [*JVM, *opened(*OPENED), *given, *built(WORK, "kinesis-spark", "io.logway.spark.Read"), *arguments]
        )


if __name__ == "__main__":
    unittest.main()
