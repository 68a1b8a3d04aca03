#!/usr/bin/env bash
# Generates the stubs and builds the programs; prints the directory where they are.
set -euo pipefail
cd "$(dirname "$0")"
tests=$(cd ../.. && pwd)
work=$tests/.work/logservice/go
protos=$tests/../crates/logservice/proto
mkdir -p "$work/bin"
cp -r go.mod go.sum ./*.go tail "$work"
cd "$work"
for tool in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
  go build -o "bin/$(basename "$tool")" "$tool"
done
python=$("$tests/harness/need" python)
module=logway.io/logservice
PATH="$work/bin:$PATH" "$python" -m grpc_tools.protoc -I "$protos" --go_out=. --go-grpc_out=. \
  --go_opt=module=$module,Mlogway/log/v1/log.proto=$module/logpb,Mlogspec/log.proto=$module/specpb \
  --go-grpc_opt=module=$module,Mlogway/log/v1/log.proto=$module/logpb,Mlogspec/log.proto=$module/specpb \
  logway/log/v1/log.proto logspec/log.proto
go vet . ./tail
go build -o bin/client .
go build -o bin/tail ./tail
echo "$work/bin"
