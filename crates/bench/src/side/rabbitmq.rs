//! RabbitMQ: one node of Debian's package, with the arguments of its own start script.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::fetch::{DebianPeer, cache_directory};
use super::{Launch, free_address};
use crate::files::write_file;
use crate::peer::Amqp;

const RABBITMQ: DebianPeer = DebianPeer {
    name: "rabbitmq",
    packages: &[
        "rabbitmq-server",
        "erlang-asn1",
        "erlang-base",
        "erlang-crypto",
        "erlang-eldap",
        "erlang-inets",
        "erlang-mnesia",
        "erlang-os-mon",
        "erlang-parsetools",
        "erlang-public-key",
        "erlang-runtime-tools",
        "erlang-ssl",
        "erlang-syntax-tools",
        "erlang-tools",
        "erlang-xmerl",
    ],
};

/// What RabbitMQ's start script gives Erlang.
const ERLANG_OPTIONS: &str = "-noinput -s rabbit boot -boot start_sasl +W w \
+MBas ageffcbf +MHas ageffcbf +MBlmbcs 512 +MHlmbcs 512 +MMmcs 30 \
+P 1048576 +t 5000000 +stbt db +zdbbl 128000 +sbwt none +sbwtdcpu none +sbwtdio none \
-syslog logger [] -syslog syslog_error_logger false -kernel prevent_overlapping_partitions false \
-kernel inet_dist_use_interface {127,0,0,1}";

pub(super) fn launch(directory: &Path) -> anyhow::Result<Launch> {
    let root = RABBITMQ.need(&cache_directory()?)?;
    let erlang = root.join("usr/lib/erlang");
    let runtime = child(&erlang, "erts-")?;
    let server = child(&root.join("usr/lib/rabbitmq/lib"), "rabbitmq_server-")?;
    let (address, names, distribution) = (free_address()?, free_address()?, free_address()?);

    let settings = vec![
        format!("listeners.tcp.1 = {address}"),
        // The rest is for those who look into the log.
        "log.console = true".to_owned(),
        "log.console.level = warning".to_owned(),
        "log.file = false".to_owned(),
    ];
    let config_path = directory.join("rabbitmq.conf");
    write_file(&config_path, settings.join("\n") + "\n")?;

    let path = |path: &Path| path.display().to_string();
    let name_server =
        [("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()), ("ERL_EPMD_PORT", names.port.to_string())];
    let broker = [
        // Erlang keeps its cookie there.
        ("HOME", path(directory)),
        ("LANG", "C.UTF-8".to_owned()),
        // What `erl` sets: its script has the place where the package would be installed.
        ("ROOTDIR", path(&erlang)),
        ("BINDIR", path(&runtime.join("bin"))),
        ("EMU", "beam".to_owned()),
        ("PROGNAME", "erl".to_owned()),
        ("ERL_LIBS", path(&server.join("plugins"))),
        ("RABBITMQ_HOME", path(&server)),
        ("RABBITMQ_NODENAME", format!("bench-{}@localhost", address.port)),
        ("RABBITMQ_MNESIA_BASE", path(&directory.join("data"))),
        ("RABBITMQ_CONFIG_FILE", path(&config_path)),
        ("RABBITMQ_CONF_ENV_FILE", path(&directory.join("none"))),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", path(&directory.join("plugins"))),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_DIST_PORT", distribution.port.to_string()),
    ];
    let program = |name: &str| vec![path(&runtime.join("bin").join(name))];
    let mut erlang = program("erlexec");
    erlang.extend(ERLANG_OPTIONS.split(' ').map(str::to_owned));
    let version = server.file_name().map(|name| name.to_string_lossy().into_owned());
    let version = version.unwrap_or_default().replace("rabbitmq_server-", "");
    Ok(Launch {
        command: with_variables(name_server.iter().chain(&broker), erlang),
        // Erlang's name server. The broker would start one that stays.
        companion: Some(with_variables(&name_server, program("epmd"))),
        settings,
        address,
        version: format!("RabbitMQ {version}, Debian's package"),
        peer: Some(&Amqp),
        ..Launch::default()
    })
}

/// The same command with some variables set, as one that shows them.
fn with_variables<'a>(
    variables: impl IntoIterator<Item = &'a (&'static str, String)>,
    command: Vec<String>,
) -> Vec<String> {
    let mut whole = vec!["env".to_owned()];
    whole.extend(variables.into_iter().map(|(name, value)| format!("{name}={value}")));
    whole.extend(command);
    whole
}

/// The entry of a directory whose name begins so; it goes on with a version.
fn child(directory: &Path, beginning: &str) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
    };
    paths.find(is_it).with_context(|| format!("no {beginning}… in {}", directory.display()))
}
