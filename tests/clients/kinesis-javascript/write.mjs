// node write.mjs ENDPOINT,… STREAM BATCH PAUSE_MS: puts numbers into a stream until its input ends, with the SDK's own retries.
// tests/cluster/kinesis_writers.py describes it.

import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { KinesisClient, PutRecordsCommand } from "@aws-sdk/client-kinesis";

const [endpoints, StreamName, batch, pauseMs] = process.argv.slice(2);
const clients = endpoints.split(",").map((endpoint) => new KinesisClient({ endpoint, region: "us-east-1" }));
const size = Number(batch);

let ended = false;
process.stdin.on("end", () => (ended = true)).resume();

let node = 0;
for (let number = 0; !ended; number += size) {
  const texts = [...Array(size).keys()].map((it) => `${number + it}`);
  const Records = texts.map((text) => ({ Data: new TextEncoder().encode(text), PartitionKey: text }));
  try {
    const answer = await clients[node % clients.length].send(new PutRecordsCommand({ StreamName, Records }));
    if (answer.FailedRecordCount > 0) node += 1;
    const acknowledged = answer.Records.flatMap(({ ErrorCode, ShardId, SequenceNumber }, it) =>
      ErrorCode ? [] : [`${ShardId} ${SequenceNumber} ${number + it}\n`],
    );
    if (!process.stdout.write(acknowledged.join(""))) await once(process.stdout, "drain");
    await setTimeout(Number(pauseMs));
  } catch (error) {
    console.error(`${error}`.replaceAll("\n", " "));
    node += 1;
  }
}
process.exit(0);
