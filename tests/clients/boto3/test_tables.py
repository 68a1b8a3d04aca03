"""Tables of DynamoDB as the Kinesis Client Library uses them: leases under conditions, one index, and nothing lost."""

import threading
import time
import unittest

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError
from streams import DEADLINE_S, client

from harness.cluster import Cluster
from harness.cluster_status import wait_until_all_vote
from harness.logway import Logway

INDEX = {
    "IndexName": "LeaseOwnerToLeaseKeyIndex",
    "KeySchema": [
        {"AttributeName": "leaseOwner", "KeyType": "HASH"},
        {"AttributeName": "leaseKey", "KeyType": "RANGE"},
    ],
    "Projection": {"ProjectionType": "KEYS_ONLY"},
}

ATTRIBUTES = [{"AttributeName": name, "AttributeType": "S"} for name in ("leaseKey", "leaseOwner")]


def create(dynamodb, table: str):
    made = dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=ATTRIBUTES[:1],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    return made["TableDescription"]


def key(name: str) -> dict:
    return {"leaseKey": {"S": name}}


def refusal(call, **arguments) -> tuple[str, str]:
    """The name and the text of the error that a call has to get."""
    try:
        call(**arguments)
    except ClientError as refused:
        return refused.response["Error"]["Code"], refused.response["Error"]["Message"]
    raise AssertionError("it was not refused")


class Race:
    """All clients try to raise one counter from what it is, again and again, until it is high enough."""

    def __init__(self, clients, table: str, until: int):
        self.clients, self.table, self.until = clients, table, until
        self.won, self.unknown, self.failed = 0, 0, []
        self.lock = threading.Lock()
        clients[0].put_item(TableName=table, Item=key("race") | {"counter": {"N": "0"}})

    def run(self, meanwhile=lambda: None):
        threads = [threading.Thread(target=self.try_often, args=(dynamodb,)) for dynamodb in self.clients]
        for thread in threads:
            thread.start()
        meanwhile()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def try_often(self, dynamodb):
        try:
            while (seen := self.counter(dynamodb)) < self.until:
                self.count(self.raise_from(dynamodb, seen))
        except (ConnectionError, HTTPClientError):
            pass  # Its node was killed.
        except Exception as error:
            self.failed.append(error)

    def counter(self, dynamodb) -> int:
        ends = time.monotonic() + DEADLINE_S
        while True:
            try:
                read = dynamodb.get_item(TableName=self.table, Key=key("race"), ConsistentRead=True)
                return int(read["Item"]["counter"]["N"])
            except ClientError as refused:
                if refused.response["Error"]["Code"] != "InternalServerError" or time.monotonic() > ends:
                    raise

    def raise_from(self, dynamodb, seen: int) -> bool | None:
        """Whether it was this client that did it; `None` if it does not know."""
        try:
            dynamodb.update_item(
                TableName=self.table,
                Key=key("race"),
                Expected={"counter": {"Value": {"N": str(seen)}}},
                AttributeUpdates={"counter": {"Action": "ADD", "Value": {"N": "1"}}},
            )
            return True
        except ClientError as refused:
            code = refused.response["Error"]["Code"]
            if code not in ("ConditionalCheckFailedException", "InternalServerError"):
                raise
            return False if code == "ConditionalCheckFailedException" else None
        except (ConnectionError, HTTPClientError):
            return None

    def count(self, won: bool | None):
        with self.lock:
            self.won += won is True
            self.unknown += won is None


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Logway("boto3-tables", {"kinesis.listen": "127.0.0.1:0"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.dynamodb = client(cls.broker, "dynamodb")

    def setUp(self):
        self.table = self.id().split(".")[-1]

    def put(self, name: str, **more):
        return self.dynamodb.put_item(TableName=self.table, Item=key(name) | more)

    def get(self, name: str) -> dict | None:
        return self.dynamodb.get_item(TableName=self.table, Key=key(name), ConsistentRead=True).get("Item")

    def scan(self, **more) -> list[str]:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.table, **more)
        return [item["leaseKey"]["S"] for page in pages for item in page["Items"]]

    def test_a_table_is_made_described_and_deleted(self):
        made = create(self.dynamodb, self.table)
        self.assertEqual(made["TableStatus"], "CREATING")
        table = self.dynamodb.describe_table(TableName=self.table)["Table"]
        self.assertEqual(table["TableStatus"], "ACTIVE")
        self.assertEqual(table["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST")
        self.assertEqual(table["TableArn"], f"arn:aws:dynamodb:us-east-1:000000000000:table/{self.table}")
        self.assertIn(self.table, self.dynamodb.list_tables()["TableNames"])
        again = refusal(create, dynamodb=self.dynamodb, table=self.table)
        self.assertEqual(again, ("ResourceInUseException", f"Table already exists: {self.table}"))
        self.dynamodb.delete_table(TableName=self.table)
        self.dynamodb.get_waiter("table_not_exists").wait(TableName=self.table, WaiterConfig={"Delay": 1})
        gone = ("ResourceNotFoundException", "Requested resource not found")
        self.assertEqual(refusal(self.dynamodb.get_item, TableName=self.table, Key=key("a")), gone)
        create(self.dynamodb, self.table)
        self.assertEqual(self.scan(), [])

    def test_all_types_come_back_as_they_were(self):
        create(self.dynamodb, self.table)
        item = {
            "s": {"S": "ä\0"},
            "n": {"N": "-12.5"},
            "b": {"B": b"\0\xff"},
            "t": {"BOOL": True},
            "nothing": {"NULL": True},
            "ss": {"SS": ["a", "b"]},
            "ns": {"NS": ["1", "2.5"]},
            "bs": {"BS": [b"x"]},
            "l": {"L": [{"N": "1"}, {"M": {"x": {"S": ""}}}]},
            "m": {"M": {"a": {"M": {"b": {"L": []}}}}},
        }
        self.put("a", **item)
        self.assertEqual(self.get("a"), key("a") | item)
        projected = self.dynamodb.get_item(
            TableName=self.table, Key=key("a"), ProjectionExpression="#l[1].x, m.a", ExpressionAttributeNames={"#l": "l"}
        )["Item"]
        self.assertEqual(projected, {"l": {"L": [{"M": {"x": {"S": ""}}}]}, "m": item["m"]})

    def test_a_lease_is_taken_under_legacy_conditions(self):
        create(self.dynamodb, self.table)
        absent = {"leaseKey": {"Exists": False}}
        lease = key("shard-0") | {"leaseCounter": {"N": "0"}, "leaseOwner": {"S": "one"}}
        self.dynamodb.put_item(TableName=self.table, Item=lease, Expected=absent)
        second = refusal(self.dynamodb.put_item, TableName=self.table, Item=lease, Expected=absent)
        self.assertEqual(second, ("ConditionalCheckFailedException", "The conditional request failed"))
        taken = self.dynamodb.update_item(
            TableName=self.table,
            Key=key("shard-0"),
            Expected={"leaseOwner": {"Value": {"S": "one"}}, "checkpointOwner": {"Exists": False}},
            AttributeUpdates={
                "leaseOwner": {"Action": "PUT", "Value": {"S": "two"}},
                "leaseCounter": {"Action": "ADD", "Value": {"N": "1"}},
                "ownerSwitches": {"Action": "ADD", "Value": {"N": "1"}},
                "checkpointOwner": {"Action": "DELETE"},
            },
            ReturnValues="ALL_NEW",
        )["Attributes"]
        expected = lease | {"leaseCounter": {"N": "1"}, "leaseOwner": {"S": "two"}, "ownerSwitches": {"N": "1"}}
        self.assertEqual(taken, expected)
        with self.assertRaises(ClientError) as refused:
            self.dynamodb.update_item(
                TableName=self.table,
                Key=key("shard-0"),
                Expected={"leaseOwner": {"Value": {"S": "one"}}},
                AttributeUpdates={"leaseOwner": {"Action": "DELETE"}},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        self.assertEqual(refused.exception.response["Error"]["Code"], "ConditionalCheckFailedException")
        self.assertEqual(refused.exception.response["Item"], expected)

    def test_a_lock_is_held_under_expressions(self):
        create(self.dynamodb, self.table)
        names = {"#pk": "leaseKey", "#rvn": "recordVersionNumber", "#on": "ownerName"}
        first = key("leader") | {"recordVersionNumber": {"S": "v1"}, "ownerName": {"S": "one"}}
        free = {"ConditionExpression": "attribute_not_exists(#pk)", "ExpressionAttributeNames": {"#pk": "leaseKey"}}
        self.dynamodb.put_item(TableName=self.table, Item=first, **free)
        held = refusal(self.dynamodb.put_item, TableName=self.table, Item=first, **free)
        self.assertEqual(held[0], "ConditionalCheckFailedException")
        beat = {
            "TableName": self.table,
            "Key": key("leader"),
            "ConditionExpression": "attribute_exists(#pk) AND #rvn = :rvn AND #on = :on",
            "UpdateExpression": "SET #rvn = :new REMOVE isReleased",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {":rvn": {"S": "v1"}, ":on": {"S": "one"}, ":new": {"S": "v2"}},
        }
        self.dynamodb.update_item(**beat)
        self.assertEqual(self.get("leader")["recordVersionNumber"], {"S": "v2"})
        self.assertEqual(refusal(self.dynamodb.update_item, **beat)[0], "ConditionalCheckFailedException")
        gone = self.dynamodb.delete_item(TableName=self.table, Key=key("leader"), ReturnValues="ALL_OLD")
        self.assertEqual(gone["Attributes"]["ownerName"], {"S": "one"})

    def test_leases_are_found_by_their_owner(self):
        create(self.dynamodb, self.table)
        for number in range(20):
            self.put(f"shard-{number:02}", leaseOwner={"S": f"worker-{number % 3}"}, counter={"N": str(number)})
        self.put("unowned")
        self.dynamodb.update_table(
            TableName=self.table, AttributeDefinitions=ATTRIBUTES, GlobalSecondaryIndexUpdates=[{"Create": INDEX}]
        )
        [index] = self.dynamodb.describe_table(TableName=self.table)["Table"]["GlobalSecondaryIndexes"]
        self.assertEqual((index["IndexName"], index["IndexStatus"]), (INDEX["IndexName"], "ACTIVE"))
        asked = {
            "TableName": self.table,
            "IndexName": INDEX["IndexName"],
            "KeyConditionExpression": "leaseOwner = :leaseOwner",
            "ExpressionAttributeValues": {":leaseOwner": {"S": "worker-1"}},
        }
        pages = self.dynamodb.get_paginator("query").paginate(**asked, PaginationConfig={"PageSize": 2})
        found = [item for page in pages for item in page["Items"]]
        expected = [key(f"shard-{number:02}") | {"leaseOwner": {"S": "worker-1"}} for number in range(1, 20, 3)]
        self.assertEqual(found, expected)
        asked["KeyConditionExpression"] = "leaseKey = :leaseOwner"
        self.assertEqual(refusal(self.dynamodb.query, **asked)[0], "ValidationException")

    def test_a_scan_in_segments_sees_each_item_once(self):
        create(self.dynamodb, self.table)
        names = [f"shard-{number:03}" for number in range(100)]
        for number, name in enumerate(names):
            self.put(name, entityType={"S": "LEASE" if number % 2 else "OTHER"})
        segments = [self.scan(Segment=it, TotalSegments=4, PaginationConfig={"PageSize": 7}) for it in range(4)]
        self.assertEqual(sorted(sum(segments, [])), names)
        self.assertTrue(all(segments))
        leases = self.scan(
            FilterExpression="entityType = :x", ExpressionAttributeValues={":x": {"S": "LEASE"}}
        )
        self.assertEqual(leases, names[1::2])

    def test_what_is_wrong_is_named(self):
        create(self.dynamodb, self.table)
        at = {"TableName": self.table}
        for call, arguments, told in [
            (self.dynamodb.put_item, {"Item": {"other": {"S": "a"}}}, "Missing the key leaseKey in the item"),
            (self.dynamodb.put_item, {"Item": {"leaseKey": {"N": "1"}}}, "expected: S actual: N"),
            (self.dynamodb.get_item, {"Key": key("a") | {"b": {"S": "c"}}}, "does not match the schema"),
            (self.dynamodb.put_item, {"Item": key("a") | {"n": {"N": "x"}}}, "cannot be converted to a numeric value"),
            (self.dynamodb.put_item, {"Item": key("a") | {"s": {"SS": []}}}, "may not be empty"),
            (self.dynamodb.put_item, {"Item": key("a") | {"s": {"S": "x" * 500_000}}}, "maximum allowed size"),
            (self.dynamodb.update_item, {"Key": key("a"), "UpdateExpression": "SET"}, "Syntax error"),
            (self.dynamodb.scan, {"Segment": 4, "TotalSegments": 4}, "is not less than TotalSegments"),
        ]:
            name, text = refusal(call, **at, **arguments)
            self.assertEqual(name, "ValidationException", text)
            self.assertIn(told, text)
        unknown = refusal(self.dynamodb.batch_get_item, RequestItems={self.table: {"Keys": [key("a")]}})
        self.assertEqual(unknown[0], "UnknownOperationException")
        self.assertEqual(self.scan(), [])

    def test_of_two_that_want_the_same_one_gets_it(self):
        create(self.dynamodb, self.table)
        race = Race([client(self.broker, "dynamodb") for _ in range(3)], self.table, 60)
        race.run()
        self.assertEqual((race.won, race.unknown), (60, 0))
        self.assertEqual(self.get("race")["counter"], {"N": "60"})


class Restarts(unittest.TestCase):
    def test_what_was_written_is_there_after_a_crash(self):
        broker = Logway("boto3-tables-restart", {"kinesis.listen": "127.0.0.1:0"}).start()
        self.addCleanup(broker.kill)
        dynamodb = client(broker, "dynamodb")
        create(dynamodb, "leases")
        for number in range(50):
            dynamodb.put_item(TableName="leases", Item=key(f"shard-{number:02}") | {"counter": {"N": str(number)}})
        dynamodb.delete_item(TableName="leases", Key=key("shard-00"))
        broker.kill()
        broker.start()
        items = dynamodb.scan(TableName="leases", ConsistentRead=True)["Items"]
        self.assertEqual([it["counter"]["N"] for it in items], [str(number) for number in range(1, 50)])
        self.assertEqual(dynamodb.describe_table(TableName="leases")["Table"]["ItemCount"], 49)


class AnyNode(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster("boto3-tables-cluster", settings={"kinesis.listen": "127.0.0.1:0"}))
        self.clients = [client(node, "dynamodb") for node in self.cluster.nodes]
        create(self.clients[0], "leases")
        wait_until_all_vote(self.cluster)
        for dynamodb in self.clients:
            dynamodb.get_waiter("table_exists").wait(TableName="leases", WaiterConfig={"Delay": 1})

    def test_writes_by_all_nodes_have_one_order(self):
        race = Race(self.clients, "leases", 60)
        race.run()
        self.assertEqual((race.won, race.unknown), (60, 0))
        self.assertEqual({race.counter(dynamodb) for dynamodb in self.clients}, {60})

    def test_nothing_acknowledged_is_lost_with_a_node(self):
        for node in range(2):
            race = Race(self.clients, "leases", 80)

            def kill():
                while race.won < 25 and not race.failed:
                    time.sleep(0.01)
                self.cluster.nodes[node].kill()

            race.run(kill)
            left = [race.counter(dynamodb) for index, dynamodb in enumerate(self.clients) if index != node]
            self.assertEqual(set(left), {80})
            self.assertTrue(race.won <= 80 <= race.won + race.unknown, (race.won, race.unknown))
            self.cluster.nodes[node].start()


if __name__ == "__main__":
    unittest.main()
