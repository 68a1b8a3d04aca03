"use strict";
// @confluentinc/kafka-javascript, behind the calls that the shared cases make: its promises for what they offer, and
// librdkafka's call backs for the rest.

const { AdminClient, CODES, IsolationLevel, KafkaConsumer, KafkaJS } = require("@confluentinc/kafka-javascript");
const { version } = require("@confluentinc/kafka-javascript/package.json");
const { promisify } = require("node:util");
const { runCases } = require("../javascript-cases/cases");
const { Code, Refused, fresh, refusal, refusing } = require("../javascript-cases/model");
const { waitUntil } = require("../javascript-cases/report");

const DEADLINE_MS = 20_000;
const BOOTSTRAP = process.env.BOOTSTRAP;
const silent = { logLevel: KafkaJS.logLevel.NOTHING };
const kafka = new KafkaJS.Kafka({ kafkaJS: { brokers: [BOOTSTRAP], ...silent } });
const admin = kafka.admin();

async function openProducer({ codec = "none", acks = -1, idempotent = false, requestBytesMax = 1_000_000 }) {
  const producer = kafka.producer({
    kafkaJS: { acks, idempotent, compression: codec, ...silent },
    "message.max.bytes": requestBytesMax,
    // Only an idempotent producer keeps its order if a request is repeated while others are under way.
    "max.in.flight.requests.per.connection": idempotent ? 5 : 1,
    "batch.num.messages": 1_000,
    "linger.ms": 5,
  });
  await producer.connect();
  return {
    async send(topic, partition, records) {
      // The first goes ahead: Kafka refuses requests to a topic that is very new, and a producer that is not idempotent
      // loses its order by repeating some of many.
      const [first, ...others] = records.map((record) => ({ ...record, partition }));
      const [sent] = await refusing(producer.send({ topic, messages: [first] }));
      if (others.length > 0) await refusing(producer.send({ topic, messages: others }));
      return Number(sent.baseOffset);
    },
    close: () => producer.disconnect(),
  };
}

async function openTransactionalProducer(transactionalId) {
  const producer = kafka.producer({ kafkaJS: { transactionalId, ...silent }, "linger.ms": 5 });
  await refusing(producer.connect());
  let transaction;
  return {
    async begin() {
      transaction = await refusing(producer.transaction());
    },
    async send(topic, partition, records) {
      await refusing(transaction.send({ topic, messages: records.map((record) => ({ ...record, partition })) }));
    },
    async sendOffset(consumer, _group, topic, partition, offset) {
      const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }];
      await refusing(transaction.sendOffsets({ consumer: consumer.library, topics }));
    },
    async commit() {
      try {
        await transaction.commit();
      } catch (error) {
        // librdkafka's own codes are negative; this one passes on what the broker said.
        const isFenced = error.code === CODES.ERRORS.ERR__FENCED;
        throw isFenced ? new Refused(Code.PRODUCER_FENCED, error.message) : refusal(error);
      }
    },
    abort: () => refusing(transaction.abort()),
    close: () => producer.disconnect(),
  };
}

async function openConsumer(settings) {
  const { group, topics, instanceId, strategy = "range", isolation, waitMsMax = 500, autoCommit = true } = settings;
  const places = (assignment) => assignment.map(({ topic, partition }) => `${topic}/${partition}`);
  const consumer = kafka.consumer({
    kafkaJS: {
      groupId: group,
      fromBeginning: true,
      autoCommit,
      autoCommitInterval: 200,
      readUncommitted: isolation !== "committed",
      maxWaitTimeInMs: waitMsMax,
      heartbeatInterval: 500,
      sessionTimeout: 10_000,
      ...silent,
    },
    "partition.assignment.strategy": strategy,
    ...(instanceId && { "group.instance.id": instanceId }),
    rebalance_cb(error, assignment) {
      if (assignment.length === 0) return;
      if (error.code === CODES.ERRORS.ERR__ASSIGN_PARTITIONS) settings.onGained(places(assignment));
      else settings.onLost(places(assignment));
    },
  });
  await refusing(consumer.connect());
  await refusing(consumer.subscribe({ topics }));
  await consumer.run({
    eachBatch: async ({ batch }) => {
      const records = batch.messages.map((message) => ({ ...message, headers: headersOf(message.headers) }));
      settings.onRecords(batch.topic, batch.partition, records);
    },
  });
  return {
    library: consumer,
    seek: (topic, partition, offset) => consumer.seek({ topic, partition, offset: String(offset) }),
    commit: (topic, partition, offset, metadata) =>
      refusing(consumer.commitOffsets([{ topic, partition, offset: String(offset), metadata }])),
    close: () => consumer.disconnect(),
  };
}

/** Without headers it hands over none at all or an empty object, depending on the record. */
const headersOf = (headers) => headers ?? {};

/** librdkafka's own consumer, which can be assigned partitions. */
async function connectedConsumer(group) {
  const settings = { "bootstrap.servers": BOOTSTRAP, "group.id": group, "enable.auto.commit": false };
  const consumer = new KafkaConsumer(settings, { "auto.offset.reset": "error" });
  await promisify(consumer.connect.bind(consumer))({ timeout: DEADLINE_MS });
  return consumer;
}

const disconnected = (consumer) => promisify(consumer.disconnect.bind(consumer))();

async function readAssigned(topic, partitions, count, offset = 0) {
  const consumer = await connectedConsumer(fresh("unused"));
  consumer.setDefaultConsumeTimeout(500);
  try {
    consumer.assign(partitions.map((partition) => ({ topic, partition, offset })));
    const consume = promisify(consumer.consume.bind(consumer));
    const records = [];
    for (const deadline = Date.now() + DEADLINE_MS; records.length < count && Date.now() < deadline; ) {
      records.push(...(await consume(count - records.length)));
    }
    return records;
  } catch (error) {
    // librdkafka's own codes are negative; this one passes on what the broker said.
    const resets = error.code === CODES.ERRORS.ERR__AUTO_OFFSET_RESET;
    throw resets ? new Refused(Code.OFFSET_OUT_OF_RANGE, error.message) : refusal(error);
  } finally {
    await disconnected(consumer);
  }
}

async function commitUnjoined(group, topic, partition, offset) {
  const consumer = await connectedConsumer(group);
  try {
    consumer.commitSync([{ topic, partition, offset }]);
  } catch (error) {
    throw refusal(error);
  } finally {
    await disconnected(consumer);
  }
}

async function createTopic(topic, numPartitions, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const created = await refusing(admin.createTopics({ topics: [{ topic, numPartitions, configEntries }] }));
  // Of all refusals, this one is an answer.
  if (!created) throw new Refused(Code.TOPIC_ALREADY_EXISTS, "not created");
  const complete = async () => (await partitions(topic)).length === numPartitions;
  await waitUntil(complete, () => `all of ${topic} to have a leader`);
}

/** Those with a leader. */
async function partitions(topic) {
  const [described] = await refusing(admin.fetchTopicMetadata({ topics: [topic] }));
  const led = described.partitions.filter(({ leader }) => leader >= 0);
  return led.map(({ partitionId }) => partitionId).sort();
}

async function listOffsets(topic) {
  const isolationLevel = IsolationLevel.READ_UNCOMMITTED;
  const listed = await refusing(admin.fetchTopicOffsets(topic, { isolationLevel, timeout: DEADLINE_MS }));
  return new Map(listed.map(({ partition, low, high }) => [partition, [Number(low), Number(high)]]));
}

async function offsetAt(topic, partition, timeMs) {
  const listed = await refusing(admin.fetchTopicOffsetsByTimestamp(topic, timeMs));
  return Number(listed.find((entry) => entry.partition === partition).offset);
}

async function deleteRecords(topic, partition, before) {
  const asked = { topic, partitions: [{ partition, offset: String(before) }] };
  await refusing(admin.deleteTopicRecords(asked));
}

/** Only the call backs' admin client adds partitions. */
async function addPartitions(topic, total) {
  const client = AdminClient.create({ "bootstrap.servers": BOOTSTRAP });
  try {
    await refusing(promisify(client.createPartitions.bind(client))(topic, total, DEADLINE_MS));
  } finally {
    client.disconnect();
  }
}

async function describeGroup(group) {
  const { groups } = await refusing(admin.describeGroups([group]));
  const members = groups[0].members.map(({ clientHost, assignment }) => ({
    host: clientHost,
    partitions: assignment.topicPartitions.map(({ topic, partition }) => `${topic}/${partition}`).sort(),
  }));
  return { state: STATES[groups[0].state], members };
}

const STATES = Object.fromEntries(
  Object.entries(KafkaJS.ConsumerGroupStates).map(([name, state]) => [state, name[0] + name.slice(1).toLowerCase()]),
);

async function groupOffsets(group, topic) {
  const [found] = await refusing(admin.fetchOffsets({ groupId: group, topics: [topic] }));
  return new Map(
    found?.partitions.map(({ partition, offset, metadata }) => [partition, { offset: Number(offset), metadata }]),
  );
}

async function main() {
  await admin.connect();
  await runCases({
    name: "@confluentinc/kafka-javascript",
    version,
    codecs: ["none", "gzip", "snappy", "lz4", "zstd"],
    passesMessagesOn: true,
    // Its binding makes null of what is empty.
    sendsEmpty: false,
    eagerStrategy: "range",
    cooperativeStrategy: "cooperative-sticky",
    staticMembers: true,
    createTopic,
    deleteTopic: (topic) => refusing(admin.deleteTopics({ topics: [topic] })),
    topics: () => refusing(admin.listTopics()),
    partitions,
    addPartitions,
    openProducer,
    openTransactionalProducer,
    openConsumer,
    readAssigned,
    commitUnjoined,
    listOffsets,
    offsetAt,
    deleteRecords,
    groups: async () => (await refusing(admin.listGroups())).groups.map(({ groupId }) => groupId),
    describeGroup,
    deleteGroup: (group) => refusing(admin.deleteGroups([group])),
    groupOffsets,
    close: () => admin.disconnect(),
  });
}

main();
