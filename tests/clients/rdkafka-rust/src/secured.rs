//! Does what tests/security/clients/matrix.py asks for: see there for the lines in and out.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, stdin};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use crate::report::DEADLINE;

const RECORDS: usize = 10;
const NO_ADMIN: &str = "its AdminClient never asks for a token: the first record creates the topic, and none is deleted";
const TOKEN_LIFETIME: Duration = Duration::from_secs(300);

type Done = Result<(), Box<dyn Error>>;

/// What a task says by name; what is empty is not given.
type Fields = HashMap<String, String>;

pub fn run(version: &str) {
    println!("client\trdkafka\t{version}");
    for line in stdin().lock().lines().map_while(Result::ok) {
        let pairs = line.split('\t').filter_map(|field| field.split_once('='));
        let fields: Fields =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let name = fields["task"].clone();
        let task = Task { fields, told: Told::default() };
        match task.perform() {
            Ok(()) if task.uses_admin() => println!("{name}\tok"),
            Ok(()) => println!("{name}\tok\t{NO_ADMIN}"),
            Err(error) => {
                let mut said = vec![error.to_string()];
                said.append(&mut task.told.said.lock().expect("nobody panics while holding it"));
                let text = said.join(" | ");
                let words: Vec<_> = text.split_whitespace().collect();
                println!("{name}\terror\t{}", words.join(" "));
            }
        }
    }
}

struct Task {
    fields: Fields,
    told: Told,
}

impl Task {
    fn perform(&self) -> Done {
        let topic = self.fields.get("topic").map_or("", String::as_str);
        match self.fields["do"].as_str() {
            "connect" => self.connect(),
            "create" => self.create(topic),
            "write" => self.write(topic),
            "read" => self.read(topic, 1).map(drop),
            _ => {
                if self.uses_admin() {
                    self.create(topic)?;
                }
                self.write(topic)?;
                let read = self.read(topic, RECORDS)?;
                if read != numbers() {
                    return Err(format!("read {read:?}").into());
                }
                if self.uses_admin() { self.delete(topic) } else { Ok(()) }
            }
        }
    }

    fn uses_admin(&self) -> bool {
        !self.fields.contains_key("token")
    }

    /// Asks for the topics; why it may not is told to the context.
    fn connect(&self) -> Done {
        let consumer: BaseConsumer<Context> = self.client(&[])?;
        let began = Instant::now();
        while !self.told.is_refused() {
            consumer.poll(Duration::from_millis(100));
            if began.elapsed() > DEADLINE {
                return Err("it was told nothing".into());
            }
        }
        Err(KafkaError::Global(rdkafka::types::RDKafkaErrorCode::BrokerTransportFailure).into())
    }

    fn create(&self, topic: &str) -> Done {
        let admin: AdminClient<Context> = self.client(&[])?;
        let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
        let created = block_on(admin.create_topics([&new], &options()))?;
        for one in created {
            one.map_err(|(_, code)| KafkaError::AdminOp(code))?;
        }
        Ok(())
    }

    fn delete(&self, topic: &str) -> Done {
        let admin: AdminClient<Context> = self.client(&[])?;
        for one in block_on(admin.delete_topics(&[topic], &options()))? {
            one.map_err(|(_, code)| KafkaError::AdminOp(code))?;
        }
        Ok(())
    }

    fn write(&self, topic: &str) -> Done {
        let producer: BaseProducer<Context> = self.client(&[])?;
        for value in numbers() {
            producer
                .send(BaseRecord::<(), _>::to(topic).payload(&value))
                .map_err(|(error, _)| error)?;
        }
        producer.flush(DEADLINE)?;
        match self.told.failed.lock().expect("nobody panics while holding it").take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn read(&self, topic: &str, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
        let consumer: BaseConsumer<Context> =
            self.client(&[("group.id", topic), ("auto.offset.reset", "earliest")])?;
        consumer.subscribe(&[topic])?;
        let (began, mut values) = (Instant::now(), Vec::new());
        while values.len() < count {
            if began.elapsed() > DEADLINE {
                return Err(format!("{} records in time", values.len()).into());
            }
            if let Some(message) = consumer.poll(Duration::from_millis(200)) {
                let message = message?;
                values.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into());
            }
        }
        Ok(values)
    }

    fn client<T: FromClientConfigAndContext<Context>>(
        &self,
        more: &[(&str, &str)],
    ) -> Result<T, KafkaError> {
        let mut config = ClientConfig::new();
        let given = |name: &str| self.fields.get(name).map(String::as_str);
        let (sasl, tls) = (given("mechanism").is_some(), given("ca").is_some());
        let (first, second) =
            (if sasl { "SASL_" } else { "" }, if tls { "SSL" } else { "PLAINTEXT" });
        config.set("security.protocol", format!("{first}{second}"));
        for (setting, field) in [
            ("bootstrap.servers", "bootstrap"),
            ("ssl.ca.location", "ca"),
            ("ssl.certificate.location", "certificate"),
            ("ssl.key.location", "key"),
            ("sasl.mechanisms", "mechanism"),
            ("sasl.username", "user"),
            ("sasl.password", "password"),
        ] {
            if let Some(value) = given(field) {
                config.set(setting, value);
            }
        }
        for (name, value) in more {
            config.set(*name, *value);
        }
        let token = given("token").unwrap_or_default().to_owned();
        config.create_with_context(Context { token, told: self.told.clone() })
    }
}

fn numbers() -> Vec<String> {
    (0..RECORDS).map(|number| number.to_string()).collect()
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(DEADLINE)).operation_timeout(Some(DEADLINE))
}

/// What clients of a task are told beside the errors of their calls.
#[derive(Clone, Default)]
struct Told {
    said: Arc<Mutex<Vec<String>>>,
    failed: Arc<Mutex<Option<KafkaError>>>,
}

impl Told {
    fn is_refused(&self) -> bool {
        !self.said.lock().expect("nobody panics while holding it").is_empty()
    }
}

struct Context {
    token: String,
    told: Told,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn error(&self, _: KafkaError, reason: &str) {
        self.told.said.lock().expect("nobody panics while holding it").push(reason.to_owned());
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let end = SystemTime::now().duration_since(UNIX_EPOCH)? + TOKEN_LIFETIME;
        Ok(OAuthToken {
            token: self.token.clone(),
            principal_name: "alice".into(),
            lifetime_ms: i64::try_from(end.as_millis())?,
        })
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            self.told
                .failed
                .lock()
                .expect("nobody panics while holding it")
                .get_or_insert(error.clone());
        }
    }
}
