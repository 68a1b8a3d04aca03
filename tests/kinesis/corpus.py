"""Requests of AWS's clients to mutate, as boto3 sends them: every operation of the front door, with tokens and names that are good."""

import json
from dataclasses import dataclass, field

import boto3
import cbor
from botocore.config import Config
from botocore.exceptions import ClientError

STREAM, TABLE = "hostile", "hostile-table"
SHARD = "shardId-000000000000"
AMZ_CBOR = "application/x-amz-cbor-1.1"
KINESIS, DYNAMODB = "Kinesis_20131202", "DynamoDB_20120810"
METRICS_PATH = "/service/GraniteServiceVersion20100801/operation/PutMetricData"
# By whose service a signature is made.
SERVICES = ("kinesis", "dynamodb", "monitoring", "sts")
KEY = {"leaseKey": {"S": "shardId-1"}}


@dataclass
class Request:
    """One of HTTP, without what only the connection is about. `document` is what the body says, if it is JSON or CBOR."""

    path: str
    headers: dict[str, str]
    body: bytes
    service: str
    document: dict | None = field(default=None)


def recorded(endpoint: str, key: dict[str, str]) -> list[Request]:
    """What clients send that use everything once, and the same in CBOR. Makes the stream and the table that requests are about."""
    requests: list[Request] = []

    def client(service: str):
        made = boto3.client(
            {"monitoring": "cloudwatch"}.get(service, service),
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=key["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=key["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 1}, inject_host_prefix=False),
        )
        made.meta.events.register("before-send.*", lambda request, **_: requests.append(taken(request, service)))
        return made

    kinesis, dynamodb, monitoring, sts = map(client, SERVICES)
    for name, arguments in kinesis_calls(kinesis):
        attempt(getattr(kinesis, name), arguments)
    for name, arguments in dynamodb_calls():
        attempt(getattr(dynamodb, name), arguments)
    dimensions = [{"Name": "Operation", "Value": "ProcessTask"}]
    numbers = {"StatisticValues": {"SampleCount": 1, "Sum": 2, "Minimum": 0, "Maximum": 5}}
    metric = {"MetricName": "Time", "Unit": "Milliseconds", "Dimensions": dimensions, **numbers}
    attempt(monitoring.put_metric_data, {"Namespace": "hostile", "MetricData": [metric, {"MetricName": "One", "Value": 1.5}]})
    attempt(sts.get_caller_identity, {})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    query = "Action=PutMetricData&Version=2010-08-01&Namespace=n&MetricData.member.1.MetricName=m&MetricData.member.1.Value=5"
    requests.append(Request("/", form, query.encode(), "monitoring"))
    return requests + [in_cbor(it) for it in requests if it.document is not None and it.service in ("kinesis", "monitoring")]


def attempt(call, arguments: dict):
    try:
        answer = call(**arguments)
    except ClientError:
        # A refused request is one to mutate, too.
        return
    if "EventStream" in answer:
        answer["EventStream"].close()


def taken(prepared, service: str) -> Request:
    body = prepared.body if isinstance(prepared.body, bytes) else (prepared.body or "").encode()
    own = ("content-type", "x-amz-target", "x-amzn-query-mode")
    text = {name: value.decode() if isinstance(value, bytes) else value for name, value in prepared.headers.items()}
    headers = {name: value for name, value in text.items() if name.lower() in own}
    is_json = "json" in headers.get("Content-Type", "")
    return Request("/", headers, body, service, json.loads(body) if is_json and body else None)


def in_cbor(request: Request) -> Request:
    document = typed(request.document)
    if request.service == "monitoring":
        headers = {"Content-Type": "application/cbor", "Smithy-Protocol": "rpc-v2-cbor"}
        return Request(METRICS_PATH, headers, cbor.encode(document), request.service, document)
    headers = request.headers | {"Content-Type": AMZ_CBOR}
    return Request(request.path, headers, cbor.encode(document), request.service, document)


def typed(value, name: str = ""):
    """A document of JSON with the types that CBOR has beside."""
    match value:
        case dict():
            return {key: typed(it, key) for key, it in value.items()}
        case list():
            return [typed(it, name) for it in value]
        case str() if name == "Data":
            return value.encode()
        case int() | float() if name.endswith("Timestamp"):
            return cbor.Time(value)
    return value


def kinesis_calls(kinesis):
    """All operations."""
    stream = {"StreamName": STREAM}
    yield "create_stream", stream | {"ShardCount": 2, "Tags": {"a": "b"}}
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/" + STREAM
    yield "put_record", stream | {"Data": b"one", "PartitionKey": "key", "ExplicitHashKey": "5"}
    many = [{"Data": bytes([number]) * 50, "PartitionKey": str(number)} for number in range(20)]
    yield "put_records", stream | {"Records": many}
    number = kinesis.put_record(**stream, Data=b"known", PartitionKey="a", ExplicitHashKey="0")["SequenceNumber"]
    at_shard = stream | {"ShardId": SHARD}
    for kind, more in (
        ("TRIM_HORIZON", {}),
        ("LATEST", {}),
        ("AT_SEQUENCE_NUMBER", {"StartingSequenceNumber": number}),
        ("AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": number}),
        ("AT_TIMESTAMP", {"Timestamp": 1_700_000_000.5}),
    ):
        yield "get_shard_iterator", at_shard | {"ShardIteratorType": kind} | more
    iterator = kinesis.get_shard_iterator(**at_shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    yield "get_records", {"ShardIterator": iterator, "Limit": 10}
    yield "list_streams", {"Limit": 5}
    yield "list_shards", stream | {"MaxResults": 1}
    token = kinesis.list_shards(**stream, MaxResults=1)["NextToken"]
    yield "list_shards", {"NextToken": token}
    yield "list_shards", stream | {"ShardFilter": {"Type": "AT_TIMESTAMP", "Timestamp": 1_700_000_000}}
    for name in ("describe_stream", "describe_stream_summary", "list_tags_for_stream"):
        yield name, stream
    for name in ("describe_limits", "describe_account_settings"):
        yield name, {}
    yield "register_stream_consumer", {"StreamARN": arn, "ConsumerName": "app"}
    consumer = kinesis.list_stream_consumers(StreamARN=arn)["Consumers"][0]["ConsumerARN"]
    yield "list_stream_consumers", {"StreamARN": arn}
    yield "describe_stream_consumer", {"ConsumerARN": consumer}
    for start in ({"Type": "TRIM_HORIZON"}, {"Type": "LATEST"}, {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number}):
        yield "subscribe_to_shard", {"ConsumerARN": consumer, "ShardId": SHARD, "StartingPosition": start}
    yield "add_tags_to_stream", stream | {"Tags": {"name": "value"}}
    yield "remove_tags_from_stream", stream | {"TagKeys": ["name"]}
    yield "tag_resource", {"ResourceARN": arn, "Tags": {"name": "value"}}
    yield "untag_resource", {"ResourceARN": arn, "TagKeys": ["name"]}
    yield "list_tags_for_resource", {"ResourceARN": arn}
    for name in ("increase_stream_retention_period", "decrease_stream_retention_period"):
        yield name, stream | {"RetentionPeriodHours": 48}
    for name in ("enable_enhanced_monitoring", "disable_enhanced_monitoring"):
        yield name, stream | {"ShardLevelMetrics": ["IncomingBytes"]}
    for name in ("start_stream_encryption", "stop_stream_encryption"):
        yield name, stream | {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
    yield "put_resource_policy", {"ResourceARN": arn, "Policy": '{"Version":"2012-10-17"}'}
    for name in ("get_resource_policy", "delete_resource_policy"):
        yield name, {"ResourceARN": arn}
    yield "update_stream_mode", {"StreamARN": arn, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
    yield "update_stream_mode", {"StreamARN": arn, "StreamModeDetails": {"StreamMode": "PROVISIONED"}}
    yield "update_max_record_size", {"StreamARN": arn, "MaxRecordSizeInKiB": 2_048}
    yield "update_shard_count", stream | {"TargetShardCount": 4, "ScalingType": "UNIFORM_SCALING"}
    yield "split_shard", stream | {"ShardToSplit": SHARD, "NewStartingHashKey": "1000"}
    yield "merge_shards", stream | {"ShardToMerge": SHARD, "AdjacentShardToMerge": "shardId-000000000001"}
    # What is deleted is something else: the others are to go on.
    yield "register_stream_consumer", {"StreamARN": arn, "ConsumerName": "gone"}
    yield "deregister_stream_consumer", {"StreamARN": arn, "ConsumerName": "gone"}
    yield "create_stream", {"StreamName": "doomed", "ShardCount": 1}
    yield "delete_stream", {"StreamName": "doomed", "EnforceConsumerDeletion": True}


def dynamodb_calls():
    """What the client library and its lock ask of tables, in both ways to say it."""
    table = {"TableName": TABLE}
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("leaseKey", "leaseOwner")]
    yield "create_table", table | {
        "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        "AttributeDefinitions": attributes[:1],
        "BillingMode": "PAY_PER_REQUEST",
    }
    owner = [{"AttributeName": "leaseOwner", "KeyType": "HASH"}, {"AttributeName": "leaseKey", "KeyType": "RANGE"}]
    index = {"IndexName": "owners", "KeySchema": owner, "Projection": {"ProjectionType": "KEYS_ONLY"}}
    yield "update_table", table | {"AttributeDefinitions": attributes, "GlobalSecondaryIndexUpdates": [{"Create": index}]}
    yield "describe_table", table
    yield "list_tables", {}
    item = KEY | {"leaseCounter": {"N": "5"}, "leaseOwner": {"S": "w"}, "set": {"SS": ["a", "b"]}, "deep": {"M": {"l": {"L": []}}}}
    yield "put_item", table | {"Item": item, "Expected": {"leaseKey": {"Exists": False}}}
    yield "get_item", table | {"Key": KEY, "ConsistentRead": True}
    yield "update_item", table | {
        "Key": KEY,
        "Expected": {"leaseCounter": {"Value": {"N": "5"}}},
        "AttributeUpdates": {"leaseCounter": {"Action": "ADD", "Value": {"N": "1"}}, "set": {"Action": "DELETE"}},
        "ReturnValues": "ALL_NEW",
    }
    yield "update_item", table | {
        "Key": KEY,
        "UpdateExpression": "SET #a = if_not_exists(#a, :v), b = list_append(:l, :l) REMOVE c ADD leaseCounter :one",
        "ConditionExpression": "attribute_exists(#a) OR NOT (leaseCounter BETWEEN :one AND :v) AND size(#a) > :one",
        "ExpressionAttributeNames": {"#a": "a"},
        "ExpressionAttributeValues": {":v": {"N": "7"}, ":one": {"N": "1"}, ":l": {"L": [{"S": "x"}]}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    yield "scan", table | {"FilterExpression": "begins_with(leaseKey, :p)", "ExpressionAttributeValues": {":p": {"S": "s"}},
                           "Limit": 3, "Segment": 0, "TotalSegments": 2}
    yield "query", table | {"IndexName": "owners", "KeyConditionExpression": "leaseOwner = :o",
                            "ExpressionAttributeValues": {":o": {"S": "w"}}}
    yield "update_continuous_backups", table | {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
    yield "delete_item", table | {"Key": KEY, "ReturnValues": "ALL_OLD"}
    gone = {"TableName": "doomed"}
    key = {"KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
    yield "create_table", gone | key | {"AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "N"}]}
    yield "delete_table", gone
