//! The interceptor `host`.

use std::net::{IpAddr, UdpSocket};

use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{StartError, because};
use crate::settings::Settings;

pub(crate) const HOST: Declaration = Declaration {
    role: Role::Interceptor,
    name: "host",
    aliases: &["org.apache.flume.interceptor.HostInterceptor$Builder"],
    doc: "Sets a header to this machine's address or name.",
    keys: &[
        key("hostHeader", Kind::Text, Fallback::Is("host"), "The header."),
        key("useIP", Kind::Flag, Fallback::Is("true"), "The IP address, and not the name."),
        key(
            "preserveExisting",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header that is there stays.",
        ),
    ],
    shared: &[],
};

/// A header about this machine, found out once.
#[derive(Debug)]
pub(crate) struct HostHeader {
    pub(super) header: String,
    pub(super) value: String,
    pub(super) preserves: bool,
}

impl HostHeader {
    pub(super) fn new(settings: &Settings) -> Result<HostHeader, StartError> {
        let value = match settings.flag("useIP") {
            true => {
                own_address().map_err(because("this machine's address is not known"))?.to_string()
            }
            false => own_name(),
        };
        let header = settings.required("hostHeader").to_owned();
        Ok(HostHeader { header, value, preserves: settings.flag("preserveExisting") })
    }
}

/// What this machine is called.
pub(crate) fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The address from which this machine would send to others; loopback if it reaches none. Nothing is sent.
pub(crate) fn own_address() -> std::io::Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    match socket.connect("192.0.2.1:9") {
        Ok(()) => Ok(socket.local_addr()?.ip()),
        Err(_) => Ok(IpAddr::from([127, 0, 0, 1])),
    }
}
