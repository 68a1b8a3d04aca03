// node cases.mjs ENDPOINT CASE: one case, which fails by an exception.

import assert from "node:assert/strict";
import {
  CreateStreamCommand,
  DescribeStreamSummaryCommand,
  GetRecordsCommand,
  GetShardIteratorCommand,
  KinesisClient,
  ListShardsCommand,
  PutRecordCommand,
  PutRecordsCommand,
  RegisterStreamConsumerCommand,
  SplitShardCommand,
  SubscribeToShardCommand,
} from "@aws-sdk/client-kinesis";

const [endpoint, name] = process.argv.slice(2);
const StreamName = `javascript-${name}`;
const ShardId = "shardId-000000000000";

const client = new KinesisClient({
  endpoint,
  region: "us-east-1",
  maxAttempts: 1,
});

const bytes = (text) => new TextEncoder().encode(text);
const text = (data) => new TextDecoder().decode(data);

const create = (ShardCount = 1) => client.send(new CreateStreamCommand({ StreamName, ShardCount }));

const put = (data, more = {}) =>
  client.send(new PutRecordCommand({ StreamName, Data: bytes(data), PartitionKey: "key", ...more }));

async function iterator(ShardIteratorType, more = {}) {
  const asked = { StreamName, ShardId, ShardIteratorType, ...more };
  return (await client.send(new GetShardIteratorCommand(asked))).ShardIterator;
}

async function read(ShardIterator, count) {
  const records = [];
  while (ShardIterator && records.length < count) {
    const answer = await client.send(new GetRecordsCommand({ ShardIterator }));
    records.push(...answer.Records.map((record) => text(record.Data)));
    ShardIterator = answer.NextShardIterator;
  }
  return records;
}

async function consumer() {
  const summary = await client.send(new DescribeStreamSummaryCommand({ StreamName }));
  const StreamARN = summary.StreamDescriptionSummary.StreamARN;
  const answer = await client.send(new RegisterStreamConsumerCommand({ StreamARN, ConsumerName: "app" }));
  return answer.Consumer.ConsumerARN;
}

async function subscribe() {
  const asked = { ConsumerARN: await consumer(), ShardId, StartingPosition: { Type: "TRIM_HORIZON" } };
  return (await client.send(new SubscribeToShardCommand(asked))).EventStream;
}

const cases = {
  async records() {
    await create(2);
    const Records = [...Array(500).keys()].map((number) => ({ Data: bytes(`${number}`), PartitionKey: `${number}` }));
    const answer = await client.send(new PutRecordsCommand({ StreamName, Records }));
    assert.equal(answer.FailedRecordCount, 0);
    const first = answer.Records.filter((record) => record.ShardId === ShardId).length;
    assert.equal((await read(await iterator("TRIM_HORIZON"), first)).length, first);
  },

  async iterators() {
    await create();
    const numbers = [];
    for (const data of ["0", "1", "2"]) numbers.push((await put(data)).SequenceNumber);
    await new Promise((done) => setTimeout(done, 20));
    const Timestamp = new Date();
    const latest = await iterator("LATEST");
    await new Promise((done) => setTimeout(done, 20));
    await put("3");
    const first = async (of) => (await read(of, 1))[0];
    assert.equal(await first(await iterator("TRIM_HORIZON")), "0");
    assert.equal(await first(await iterator("AT_SEQUENCE_NUMBER", { StartingSequenceNumber: numbers[1] })), "1");
    assert.equal(await first(await iterator("AFTER_SEQUENCE_NUMBER", { StartingSequenceNumber: numbers[1] })), "2");
    assert.equal(await first(await iterator("AT_TIMESTAMP", { Timestamp })), "3");
    assert.equal(await first(latest), "3");
  },

  async fanOut() {
    await create();
    await put("before");
    const events = await subscribe();
    const writing = put("after");
    const seen = [];
    for await (const { SubscribeToShardEvent: event } of events) {
      seen.push(...event.Records.map((record) => text(record.Data)));
      if (seen.length === 2) break;
    }
    await writing;
    assert.deepEqual(seen, ["before", "after"]);
  },

  async reshardWhileReading() {
    await create();
    const events = await subscribe();
    await put("last");
    const split = { StreamName, ShardToSplit: ShardId, NewStartingHashKey: "1000" };
    await client.send(new SplitShardCommand(split));
    const seen = [];
    let children;
    for await (const { SubscribeToShardEvent: event } of events) {
      seen.push(...event.Records.map((record) => text(record.Data)));
      children = event.ChildShards;
    }
    assert.deepEqual(seen, ["last"]);
    assert.equal(children.length, 2);
    const { Shards } = await client.send(new ListShardsCommand({ StreamName }));
    assert.equal(Shards.length, 3);
  },

  async errors() {
    await assert.rejects(put("x"), { name: "ResourceNotFoundException" });
    await create();
    await assert.rejects(create(), { name: "ResourceInUseException" });
    await assert.rejects(put("x", { PartitionKey: "" }), { name: "ValidationException" });
    const ShardIterator = "x".repeat(200);
    await assert.rejects(client.send(new GetRecordsCommand({ ShardIterator })), { name: "InvalidArgumentException" });
  },
};

await cases[name]();
client.destroy();
process.exit(0);
