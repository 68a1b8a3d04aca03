"use strict";
// The consume cases. Most read one topic: 1,000 records in partition 1, a second apart by their own timestamps.

const assert = require("node:assert/strict");
const { Skip, testCase } = require("./report");
const { answeredFetches, fresh, numbered } = require("./model");
const { Reader } = require("./reader");

const BASE_MS = 1_700_000_000_000;
// How long a consumer with nothing to read is looked at, and how often it may ask meanwhile. With its wait of 500 ms
// that is some times; without any wait it is thousands of times.
const IDLE_MS = 3_000;
const IDLE_FETCHES_MAX = 150;

async function consumeCases(client) {
  const positions = fresh("positions");
  // Their timestamps are so old that the topic must keep them for ever.
  await client.createTopic(positions, 2, { "retention.ms": "-1" });
  const producer = await client.openProducer({});
  const records = numbered(1_000).map((record, number) => ({ ...record, timestamp: String(BASE_MS + 1_000 * number) }));
  await producer.send(positions, 1, records);
  let opened;
  const reader = async () => {
    opened ??= await Reader.open(client, { group: fresh("reader"), topics: [positions], isolation: "committed" });
    return opened;
  };

  await testCase("consume-assigned", async () => {
    if (!client.readAssigned) throw new Skip("reads as a member of a group only");
    const topic = fresh("assigned");
    await client.createTopic(topic, 5);
    for (let partition = 0; partition < 5; partition += 1) {
      await producer.send(topic, partition, numbered(2_000, 10_000 * partition));
    }
    const received = await client.readAssigned(topic, [0, 1, 2, 3, 4], 10_000);
    for (let partition = 0; partition < 5; partition += 1) {
      const keys = received.filter((record) => record.partition === partition).map(({ key }) => Number(key));
      assert.deepEqual(keys, numbered(2_000, 10_000 * partition).map(({ key }) => Number(key)));
    }
  });

  await testCase("consume-read-committed", async () => {
    const received = await (await reader()).first(positions, 1_000, 1);
    assert.deepEqual(received.map(({ offset }) => Number(offset)), [...Array(1_000).keys()]);
  });

  await testCase("consume-mid-batch", async () => {
    for (const offset of [1, 500, 777, 998, 999]) {
      const record = await (await reader()).nextAt(positions, 1, offset);
      assert.equal(String(record.key), String(offset));
    }
  });

  await testCase("consume-seek", async () => {
    for (const offset of [500, 3, 999, 0]) {
      assert.equal(Number((await (await reader()).nextAt(positions, 1, offset)).offset), offset);
    }
  });

  await testCase("consume-by-time", async () => {
    for (const [timeMs, offset] of [
      [0, 0],
      [BASE_MS + 250_000, 250],
      [BASE_MS + 250_001, 251],
      [BASE_MS + 999_000, 999],
      // Both libraries make the end of "none".
      [BASE_MS + 999_001, 1_000],
    ]) {
      assert.equal(await client.offsetAt(positions, 1, timeMs), offset, `at ${timeMs}`);
    }
    const record = await (await reader()).nextAt(positions, 1, await client.offsetAt(positions, 1, BASE_MS + 700_500));
    assert.equal(Number(record.timestamp), BASE_MS + 701_000);
  });

  await testCase("consume-following", async () => {
    const topic = fresh("followed");
    await client.createTopic(topic, 1);
    await producer.send(topic, 0, numbered(1));
    const follower = await Reader.open(client, { group: fresh("follower"), topics: [topic], waitMsMax: 4_000 });
    try {
      await follower.first(topic, 1);
      await producer.send(topic, 0, numbered(1, 1));
      await follower.until(() => follower.of(topic).length === 2, "the late record", 2_000);
    } finally {
      await follower.close();
    }
  });

  await testCase("consume-deleted", async () => {
    const [idle, gone] = [fresh("idle"), fresh("gone")];
    for (const topic of [idle, gone]) {
      await client.createTopic(topic, 1);
      await producer.send(topic, 0, numbered(1));
    }
    const member = await Reader.open(client, { group: fresh("member"), topics: [idle, gone] });
    try {
      for (const topic of [idle, gone]) await member.first(topic, 1);
      await client.deleteTopic(gone);
      const before = await answeredFetches();
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
      const asked = (await answeredFetches()) - before;
      assert(asked < IDLE_FETCHES_MAX, `${asked} fetches in ${IDLE_MS} ms with nothing to read`);
      await producer.send(idle, 0, numbered(1, 1));
      await member.until(() => member.of(idle).length === 2, "the late record");
    } finally {
      await member.close();
    }
  });

  await testCase("consume-compacted", async () => {
    const topic = process.env.COMPACTED_TOPIC;
    const follower = await Reader.open(client, { group: fresh("compacted"), topics: [topic] });
    const at = (offset) => follower.of(topic).find((record) => Number(record.offset) === offset);
    try {
      await follower.until(() => at(5), "the last record");
      assert.deepEqual([String(at(5).key), at(5).value], ["k2", null]);
      await producer.send(topic, 0, [{ key: Buffer.from("k3"), value: Buffer.from("value") }]);
      await follower.until(() => at(6), "the next record");
      assert.equal(String(at(6).key), "k3");
    } finally {
      await follower.close();
    }
  });

  await opened?.close();
  await producer.close();
}

module.exports = { consumeCases };
