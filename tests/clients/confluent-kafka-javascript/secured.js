"use strict";
// @confluentinc/kafka-javascript where TLS and passwords are asked for.

const { KafkaJS } = require("@confluentinc/kafka-javascript");
const { version } = require("@confluentinc/kafka-javascript/package.json");
const { DEADLINE_MS: timeout, readWith, runTasks } = require("../javascript-cases/secured");

function open(task, said) {
  let fail = () => {};
  const log = (message) => {
    said.push(message);
    fail(new Error(message));
  };
  const logger = { info() {}, debug() {}, warn: log, error: log, namespace: () => logger, setLogLevel() {} };
  const kafka = new KafkaJS.Kafka({
    kafkaJS: {
      brokers: [task.bootstrap],
      ssl: Boolean(task.ca),
      ...(task.mechanism && { sasl: sasl(task) }),
      logger,
      logLevel: KafkaJS.logLevel.ERROR,
    },
    ...(task.ca && { "ssl.ca.location": task.ca }),
    ...(task.certificate && { "ssl.certificate.location": task.certificate, "ssl.key.location": task.key }),
  });
  const administer = (use) =>
    using(kafka.admin(), async (admin) => {
      // Only a question about topics has its admin client ask for the token.
      if (task.token) await admin.listTopics();
      return use(admin);
    });
  return {
    connect: () =>
      new Promise((resolve, reject) => {
        // Its log tells first.
        fail = reject;
        administer((admin) => admin.listTopics()).then(resolve, reject);
      }),
    create: (topic) => administer((admin) => admin.createTopics({ timeout, topics: [{ topic, numPartitions: 1 }] })),
    remove: (topic) => administer((admin) => admin.deleteTopics({ timeout, topics: [topic] })),
    write: (topic, values) =>
      using(kafka.producer(), (producer) => producer.send({ topic, messages: values.map((value) => ({ value })) })),
    read: (topic, groupId, count) => {
      const consumer = kafka.consumer({ kafkaJS: { groupId, fromBeginning: true } });
      return readWith(consumer, count, async (eachMessage, reject) => {
        // Of what goes wrong later only its log tells; it tries again for ever.
        fail = reject;
        await consumer.connect();
        await consumer.subscribe({ topics: [topic] });
        await consumer.run({ eachMessage });
      });
    },
  };
}

function sasl({ mechanism, user, password, token }) {
  const lifetime = Date.now() + 300_000;
  if (token) {
    const value = { value: token, lifetime, principal: "alice" };
    return { mechanism: "oauthbearer", oauthBearerProvider: async () => value };
  }
  return { mechanism: mechanism.toLowerCase(), username: user, password };
}

async function using(client, use) {
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.disconnect();
  }
}

runTasks("@confluentinc/kafka-javascript", version, open);
