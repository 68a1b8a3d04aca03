//! Prints a log as it grows: `tail HOST:PORT LOG`.

use logway_logservice_suite::{ReadRequest, log_service_client::LogServiceClient, read_request::From};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [address, log] = std::array::from_fn(|at| std::env::args().nth(at + 1).expect("HOST:PORT LOG"));
    let mut service = LogServiceClient::connect(format!("http://{address}")).await?;
    let request = ReadRequest { log, from: Some(From::End(true)), ..ReadRequest::default() };
    let mut replies = service.read(request).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        for record in reply.records {
            println!("{} {}", record.offset, String::from_utf8_lossy(record.value()));
        }
    }
    Ok(())
}
