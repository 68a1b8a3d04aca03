// The stubs of the log service.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../../crates/logservice/proto", import.meta.url));
const definition = loader.loadSync("logway/log/v1/log.proto", { includeDirs: [protos], longs: Number, defaults: true });
export const { LogService } = grpc.loadPackageDefinition(definition).logway.log.v1;
