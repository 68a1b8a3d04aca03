//! The settings that each listener may have of its own: `listener.name.NAME.SETTING` beats `SETTING`.

use super::definition::{Kind, Setting};

const ONLY_PEM: &str =
    "keys and certificates are PEM files here; `openssl pkcs12 -in STORE -nodes` writes one";

/// They are given with a start, like all that a listener is made of. Files that they name are read anew when
/// they change.
pub(super) static LISTENER_SETTINGS: &[Setting] = &[
    Setting::at_start(
        "connection.failed.authentication.delay.ms",
        Kind::int(0),
        Some("100"),
        "ms",
        "A client that could not say who it is learns so this long after its last word.",
    ),
    Setting::at_start(
        "connections.max.reauth.ms",
        Kind::long(0),
        Some("0"),
        "ms",
        "How long a client is known that has said who it is by SASL; then it has to say it again, on the \
         same connection (KIP-368). 0 is for ever.",
    ),
    Setting::at_start(
        "sasl.enabled.mechanisms",
        Kind::Words(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]),
        Some("SCRAM-SHA-256,SCRAM-SHA-512"),
        "",
        "How clients can say who they are, on listeners with SASL. Passwords are those of \
         `logway user create`, for each mechanism. Kafka's own default is GSSAPI, which there is not.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.clock.skew.seconds",
        Kind::int(0),
        Some("30"),
        "s",
        "How far the clock of who signs tokens may be from this one's.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.expected.audience",
        Kind::Texts,
        Some(""),
        "",
        "For whom tokens have to be: one of these. Where it is not set, for anybody.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.expected.issuer",
        Kind::Text,
        None,
        "",
        "Who has to have issued tokens. Where it is not set, anybody whose key is known.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind::long(1_000),
        Some("3600000"),
        "ms",
        "How often a server is asked for the public keys of who signs tokens.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Kind::long(1),
        Some("10000"),
        "ms",
        "The longest time between two tries to get these keys while they fail. A start tries for so long.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Kind::long(1),
        Some("100"),
        "ms",
        "The time between the first failure to get these keys and the next try. It doubles with each.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.jwks.endpoint.url",
        Kind::Text,
        None,
        "",
        "Where the public keys are of who signs tokens, a JSON Web Key Set: `https://HOST/PATH`, or `file:///PATH`, which is \
         read anew when it changes. A server has a certificate of an authority of the system or of \
         `ssl.truststore.location`. It is asked again when a token names another key, every ten seconds at most. \
         OAUTHBEARER needs it.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.scope.claim.name",
        Kind::Text,
        Some("scope"),
        "",
        "The claim with a token's scope.",
    ),
    Setting::at_start(
        "sasl.oauthbearer.sub.claim.name",
        Kind::Text,
        Some("sub"),
        "",
        "The claim that says whose a token is: the user.",
    ),
    Setting::at_start(
        "sasl.server.max.receive.size",
        Kind::Int { min: 1_024, max: 1 << 20, special: None },
        Some("16384"),
        "bytes",
        "The largest request that is read of a client that has not said who it is; Kafka's own default is \
         524288.",
    ),
    Setting::at_start(
        "ssl.client.auth",
        Kind::Word(&["none", "requested", "required"]),
        Some("none"),
        "",
        "Whether clients show certificates, of an authority in `ssl.truststore.location`: not, if they have \
         one, or each of them.",
    ),
    Setting::at_start(
        "ssl.enabled.protocols",
        Kind::Words(&["TLSv1.2", "TLSv1.3"]),
        Some("TLSv1.2,TLSv1.3"),
        "",
        "The versions of TLS that clients may speak.",
    ),
    Setting::at_start(
        "ssl.keystore.location",
        Kind::Paths,
        None,
        "",
        "A PEM file with the private key and the chain of its certificates, the key's own first; or several \
         files that have these together. They are read anew when they change.",
    ),
    Setting::at_start(
        "ssl.keystore.type",
        Kind::Word(&["PEM", "JKS", "PKCS12"]),
        Some("PEM"),
        "",
        "What `ssl.keystore.location` is; Kafka's own default is JKS.",
    )
    .default_only(ONLY_PEM),
    Setting::at_start(
        "ssl.principal.mapping.rules",
        Kind::Text,
        Some("DEFAULT"),
        "",
        "Makes users' names of the subjects of certificates: `RULE:pattern/replacement/L`, with `U` or `L` for \
         capitals or small letters, or `DEFAULT` for the subject as it is; the first rule that fits counts.",
    ),
    Setting::at_start(
        "ssl.truststore.location",
        Kind::Paths,
        None,
        "",
        "PEM files with the authorities whose certificates clients may show. They are read anew when they change.",
    ),
    Setting::at_start(
        "ssl.truststore.type",
        Kind::Word(&["PEM", "JKS", "PKCS12"]),
        Some("PEM"),
        "",
        "What `ssl.truststore.location` is; Kafka's own default is JKS.",
    )
    .default_only(ONLY_PEM),
];
