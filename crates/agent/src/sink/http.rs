//! The sink `http`: a POST for each event.

use axum::http::{HeaderValue, Method, header};

use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::http_client::{CONNECT_TIMEOUT, Endpoint, HttpClient, Version};
use crate::settings::Settings;
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "http",
    aliases: &["org.apache.flume.sink.http.HttpSink"],
    doc: "Sends the body of each event by POST. What an answer means is told by its status: whether the event goes back \
          into the channel (`rollback`), to be sent again after a pause that grows. One that does not, and is no success \
          either (`incrementMetrics`), goes to the sink's dead-letter channel, or is dropped with a line and a count.",
    keys: &[
        key(
            "endpoint",
            Kind::Address,
            Fallback::Required,
            "Where to, as `http://HOST:PORT/PATH` or `https://HOST:PORT/PATH`.",
        ),
        CONNECT_TIMEOUT,
        key(
            "requestTimeout",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("5000"),
            "How long an answer may take.",
        ),
        key(
            "contentTypeHeader",
            Kind::Text,
            Fallback::Is("text/plain"),
            "The content type of bodies.",
        ),
        key(
            "acceptHeader",
            Kind::Text,
            Fallback::Is("text/plain"),
            "The content type of answers that are taken.",
        ),
        key(
            "defaultBackoff",
            Kind::Ignored("what failed is tried again after a pause that grows"),
            Fallback::Nothing,
            "Whether Flume waits after any other status.",
        ),
        key(
            "defaultRollback",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether an event goes back after any other status.",
        ),
        key(
            "defaultIncrementMetrics",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether such a status counts as success.",
        ),
        key(
            "backoff.*",
            Kind::Ignored("see defaultBackoff"),
            Fallback::Nothing,
            "The same of one status.",
        ),
        key(
            "rollback.*",
            Kind::Flag,
            Fallback::Nothing,
            "`rollback.503`, or `rollback.5XX`: the same of some.",
        ),
        key("incrementMetrics.*", Kind::Flag, Fallback::Nothing, "The same."),
        key(
            "batchSize",
            Kind::Only(&["1"], "each event is a request of its own"),
            Fallback::Is("1"),
            "How many events are taken at once.",
        ),
    ],
    shared: &[tls::OF_HTTPS],
};

/// Of an answer its status is all that counts.
const ANSWER_BYTES_MAX: usize = 64 << 10;

struct HttpSink {
    settings: Settings,
    client: HttpClient,
    /// Of bodies, and of answers that are taken.
    headers: [(&'static str, HeaderValue); 2],
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let SinkContext { settings, counters } = context;
    let endpoint = Endpoint::parse(settings.required("endpoint").trim())?;
    let value = |key: &str| {
        let value = HeaderValue::from_str(settings.required(key));
        value.map_err(|_| format!("{key} has a character that a header cannot have"))
    };
    let headers = [
        (header::CONTENT_TYPE.as_str(), value("contentTypeHeader")?),
        (header::ACCEPT.as_str(), value("acceptHeader")?),
    ];
    let client = HttpClient::new(&settings, endpoint, Version::Http1, Some(counters))?;
    Ok(Box::new(HttpSink { settings, client, headers }))
}

impl HttpSink {
    /// What is said of a status, most exactly first.
    fn rule(&self, word: &str, fallback: &str, status: u16) -> bool {
        let group = format!("{word}.{}XX", status / 100);
        let said = [format!("{word}.{status}"), group.clone(), group.to_lowercase()];
        let said = said.iter().find(|key| self.settings.is_set(key));
        said.map_or_else(|| self.settings.flag(fallback), |key| self.settings.is(key, "true"))
    }

    async fn send_all(&mut self, batch: &Taken) -> Result<(), SinkError> {
        for (index, event) in batch.events.iter().enumerate() {
            let (client, headers) = (&mut self.client, &self.headers);
            let path = client.endpoint.path.clone();
            let answered =
                client.call(Method::POST, &path, headers, event.body.clone(), ANSWER_BYTES_MAX);
            let answered = answered.await.map_err(|error| {
                SinkError::later(format_args!("{}: {error}", self.client.endpoint))
            })?;
            let status = answered.status;
            if status == 200 {
                continue;
            }
            let reason = format!("{} answered {status}", self.client.endpoint);
            if self.rule("rollback", "defaultRollback", status) {
                return Err(SinkError::Later(reason));
            }
            if !self.rule("incrementMetrics", "defaultIncrementMetrics", status) {
                return Err(SinkError::Unwanted { index, reason });
            }
        }
        Ok(())
    }
}

impl Sink for HttpSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.send_all(batch))
    }
}
