"""The Kinesis front door of `logway serve --secure`: whose requests are believed, and what the others are told."""

import hashlib
import json
import os
import unittest
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import boto3
import urllib3
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, SSLError

from harness.logway import BINARY
from harness.secured import SecuredLogway
from harness.waiting import wait_until

STREAM = "clicks"
TARGET = "Kinesis_20131202.ListStreams"
TIMEOUT_S = 20
JSON = "application/x-amz-json-1.1"

BODY = b"{}"


class InAddress(SigV4QueryAuth):
    """botocore's own would move the body into the address, as the older APIs have it."""

    def payload(self, request):
        return hashlib.sha256(BODY).hexdigest()


class Kinesis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        settings = {"kinesis.listen": "127.0.0.1:0"}
        cls.broker = SecuredLogway("security-kinesis", settings)
        cls.audit = cls.broker.directory / "audit.log"
        cls.broker.settings["logway.audit.log.file"] = str(cls.audit)
        cls.broker.start()
        cls.addClassCleanup(cls.broker.kill)
        cls.authority = str(cls.broker.files / "ca.crt")
        cls.endpoint = f"https://{cls.broker.kinesis}"
        cls.key = cls.broker.access_key()
        cls.admin = cls.client(cls.key)
        cls.admin.create_stream(StreamName=STREAM, ShardCount=1)
        cls.broker.logway("user", "create", "bob")

    @classmethod
    def client(cls, key: dict[str, str], **more):
        arguments = {
            "endpoint_url": cls.endpoint,
            "region_name": "us-east-1",
            "verify": cls.authority,
            "aws_access_key_id": key["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": key["AWS_SECRET_ACCESS_KEY"],
            "config": Config(retries={"total_max_attempts": 1}),
        }
        return boto3.client("kinesis", **(arguments | more))

    def refusal(self, call, **arguments) -> tuple[str, str]:
        with self.assertRaises(ClientError) as refused:
            call(**arguments)
        error = refused.exception.response["Error"]
        return error["Code"], error["Message"]

    def put(self, client, data: bytes = b"data"):
        return client.put_record(StreamName=STREAM, PartitionKey="key", Data=data)

    def test_who_has_no_key_gets_nothing(self):
        stranger = self.client({"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"})
        self.assertEqual(self.refusal(stranger.list_streams)[0], "UnrecognizedClientException")
        wrong = self.client(self.key | {"AWS_SECRET_ACCESS_KEY": "any"})
        code, message = self.refusal(wrong.list_streams)
        self.assertEqual(code, "InvalidSignatureException")
        self.assertIn("does not match", message)
        temporary = self.client(self.key, aws_session_token="of another service")
        self.assertEqual(self.refusal(temporary.list_streams)[0], "UnrecognizedClientException")
        with self.assertRaises(SSLError):
            self.client(self.key, verify=True).list_streams()

    def test_a_key_is_its_owner(self):
        bob = self.client(self.broker.access_key("bob"))
        self.assertEqual(self.refusal(self.put, client=bob)[0], "AccessDeniedException")
        self.broker.logway("acl", "create", "--allow", "bob", "--topic", STREAM, "--operation", "write")
        self.addCleanup(self.broker.logway, "acl", "delete", "--principal", "bob")
        self.put(bob)
        self.assertEqual(self.refusal(bob.delete_stream, StreamName=STREAM)[0], "AccessDeniedException")

    def test_a_key_that_has_ended_is_good_for_nothing(self):
        key = self.broker.access_key()
        client = self.client(key)
        self.put(client)
        self.broker.logway("token", "expire", key["AWS_ACCESS_KEY_ID"])
        self.assertIn(self.refusal(self.put, client=client)[0], ("ExpiredTokenException", "UnrecognizedClientException"))

    def test_the_sdk_fetches_keys_by_itself(self):
        config = self.broker.directory / "aws-config"
        profile = f"--profile-file {self.broker.files / 'profiles.toml'} --profile admin"
        command = f"{BINARY} token create --aws process {profile}"
        config.write_text(f"[default]\nregion = us-east-1\ncredential_process = {command}\n")
        before = {name: os.environ.get(name) for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")}
        os.environ |= {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
        try:
            client = boto3.Session().client("kinesis", endpoint_url=self.endpoint, verify=self.authority)
            self.put(client)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def signed(self, auth=SigV4Auth, data: bytes = BODY, **more) -> AWSRequest:
        credentials = Credentials(self.key["AWS_ACCESS_KEY_ID"], self.key["AWS_SECRET_ACCESS_KEY"])
        headers = {"content-type": JSON, "x-amz-target": TARGET}
        request = AWSRequest("POST", f"{self.endpoint}/", headers=headers, data=data)
        auth(credentials, "kinesis", "us-east-1", **more).add_auth(request)
        return request

    def send(self, request: AWSRequest, **changes):
        headers = dict(request.headers) | changes.get("headers", {})
        pool = urllib3.PoolManager(ca_certs=self.authority, retries=False)
        return pool.request("POST", request.url, body=changes.get("body", BODY), headers=headers,
                            timeout=TIMEOUT_S)

    def test_what_was_signed_cannot_be_used_for_something_else(self):
        request = self.signed()
        self.assertEqual(self.send(request).status, 200)
        for change in [
            {"body": b'{"Limit": 1}'},
            {"headers": {"x-amz-target": "Kinesis_20131202.DescribeLimits"}},
            {"headers": {"x-amz-date": (datetime.now(timezone.utc) - timedelta(minutes=1)).strftime("%Y%m%dT%H%M%SZ")}},
            {"headers": {"x-amz-content-sha256": "0" * 64}},
        ]:
            answer = self.send(request, **change)
            self.assertEqual((answer.status, answer.json()["__type"]), (400, "InvalidSignatureException"), change)

    def test_a_signature_in_the_address_is_as_good(self):
        request = self.signed(InAddress, b"", expires=60)
        self.assertIn("X-Amz-Signature", urlsplit(request.url).query)
        answer = self.send(request)
        self.assertEqual((answer.status, answer.json()["StreamNames"]), (200, [STREAM]), answer.data)
        answer = self.send(request, body=b'{"Limit": 1}')
        self.assertEqual(answer.json()["__type"], "InvalidSignatureException")

    def test_the_audit_log_has_who_changed_what_and_who_was_not_believed(self):
        bob = self.client(self.broker.access_key("bob"))
        self.assertEqual(self.refusal(bob.delete_stream, StreamName=STREAM)[0], "AccessDeniedException")
        stranger = self.client({"AWS_ACCESS_KEY_ID": "stranger", "AWS_SECRET_ACCESS_KEY": "any"})
        self.refusal(stranger.list_streams)
        wanted = [
            {"principal": "User:admin", "operation": "CREATE", "resource": STREAM, "is_allowed": True},
            {"principal": "User:bob", "operation": "DELETE", "resource": STREAM, "is_allowed": False},
            {"user": "stranger", "mechanism": "SIGV4"},
        ]

        def are_told() -> bool:
            lines = [json.loads(line)["fields"] for line in self.audit.read_text().splitlines()]
            return all(any(want.items() <= line.items() for line in lines) for want in wanted)

        wait_until(are_told, f"the audit log to have {wanted}", TIMEOUT_S)

    def test_what_is_not_encrypted_is_not_listened_to(self):
        with self.assertRaises(urllib3.exceptions.HTTPError):
            urllib3.request("POST", f"http://{self.broker.kinesis}/", body=b"{}", timeout=TIMEOUT_S, retries=False)

    def test_the_certificate_is_replaced_while_it_listens(self):
        server = self.broker.files / "server.pem"
        before = server.read_text()
        self.addCleanup(server.write_text, before)
        server.write_text("no certificate")

        def is_refused() -> bool:
            lines = self.broker.log_since_start().splitlines()
            return any("the new certificate cannot be used" in line and "KINESIS" in line for line in lines)

        wait_until(is_refused, "the new certificate to be refused", TIMEOUT_S)
        self.put(self.client(self.key))
