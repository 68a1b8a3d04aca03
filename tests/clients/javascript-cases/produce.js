"use strict";
// The produce cases: one reader follows all their topics, since joining a group for each would take seconds.

const assert = require("node:assert/strict");
const { Skip, testCase } = require("./report");
const { content, fresh, numbered } = require("./model");
const { Reader } = require("./reader");

// A record of this size makes a batch of exactly 1,048,588 bytes, the default max.message.bytes: the batch header takes
// 61 bytes, and a record without key and headers 11 more.
const LARGEST_VALUE_BYTES = 1_048_588 - 61 - 11;
const TOPICS = ["none", "gzip", "snappy", "lz4", "zstd", "0", "1", "all", "idempotent", "headers", "nulls", "sizes"];

async function produceCases(client) {
  const topics = {};
  for (const purpose of TOPICS) {
    topics[purpose] = fresh(purpose);
    await client.createTopic(topics[purpose], 1);
  }
  let reader;
  /** Only the case that needs it first fails if groups are out of order. */
  const read = async (topic, count) => {
    reader ??= await Reader.open(client, { group: fresh("produced"), topics: Object.values(topics) });
    return reader.first(topic, count);
  };

  async function roundTrip(topic, records, settings) {
    const producer = await client.openProducer(settings);
    for (let start = 0; start < records.length; start += 1_000) {
      const offset = await producer.send(topic, 0, records.slice(start, start + 1_000));
      // Without acknowledgements no offset is known.
      if (settings.acks !== 0) assert.equal(offset, start);
    }
    await producer.close();
    const received = await read(topic, records.length);
    assert.deepEqual(received.map(content), records.map(content));
    assert.deepEqual(received.map(({ offset }) => Number(offset)), [...records.keys()]);
  }

  async function codec(name) {
    if (!client.codecs.includes(name)) throw new Skip("no such codec");
    await roundTrip(topics[name], numbered(10_000), { codec: name });
  }

  await testCase("produce-none", () => codec("none"));
  await testCase("produce-gzip", () => codec("gzip"));
  await testCase("produce-snappy", () => codec("snappy"));
  await testCase("produce-lz4", () => codec("lz4"));
  await testCase("produce-zstd", () => codec("zstd"));
  await testCase("produce-acks-0", () => roundTrip(topics["0"], numbered(1_000), { acks: 0 }));
  await testCase("produce-acks-1", () => roundTrip(topics["1"], numbered(1_000), { acks: 1 }));
  await testCase("produce-acks-all", () => roundTrip(topics.all, numbered(1_000), { acks: -1 }));
  await testCase("produce-idempotent", () =>
    roundTrip(topics.idempotent, numbered(10_000), { idempotent: true, codec: "gzip" }),
  );

  await testCase("produce-headers", () => {
    const headers = { a: ["1", "2", "1"].map(Buffer.from), b: Buffer.alloc(0) };
    return roundTrip(topics.headers, [{ key: null, value: Buffer.from("v"), headers }], {});
  });

  await testCase("produce-nulls", () => {
    const [text, empty] = [Buffer.from("x"), Buffer.alloc(0)];
    const pairs = [[null, text], [text, null], [null, null]];
    if (client.sendsEmpty) pairs.push([empty, empty], [text, empty]);
    return roundTrip(topics.nulls, pairs.map(([key, value]) => ({ key, value })), {});
  });

  await testCase("produce-sizes", async () => {
    const sizes = [1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES];
    const producer = await client.openProducer({ requestBytesMax: 2_000_000 });
    for (const size of sizes) {
      await producer.send(topics.sizes, 0, [{ key: null, value: Buffer.alloc(size, "x") }]);
    }
    await producer.close();
    const received = await read(topics.sizes, sizes.length);
    assert.deepEqual(received.map(({ value }) => value.length), sizes);
    assert.ok(received.every(({ value }) => value.every((byte) => byte === 0x78)));
  });

  await reader?.close();

  await testCase("produce-auto-create", async () => {
    const topic = fresh("auto-created");
    const producer = await client.openProducer({ createTopics: true });
    await producer.send(topic, 0, [{ key: null, value: Buffer.from("first") }]);
    await producer.close();
    assert.deepEqual((await client.listOffsets(topic)).get(0), [0, 1]);
  });
}

module.exports = { produceCases };
