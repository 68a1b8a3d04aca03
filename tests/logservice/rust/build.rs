//! Makes the stubs out of the proto file of the log service.

use std::error::Error;

const PROTOS: &str = "../../../crates/logservice/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTOS}");
    let files = protox::compile(["logway/log/v1/log.proto"], [PROTOS])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
