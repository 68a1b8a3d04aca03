//! The stubs of the log service.

tonic::include_proto!("logway.log.v1");
