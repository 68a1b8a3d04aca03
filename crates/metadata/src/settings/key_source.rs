//! Where the public keys are of who signs tokens: `sasl.oauthbearer.jwks.endpoint.url` (KIP-768).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where a JSON Web Key Set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, by its absolute path: `file:///PATH`.
    File(PathBuf),
    /// On a server, which is asked again now and then.
    Server(KeyServer),
}

/// A server that is asked for a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServer {
    /// Whether it is asked by HTTPS.
    pub has_tls: bool,
    /// Its name or address; one of IPv6 has no brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it is asked for: path and query.
    pub target: String,
    /// `sasl.oauthbearer.jwks.endpoint.refresh.ms`: how often it is asked.
    pub refresh: Duration,
    /// `sasl.oauthbearer.jwks.endpoint.retry.backoff.ms`: how long after a failure it is asked again, at first.
    pub retry_min: Duration,
    /// `sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms`: the longest that becomes.
    pub retry_max: Duration,
    /// `ssl.truststore.location`: PEM files of authorities that are trusted beside those of the system.
    pub truststore: Vec<PathBuf>,
}

impl KeySource {
    /// Reads a URL; `None` if it is none of these. Times and authorities of a server are the caller's.
    pub(super) fn parse(url: &str) -> Option<KeySource> {
        let (scheme, rest) = url.split_once("://")?;
        let has_tls = match scheme {
            "file" => {
                let path = PathBuf::from(rest);
                return path.is_absolute().then_some(KeySource::File(path));
            }
            "https" => true,
            "http" => false,
            _ => return None,
        };
        // What else a request's first lines are made of must not come in by them.
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '@']) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, port) = host_and_port(authority, if has_tls { 443 } else { 80 })?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Some(KeySource::Server(KeyServer {
            has_tls,
            host: host.to_owned(),
            port,
            target: format!("{slash}{target}"),
            refresh: Duration::ZERO,
            retry_min: Duration::ZERO,
            retry_max: Duration::ZERO,
            truststore: Vec::new(),
        }))
    }
}

fn host_and_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(default), |port| port.parse().ok())?;
    (!host.is_empty()).then_some((host, port))
}

impl KeyServer {
    /// The host as it stands in a URL.
    pub fn url_host(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        }
    }
}

impl fmt::Display for KeyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.url_host(), self.port, self.target)
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "{}", path.display()),
            KeySource::Server(server) => write!(f, "{server}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_servers_are_told_apart() {
        for (url, expected) in [
            ("file:///etc/keys.json", Some("/etc/keys.json")),
            ("https://id.example", Some("https://id.example:443/")),
            (
                "https://id.example/realms/a/certs?x=1",
                Some("https://id.example:443/realms/a/certs?x=1"),
            ),
            ("https://id.example?x=1", Some("https://id.example:443/?x=1")),
            ("http://127.0.0.1:8080/keys", Some("http://127.0.0.1:8080/keys")),
            ("https://[::1]:8443/keys", Some("https://[::1]:8443/keys")),
            ("https://[::1]", Some("https://[::1]:443/")),
            ("file://etc/keys.json", None),
            ("ftp://id.example/keys", None),
            ("https://", None),
            ("https://:443/", None),
            ("https://id.example:port/", None),
            ("https://[::1]443/", None),
            ("https://user@id.example/", None),
            ("https://id.example/a b", None),
            ("https://id.example/\r\nX: y", None),
            ("/etc/keys.json", None),
            ("", None),
        ] {
            let parsed = KeySource::parse(url).map(|source| source.to_string());
            assert_eq!(parsed.as_deref(), expected, "{url}");
        }
    }
}
