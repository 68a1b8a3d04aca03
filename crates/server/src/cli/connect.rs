//! Which brokers to talk to, and as whom.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use logway_client::cli::GLOBAL_OPTIONS;
use logway_client::{BrokerAddress, Client, ClientOptions, ConnectionOptions, Password, Security};
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_metadata::settings::parse_config_file;
use logway_security::tls::client_config;

use super::GlobalArgs;
use super::delay;
use super::error::CliError;

/// Where profiles are, below the user's folder of settings.
const PROFILES_FILE: &str = "logway/config.toml";

const PASSWORD_VARIABLE: &str = "LOGWAY_PASSWORD";

/// How connections are encrypted, and who the caller is. What is not given here is taken from the profile.
#[derive(Debug, Args)]
pub(super) struct SecurityArgs {
    /// The section of ~/.config/logway/config.toml to take brokers, certificates and user from
    #[arg(long, global = true, env = "LOGWAY_PROFILE", value_name = "NAME", help_heading = GLOBAL_OPTIONS)]
    profile: Option<String>,
    /// The file of profiles [default: ~/.config/logway/config.toml]
    #[arg(long, global = true, env = "LOGWAY_PROFILE_FILE", value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    profile_file: Option<PathBuf>,
    /// Encrypt, and trust the authorities of the system
    #[arg(long, global = true, env = "LOGWAY_TLS", help_heading = GLOBAL_OPTIONS)]
    tls: bool,
    /// Encrypt, and trust the authorities in this PEM file
    #[arg(long, global = true, env = "LOGWAY_TLS_CA", value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    tls_ca: Option<PathBuf>,
    /// A PEM file with a key and its certificates, to show to brokers
    #[arg(long, global = true, env = "LOGWAY_TLS_CERT", value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    tls_cert: Option<PathBuf>,
    /// The user to log in as; the password is in LOGWAY_PASSWORD or the profile
    #[arg(long = "user", global = true, env = "LOGWAY_USER", value_name = "NAME", help_heading = GLOBAL_OPTIONS)]
    as_user: Option<String>,
    /// Log in with a delegation token: the user is its id, and the password its HMAC in Base64
    #[arg(long, global = true, env = "LOGWAY_TOKEN_AUTH", help_heading = GLOBAL_OPTIONS)]
    token_auth: bool,
    /// How to log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, or OAUTHBEARER with a token for a password [default: SCRAM-SHA-512]
    #[arg(long, global = true, env = "LOGWAY_MECHANISM", value_name = "NAME", value_parser = parse_mechanism, help_heading = GLOBAL_OPTIONS)]
    mechanism: Option<SaslMechanism>,
}

fn parse_mechanism(text: &str) -> Result<SaslMechanism, String> {
    text.parse()
        .map_err(|()| "expected SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER".to_owned())
}

impl GlobalArgs {
    /// A client of the cluster; connects when it is first used.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let profile = Profile::of(self.security.profile.as_deref(), &self.security.profile_file)?;
        let addresses = match profile.get("brokers") {
            Some(brokers) if !self.brokers.are_given() => BrokerAddress::parse_list(brokers)
                .map_err(|error| CliError::Usage(format!("{error} (from the profile)")))?,
            _ => self.brokers.addresses().map_err(CliError::Usage)?,
        };
        let connection = self.connection_of(&profile)?;
        let on_delay = delay::observer();
        let options = ClientOptions { on_delay, connection, ..ClientOptions::default() };
        Ok(Client::new(addresses, options))
    }

    /// How to connect, and as whom.
    pub(super) fn connection(&self) -> Result<ConnectionOptions, CliError> {
        self.connection_of(&Profile::of(
            self.security.profile.as_deref(),
            &self.security.profile_file,
        )?)
    }

    fn connection_of(&self, profile: &Profile) -> Result<ConnectionOptions, CliError> {
        let security = self.security.security(profile)?;
        Ok(ConnectionOptions { security, ..ConnectionOptions::default() })
    }
}

impl SecurityArgs {
    fn security(&self, profile: &Profile) -> Result<Security, CliError> {
        let file = |given: &Option<PathBuf>, name| {
            given.clone().or_else(|| profile.get(name).map(PathBuf::from))
        };
        let authority = file(&self.tls_ca, "tls-ca");
        let identity = file(&self.tls_cert, "tls-cert");
        let has_tls = self.tls || profile.get("tls") == Some("true");
        let has_tls = has_tls || authority.is_some() || identity.is_some();
        let (authority, identity) = (Vec::from_iter(authority), Vec::from_iter(identity));
        let config = || client_config(&authority, &identity, SystemTime::now());
        let tls = has_tls.then(config).transpose();
        let tls = tls.map_err(|error| CliError::Usage(error.to_string()))?;
        let user = self.as_user.clone().or_else(|| profile.get("user").map(str::to_owned));
        let Some(user) = user else { return Ok(Security { tls, password: None }) };
        let password = env::var(PASSWORD_VARIABLE).ok();
        let password = password.or_else(|| profile.get("password").map(str::to_owned));
        let password = password.ok_or_else(|| {
            let message = format!("there is no password for user '{user}'");
            let hint = "put it into LOGWAY_PASSWORD, or as password into the profile";
            CliError::Usage(message).with_hint(hint)
        })?;
        let of_profile = profile.get("mechanism").map(parse_mechanism).transpose();
        let of_profile = of_profile.map_err(CliError::Usage)?;
        let mechanism = self.mechanism.or(of_profile);
        let mechanism = mechanism.unwrap_or(SaslMechanism::Scram(ScramMechanism::Sha512));
        let is_delegation_token = self.token_auth || profile.get("token-auth") == Some("true");
        let password = Password { mechanism, user, password, is_delegation_token };
        Ok(Security { tls, password: Some(password) })
    }
}

/// One section of the file of profiles, or nothing.
#[derive(Debug, Default)]
struct Profile(Vec<(String, String)>);

impl Profile {
    fn of(name: Option<&str>, file: &Option<PathBuf>) -> Result<Profile, CliError> {
        let Some(name) = name else { return Ok(Profile::default()) };
        let path = file.clone().or_else(path).ok_or_else(|| {
            CliError::Usage("there is no folder of settings: HOME is not set".to_owned())
        })?;
        let text = fs::read_to_string(&path);
        let what = format!("read the profiles in {}", path.display());
        let text = text.map_err(|source| CliError::Io { what, source })?;
        Profile::parse(name, &text, &path)
    }

    fn parse(name: &str, text: &str, path: &Path) -> Result<Profile, CliError> {
        let all = parse_config_file(text)
            .map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
        let prefix = format!("{name}.");
        let own = all.into_iter().filter_map(|(setting, value)| {
            Some((setting.strip_prefix(&prefix)?.to_owned(), value))
        });
        let own: Vec<_> = own.collect();
        match own.is_empty() {
            true => Err(CliError::Usage(format!("{} has no profile '{name}'", path.display()))),
            false => Ok(Profile(own)),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(setting, _)| setting == name).map(|(_, value)| value.as_str())
    }
}

fn path() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let settings = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    settings.map(|settings| settings.join(PROFILES_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_section_of_the_file() {
        let text = "[one]\nbrokers = 'a:1'\n[two]\nbrokers = ['b:2', 'c:3']\ntls = true\n";
        let profile = |name| Profile::parse(name, text, Path::new("config.toml"));
        assert_eq!(profile("one").expect("is there").get("brokers"), Some("a:1"));
        let two = profile("two").expect("is there");
        assert_eq!((two.get("brokers"), two.get("tls")), (Some("b:2,c:3"), Some("true")));
        assert_eq!(two.get("user"), None);
        assert!(profile("three").is_err());
    }
}
