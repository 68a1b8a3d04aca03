// Prints a log as it grows: tail.js HOST:PORT LOG
import grpc from "@grpc/grpc-js";
import { LogService } from "./service.js";

const [address, log] = process.argv.slice(2);
const service = new LogService(address, grpc.credentials.createInsecure());
for await (const { records } of service.read({ log, end: true })) {
  for (const { offset, value } of records) {
    console.log(`${offset} ${value}`);
  }
}
