"use strict";
// kafkajs, behind the calls that the shared cases make.

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const { version } = require("kafkajs/package.json");
const { runCases } = require("../javascript-cases/cases");
const { Code, Refused, refusal, refusing } = require("../javascript-cases/model");
const { waitUntil } = require("../javascript-cases/report");

// It has gzip of its own and takes others as plug-ins; those for LZ4 and Zstandard are native code that must be built.
CompressionCodecs[CompressionTypes.Snappy] = snappy;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
};
// ConfigSource of KIP-226.
const DEFAULT_CONFIG = 5;

const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP], logLevel: logLevel.NOTHING });
const admin = kafka.admin();

async function openProducer({ codec = "none", acks = -1, idempotent = false, createTopics = false }) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: 1, allowAutoTopicCreation: createTopics });
  await refusing(producer.connect());
  return {
    async send(topic, partition, records) {
      const messages = records.map((record) => ({ ...record, partition }));
      const [sent] = await refusing(producer.send({ topic, messages, acks, compression: CODECS[codec] }));
      return sent && Number(sent.baseOffset);
    },
    close: () => producer.disconnect(),
  };
}

async function openTransactionalProducer(transactionalId) {
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  await refusing(producer.connect());
  // It asks for its producer id with the first transaction, and fences others by that.
  let transaction = await refusing(producer.transaction());
  await refusing(transaction.abort());
  return {
    async begin() {
      transaction = await refusing(producer.transaction());
    },
    async send(topic, partition, records) {
      await refusing(transaction.send({ topic, messages: records.map((record) => ({ ...record, partition })) }));
    },
    async sendOffset(_consumer, group, topic, partition, offset) {
      const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }];
      await refusing(transaction.sendOffsets({ consumerGroupId: group, topics }));
    },
    commit: () => refusing(transaction.commit()),
    abort: () => refusing(transaction.abort()),
    close: () => producer.disconnect(),
  };
}

async function openConsumer(settings) {
  const { group, topics, isolation, waitMsMax = 500, autoCommit = true, onRecords, onGained, onLost, onError } = settings;
  const consumer = kafka.consumer({
    groupId: group,
    readUncommitted: isolation !== "committed",
    maxWaitTimeInMs: waitMsMax,
    heartbeatInterval: 500,
    sessionTimeout: 10_000,
  });
  let assigned = [];
  const lose = () => {
    if (assigned.length > 0) onLost(assigned);
    assigned = [];
  };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) => {
    lose();
    assigned = Object.entries(memberAssignment).flatMap(([topic, numbers]) => numbers.map((one) => `${topic}/${one}`));
    onGained(assigned);
  });
  consumer.on(consumer.events.REBALANCING, lose);
  // It joins again by itself after what may pass, such as a coordinator that is still loading.
  consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || onError(refusal(payload.error)));
  await refusing(consumer.connect());
  await refusing(consumer.subscribe({ topics, fromBeginning: true }));
  // If it commits of its own accord, then after every batch.
  await consumer.run({
    autoCommit,
    eachBatch: async ({ batch }) => onRecords(batch.topic, batch.partition, batch.messages),
  });
  return {
    seek: (topic, partition, offset) => consumer.seek({ topic, partition, offset: String(offset) }),
    commit: (topic, partition, offset, metadata) =>
      refusing(consumer.commitOffsets([{ topic, partition, offset: String(offset), metadata }])),
    close: () => consumer.disconnect(),
  };
}

async function createTopic(topic, numPartitions, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const created = await refusing(
    admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions, configEntries }] }),
  );
  // Of all refusals, this one is an answer.
  if (!created) throw new Refused(Code.TOPIC_ALREADY_EXISTS, "not created");
  // Its own wait for the leaders fails if it asks before the broker tells of the topic, as Kafka does only later.
  const complete = async () => (await partitions(topic)).length === numPartitions;
  await waitUntil(complete, () => `all of ${topic} to have a leader`);
}

/** Those with a leader; none if there is no such topic. */
async function partitions(topic) {
  try {
    const { topics } = await refusing(admin.fetchTopicMetadata({ topics: [topic] }));
    const led = topics[0].partitions.filter(({ leader }) => leader >= 0);
    return led.map(({ partitionId }) => partitionId).sort();
  } catch (error) {
    if (error.code !== Code.UNKNOWN_TOPIC_OR_PARTITION) throw error;
    return [];
  }
}

async function listOffsets(topic) {
  const listed = await refusing(admin.fetchTopicOffsets(topic));
  return new Map(listed.map(({ partition, low, high }) => [partition, [Number(low), Number(high)]]));
}

async function offsetAt(topic, partition, timeMs) {
  const listed = await refusing(admin.fetchTopicOffsetsByTimestamp(topic, timeMs));
  return Number(listed.find((entry) => entry.partition === partition).offset);
}

async function configsOf(type, name) {
  const { resources } = await refusing(admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name }] }));
  return resources[0].configEntries;
}

async function topicConfigs(topic) {
  const entries = await configsOf(ConfigResourceTypes.TOPIC, topic);
  return new Map(
    entries.map(({ configName, configValue, configSource }) => [configName, [configValue, configSource === DEFAULT_CONFIG]]),
  );
}

/** These become the topic's only settings: kafkajs knows the older AlterConfigs only. */
function setTopicConfigs(topic, configs) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }];
  return refusing(admin.alterConfigs({ validateOnly: false, resources }));
}

async function brokerConfigs(node) {
  const entries = await configsOf(ConfigResourceTypes.BROKER, String(node));
  return new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
}

async function cluster() {
  const { clusterId, brokers, controller } = await admin.describeCluster();
  return { id: clusterId, brokers: brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]), controller };
}

async function describeGroup(group) {
  const { AssignerProtocol } = require("kafkajs");
  const { groups } = await refusing(admin.describeGroups([group]));
  const members = groups[0].members.map(({ clientHost, memberAssignment }) => ({
    host: clientHost,
    partitions: Object.entries(AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment)
      .flatMap(([topic, numbers]) => numbers.map((number) => `${topic}/${number}`))
      .sort(),
  }));
  return { state: groups[0].state, members };
}

async function groupOffsets(group, topic) {
  const [found] = await refusing(admin.fetchOffsets({ groupId: group, topics: [topic] }));
  return new Map(
    found.partitions.map(({ partition, offset, metadata }) => [partition, { offset: Number(offset), metadata }]),
  );
}

/** It sets offsets as a member, and refuses to as long as another one is about to leave. */
async function setGroupOffset(groupId, topic, partition, offset) {
  await refusing(admin.setOffsets({ groupId, topic, partitions: [{ partition, offset: String(offset) }] }));
  await waitUntil(
    async () => (await admin.describeGroups([groupId])).groups[0].state === "Empty",
    () => "the group to be empty again",
  );
}

async function main() {
  await admin.connect();
  await runCases({
    name: "kafkajs",
    version,
    codecs: Object.keys(CODECS),
    // Its errors carry texts of its own.
    passesMessagesOn: false,
    sendsEmpty: true,
    eagerStrategy: "roundrobin",
    createTopic,
    deleteTopic: (topic) => refusing(admin.deleteTopics({ topics: [topic] })),
    topics: () => admin.listTopics(),
    partitions,
    addPartitions: (topic, count) => refusing(admin.createPartitions({ topicPartitions: [{ topic, count }] })),
    openProducer,
    openTransactionalProducer,
    openConsumer,
    listOffsets,
    offsetAt,
    topicConfigs,
    setTopicConfigs,
    brokerConfigs,
    cluster,
    deleteRecords: (topic, partition, before) =>
      refusing(admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })),
    groups: async () => (await refusing(admin.listGroups())).groups.map(({ groupId }) => groupId),
    describeGroup,
    deleteGroup: (group) => refusing(admin.deleteGroups([group])),
    groupOffsets,
    setGroupOffset,
    reassign: (topic, partition, replicas) =>
      refusing(
        admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition, replicas }] }] }),
      ),
    reassignments: async () => (await refusing(admin.listPartitionReassignments({}))).topics,
    close: () => admin.disconnect(),
  });
}

main();
