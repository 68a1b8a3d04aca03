"use strict";
// A member of a group that keeps what it reads, by topic and partition, and what happened to it.

const { waitUntil } = require("./report");

class Reader {
  /** Settings: group, topics, instanceId, strategy, isolation, waitMsMax, autoCommit. */
  static async open(client, settings) {
    const reader = new Reader();
    reader.consumer = await client.openConsumer({
      ...settings,
      onRecords: (topic, partition, records) => reader.#keep(topic, partition, records),
      onGained: (partitions) => {
        reader.gained.push(partitions);
        for (const partition of partitions) reader.assigned.add(partition);
      },
      onLost: (partitions) => {
        reader.lost.push(partitions);
        for (const partition of partitions) reader.assigned.delete(partition);
      },
      onError: (error) => {
        reader.error ??= error;
      },
    });
    return reader;
  }

  constructor() {
    this.records = new Map();
    this.count = 0;
    // Each partition as `topic/number`.
    this.assigned = new Set();
    this.gained = [];
    this.lost = [];
    this.error = null;
  }

  of(topic, partition = 0) {
    return this.records.get(`${topic}/${partition}`) ?? [];
  }

  async until(condition, what, deadlineMs) {
    const holds = () => {
      if (this.error) throw new Error(`the member failed: ${this.error.message}`, { cause: this.error });
      return condition();
    };
    await waitUntil(holds, () => `${what}; ${this.count} records from ${[...this.assigned]}`, deadlineMs);
  }

  async untilAssigned(count) {
    await this.until(() => this.assigned.size === count, `${count} partitions`);
  }

  /** Exactly the first records of a partition that has been read from its start. */
  async first(topic, count, partition = 0) {
    await this.until(() => this.of(topic, partition).length >= count, `${count} records of ${topic}`);
    return this.of(topic, partition);
  }

  /** The next record that is read once the position has been moved. */
  async nextAt(topic, partition, offset) {
    const read = this.of(topic, partition).length;
    await this.consumer.seek(topic, partition, offset);
    // What was under way when the position moved may still arrive before it.
    const found = () => this.of(topic, partition).slice(read).find((record) => Number(record.offset) === offset);
    await this.until(found, `the record at ${offset}`);
    return found();
  }

  async close() {
    await this.consumer.close();
  }

  #keep(topic, partition, records) {
    const place = `${topic}/${partition}`;
    if (!this.records.has(place)) this.records.set(place, []);
    this.records.get(place).push(...records);
    this.count += records.length;
  }
}

module.exports = { Reader };
