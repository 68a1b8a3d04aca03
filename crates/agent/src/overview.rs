//! What an agent's counters say, read from its HTTP listener.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, Method, header};
use bytes::Bytes;
use serde_json::Value;

use crate::http_client::{Endpoint, HttpClient, Times};

/// How much a page of counters may be: some hundred components have less.
const PAGE_BYTES_MAX: usize = 4 << 20;

const TIMES: Times = Times { connect: Duration::from_secs(5), request: Duration::from_secs(5) };

/// The counters of an agent at a moment.
#[derive(Debug, Clone)]
pub struct Overview {
    /// When they were read.
    pub at: Instant,
    /// Each source, by name.
    pub sources: BTreeMap<String, Counters>,
    /// Each channel.
    pub channels: BTreeMap<String, Counters>,
    /// Each sink.
    pub sinks: BTreeMap<String, Counters>,
}

/// The counters of one component.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// When it began to count, in milliseconds since 1970.
    pub since_ms: u64,
    values: BTreeMap<String, u64>,
}

impl Counters {
    /// A counter, by the name that Flume has for it; `None` if this component does not have it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// The sum of some counters.
    pub fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.get(name)).fold(0, u64::saturating_add)
    }

    /// How many a second were counted since an earlier look at the same component.
    pub fn rate(&self, name: &str, before: Option<(&Counters, Duration)>) -> Option<f64> {
        let (before, time) = before.filter(|(before, _)| before.since_ms == self.since_ms)?;
        let more = self.get(name)?.checked_sub(before.get(name)?)?;
        (!time.is_zero()).then(|| more as f64 / time.as_secs_f64())
    }
}

impl Overview {
    /// Asks the agent whose counters are served at an address (`agent run --metrics`).
    ///
    /// # Errors
    ///
    /// Nobody answers there, or not with an agent's counters.
    pub async fn of(address: &str) -> io::Result<Overview> {
        let endpoint = Endpoint::parse(&format!("http://{address}/metrics"));
        let endpoint = endpoint.map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("'{address}' is not HOST:PORT"))
        })?;
        let mut client = HttpClient::plain(endpoint, TIMES).map_err(io::Error::other)?;
        let path = client.endpoint.path.clone();
        let accept = [(header::ACCEPT.as_str(), HeaderValue::from_static("application/json"))];
        let answer = client.call(Method::GET, &path, &accept, Bytes::new(), PAGE_BYTES_MAX).await?;
        if !(200..300).contains(&answer.status) {
            return Err(io::Error::other(format!("{path} answers with {}", answer.status)));
        }
        Overview::parse(&answer.text()).ok_or_else(|| {
            io::Error::other(format!("{address} does not serve an agent's counters"))
        })
    }

    fn parse(page: &str) -> Option<Overview> {
        let page: Value = serde_json::from_str(page).ok()?;
        let (mut sources, mut channels, mut sinks) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (key, fields) in page.as_object()? {
            let (role, name) = key.split_once('.')?;
            let part = match role {
                "SOURCE" => &mut sources,
                "CHANNEL" => &mut channels,
                "SINK" => &mut sinks,
                _ => continue,
            };
            let mut values = BTreeMap::new();
            for (counter, value) in fields.as_object()? {
                // Texts such as `Type` are no counters.
                if let Some(number) = value.as_str().and_then(|text| text.parse().ok()) {
                    values.insert(counter.clone(), number);
                }
            }
            let since_ms = values.get("StartTime").copied().unwrap_or(0);
            part.insert(name.to_owned(), Counters { since_ms, values });
        }
        Some(Overview { at: Instant::now(), sources, channels, sinks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_counters_is_read() {
        let page = |received: u32, since: u32| {
            let text = format!(
                r#"{{"SOURCE.r.1":{{"Type":"SOURCE","StartTime":"{since}","EventReceivedCount":"{received}"}},
                    "CHANNEL.c":{{"Type":"CHANNEL","StartTime":"5","ChannelFillPercentage":"1.5","ChannelSize":"7"}}}}"#
            );
            Overview::parse(&text).expect("is one")
        };
        let (first, second) = (page(10, 5), page(30, 5));
        let counters = &second.sources["r.1"];
        assert_eq!(counters.get("EventReceivedCount"), Some(30));
        assert_eq!(second.channels["c"].sum(&["ChannelSize", "Nothing"]), 7);
        let rate = |before: &Overview| {
            let before = (&before.sources["r.1"], Duration::from_secs(2));
            counters.rate("EventReceivedCount", Some(before))
        };
        assert_eq!(rate(&first), Some(10.0));
        assert_eq!(rate(&page(10, 6)), None, "it has begun anew");
        assert!(Overview::parse("[]").is_none() && Overview::parse("x").is_none());
    }
}
