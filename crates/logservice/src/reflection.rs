//! gRPC's reflection: what is served, as descriptors.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use prost::Message as _;
use prost_types::FileDescriptorProto;
use tokio::sync::mpsc;

use crate::call::Call;
use crate::grpc::inbound::{Inbound, decoded};
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::messages::descriptors::FILES;
use crate::messages::reflection::server_reflection_request::MessageRequest;
use crate::messages::reflection::server_reflection_response::MessageResponse;
use crate::messages::reflection::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};

/// What is served, by name.
pub(crate) const SERVICES: &[&str] = &[
    "logway.log.v1.LogService",
    "logspec.Log",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
];

pub(crate) async fn reflect(
    call: Arc<Call>,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    while let Some(received) = inbound.next().await? {
        let request: ServerReflectionRequest = decoded(received.bytes)?;
        let response = response(request);
        call.room(&replies).await?.send(call.unread.reply(framed(&response)));
    }
    Ok(())
}

fn response(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let message = match &request.message_request {
        Some(MessageRequest::ListServices(_)) => {
            let service =
                SERVICES.iter().map(|name| ServiceResponse { name: (*name).to_owned() }).collect();
            MessageResponse::ListServicesResponse(ListServiceResponse { service })
        }
        Some(MessageRequest::FileByFilename(name)) => file(FILES.iter().find(|(it, _)| it == name)),
        Some(MessageRequest::FileContainingSymbol(symbol)) => {
            file(FILES.iter().find(|(_, bytes)| has_symbol(bytes, symbol)))
        }
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
            let base_type_name = name.clone();
            let extension_number = Vec::new();
            MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
                base_type_name,
                extension_number,
            })
        }
        Some(MessageRequest::FileContainingExtension(_)) | None => file(None),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(message),
    }
}

fn file(found: Option<&(&str, &'static [u8])>) -> MessageResponse {
    match found {
        Some((_, bytes)) => {
            let file_descriptor_proto = vec![Bytes::from_static(bytes)];
            MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                file_descriptor_proto,
            })
        }
        None => MessageResponse::ErrorResponse(ErrorResponse {
            error_code: Code::NotFound as i32,
            error_message: "not found".to_owned(),
        }),
    }
}

/// Whether a file has a service, a method, a message or an enumeration of this full name.
fn has_symbol(file: &[u8], symbol: &str) -> bool {
    let Ok(file) = FileDescriptorProto::decode(file) else { return false };
    let prefix = format!("{}.", file.package());
    let Some(name) = symbol.strip_prefix(&prefix) else { return false };
    let mut parts = name.split('.');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let of_messages = file.message_type.iter().any(|message| {
        message.name() == first
            && second.is_none_or(|second| message.nested_type.iter().any(|it| it.name() == second))
    });
    let of_services = file.service.iter().any(|service| {
        service.name() == first
            && second.is_none_or(|second| service.method.iter().any(|it| it.name() == second))
    });
    of_messages || of_services || file.enum_type.iter().any(|it| it.name() == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_in_a_file_and_no_other_is() {
        for service in SERVICES {
            assert!(FILES.iter().any(|(_, file)| has_symbol(file, service)), "{service}");
        }
        for symbol in ["logway.log.v1.LogService.Append", "logspec.AppendReply.OK", "logspec.Entry"]
        {
            assert!(FILES.iter().any(|(_, file)| has_symbol(file, symbol)), "{symbol}");
        }
        for symbol in ["", "logspec", "logspec.Nothing", "logspec.Log.Nothing"] {
            assert!(!FILES.iter().any(|(_, file)| has_symbol(file, symbol)), "{symbol}");
        }
    }
}
