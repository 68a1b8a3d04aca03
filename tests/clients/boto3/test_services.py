"""What the Kinesis Client Library calls beside Kinesis and DynamoDB: PutMetricData of CloudWatch, and GetCallerIdentity of STS."""

import unittest
import urllib.error
import urllib.parse
import urllib.request

import boto3
from botocore.exceptions import ClientError
from streams import client

from harness.logway import Logway
from harness.secured import SecuredLogway

DIMENSIONS = [{"Name": "Operation", "Value": "ProcessTask"}, {"Name": "ShardId", "Value": "shardId-0"}]

SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature=c",
    "X-Amz-Date": "20260101T000000Z",
}


class Services(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("boto3-services", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.cloudwatch = client(cls.broker, "cloudwatch")

    def gauge(self, statistic: str, metric: str) -> list[float]:
        lines = self.broker.metrics().splitlines()
        lines = [it for it in lines if it.startswith(f"logway_cloudwatch_{statistic}{{") and f'metric="{metric}"' in it]
        return [float(line.rsplit(" ", 1)[1]) for line in lines]

    def raw(self, path: str, content_type: str, body: bytes, **headers) -> tuple[int, bytes]:
        headers = SIGNED | {"Content-Type": content_type} | headers
        request = urllib.request.Request(f"http://{self.broker.kinesis}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def test_metrics_become_gauges(self):
        statistics = {"SampleCount": 4, "Sum": 10, "Minimum": 0.5, "Maximum": 6}
        self.cloudwatch.put_metric_data(
            Namespace="app",
            MetricData=[
                {"MetricName": "Time", "Dimensions": DIMENSIONS, "StatisticValues": statistics, "Unit": "Milliseconds"},
                {"MetricName": "Success", "Value": 3},
                {"MetricName": "Spread", "Values": [1, 2], "Counts": [3, 1]},
            ],
        )
        for statistic, expected in [("samples", 4), ("sum", 10), ("minimum", 0.5), ("maximum", 6)]:
            self.assertEqual(self.gauge(statistic, "Time"), [expected])
        self.assertEqual(self.gauge("sum", "Success"), [3])
        self.assertEqual((self.gauge("samples", "Spread"), self.gauge("sum", "Spread")), ([4], [5]))
        self.assertIn('dimensions="Operation=ProcessTask,ShardId=shardId-0"', self.broker.metrics())

    def test_a_large_request_comes_compressed(self):
        data = [{"MetricName": f"Large{it}", "Value": it, "Dimensions": DIMENSIONS} for it in range(300)]
        self.cloudwatch.put_metric_data(Namespace="app", MetricData=data)
        self.assertEqual(self.gauge("sum", "Large299"), [299])

    def test_forms_and_cbor_are_read_too(self):
        form = {"Action": "PutMetricData", "Namespace": "app", "MetricData.member.1.MetricName": "Form"}
        form |= {"MetricData.member.1.Value": "7.5", "Version": "2010-08-01"}
        status, body = self.raw("/", "application/x-www-form-urlencoded", urllib.parse.urlencode(form).encode())
        self.assertEqual((status, b"PutMetricDataResponse" in body), (200, True), body)
        self.assertEqual(self.gauge("sum", "Form"), [7.5])
        # {"Namespace": "app", "MetricData": [{"MetricName": "Cbor", "Value": 1.5}]}
        cbor = b"\xbf\x69Namespace\x63app\x6aMetricData\x81\xbf\x6aMetricName\x64Cbor\x65Value\xfb\x3f\xf8\0\0\0\0\0\0\xff\xff"
        path = "/service/GraniteServiceVersion20100801/operation/PutMetricData"
        status, body = self.raw(path, "application/cbor", cbor)
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(self.gauge("sum", "Cbor"), [1.5])

    def test_what_is_wrong_is_named(self):
        for data, code in [
            ({"MetricName": "a"}, "MissingParameter"),
            ({"MetricName": "a", "Value": float("1e300")}, "InvalidParameterValue"),
            ({"MetricName": "a", "Values": [1, 2], "Counts": [1]}, "InvalidParameterValue"),
        ]:
            with self.assertRaises(ClientError) as refused:
                self.cloudwatch.put_metric_data(Namespace="app", MetricData=[data])
            self.assertEqual(refused.exception.response["Error"]["Code"], code)

    def test_other_operations_are_unknown(self):
        for service, call in [
            ("cloudwatch", lambda it: it.list_metrics()),
            ("sts", lambda it: it.get_session_token()),
        ]:
            with self.assertRaises(ClientError) as refused:
                call(client(self.broker, service))
            self.assertIn(refused.exception.response["Error"]["Code"], ("InvalidAction", "UnknownOperationException"))

    def test_who_asks_is_anybody_where_signatures_are_not_checked(self):
        identity = client(self.broker, "sts").get_caller_identity()
        self.assertEqual(identity["Account"], "000000000000")
        self.assertEqual(identity["Arn"], "arn:aws:iam::000000000000:user/ANONYMOUS")


class Secured(unittest.TestCase):
    """With TLS and signatures that are checked, each for its service."""

    @classmethod
    def setUpClass(cls):
        cls.broker = SecuredLogway("boto3-services-secured", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.keys = cls.broker.access_key()

    def client(self, service: str, **more):
        keys = {
            "aws_access_key_id": self.keys["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": self.keys["AWS_SECRET_ACCESS_KEY"],
        }
        return boto3.client(
            service,
            endpoint_url=f"https://{self.broker.kinesis}",
            region_name="us-east-1",
            verify=str(self.broker.files / "ca.crt"),
            **keys | more,
        )

    def test_each_service_believes_its_signatures(self):
        self.assertNotIn("ANONYMOUS", self.client("sts").get_caller_identity()["Arn"])
        data = [{"MetricName": f"Signed{it}", "Value": 1} for it in range(400)]
        self.client("cloudwatch").put_metric_data(Namespace="app", MetricData=data)
        dynamodb = self.client("dynamodb")
        self.assertEqual(dynamodb.list_tables()["TableNames"], [])

    def test_no_service_believes_another_secret(self):
        for service, call in [
            ("sts", lambda it: it.get_caller_identity()),
            ("cloudwatch", lambda it: it.put_metric_data(Namespace="a", MetricData=[{"MetricName": "b", "Value": 1}])),
            ("dynamodb", lambda it: it.list_tables()),
        ]:
            with self.assertRaises(ClientError) as refused:
                call(self.client(service, aws_secret_access_key="another"))
            code = refused.exception.response["Error"]["Code"]
            self.assertIn(code, ("InvalidSignatureException", "SignatureDoesNotMatch"), service)


if __name__ == "__main__":
    unittest.main()
