//! Where a broker listens, as the user or a broker's metadata writes it.

use std::fmt;
use std::str::FromStr;

/// The port that `host` alone means: Kafka's.
pub const DEFAULT_PORT: u16 = 9092;

/// A host name or IP address with a port, written `host:port` or `[ipv6]:port`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerAddress {
    /// A name or an address; an IPv6 address stands here without its brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl BrokerAddress {
    /// An address of its parts.
    pub fn new(host: impl Into<String>, port: u16) -> BrokerAddress {
        BrokerAddress { host: host.into(), port }
    }

    /// Reads an address of a service that has another port where none is named.
    ///
    /// # Errors
    ///
    /// A text that is no address.
    pub fn parse_with_port(text: &str, default_port: u16) -> Result<BrokerAddress, InvalidAddress> {
        let invalid = |reason| InvalidAddress { text: text.to_owned(), reason };
        let (host, port) = split_port(text).map_err(invalid)?;
        let port = match port {
            None => default_port,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?,
        };
        if host.is_empty() {
            return Err(invalid("the host is missing"));
        }
        Ok(BrokerAddress::new(host, port))
    }

    /// Reads a list separated by commas; empty entries are skipped.
    ///
    /// # Errors
    ///
    /// The first entry that is not an address, or a list without any.
    pub fn parse_list(list: &str) -> Result<Vec<BrokerAddress>, InvalidAddress> {
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let addresses: Vec<BrokerAddress> = entries.map(str::parse).collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(InvalidAddress { text: list.to_owned(), reason: "it names no broker" });
        }
        Ok(addresses)
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A text that is not a [`BrokerAddress`], and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broker address '{text}' is invalid: {reason}")]
pub struct InvalidAddress {
    text: String,
    reason: &'static str,
}

impl FromStr for BrokerAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<BrokerAddress, InvalidAddress> {
        BrokerAddress::parse_with_port(text, DEFAULT_PORT)
    }
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or("the closing ']' is missing")?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err("only ':PORT' may follow the ']'"),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, port)) if port.contains(':') => {
            Err("an IPv6 address needs brackets, as in [::1]:9092")
        }
        Some((host, port)) => Ok((host, Some(port))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for (text, host, port, shown) in [
            ("a:1", "a", 1, "a:1"),
            ("127.0.0.1", "127.0.0.1", 9092, "127.0.0.1:9092"),
            ("[::1]:99", "::1", 99, "[::1]:99"),
            ("[::1]", "::1", 9092, "[::1]:9092"),
        ] {
            let address: BrokerAddress = text.parse().expect(text);
            assert_eq!(address, BrokerAddress::new(host, port));
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn bad_addresses_say_why() {
        for (text, reason) in [
            ("", "host is missing"),
            (":9092", "host is missing"),
            ("a:0", "port"),
            ("a:65536", "port"),
            ("a:x", "port"),
            ("::1", "brackets"),
            ("[::1", "closing"),
            ("[::1]x", "may follow"),
        ] {
            let error = text.parse::<BrokerAddress>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn lists_skip_blanks_but_need_one() {
        let list = BrokerAddress::parse_list(" a:1, ,b ").expect("two addresses");
        assert_eq!(list, [BrokerAddress::new("a", 1), BrokerAddress::new("b", 9092)]);
        assert!(BrokerAddress::parse_list(" , ").is_err());
    }
}
