//! `hostile`: sessions by the million.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use logway_hostile::{Attack, Corpus, Entrance};

const USAGE: &str = "usage: cargo hostile --bootstrap ADDRESS:PORT [--sessions N] [--seed N] [--from N] [--connections N]
                     [--stranger USER | --user USER]

Sends a broker sessions of real clients, mutated, and tells what it answers. It fails if the broker cannot be reached any
more, or gives an answer that is none to what was asked.

  --sessions N     how many (default 10000)
  --seed N         gives all of them (default 0)
  --from N         the number of the first one (default 0)
  --connections N  at a time (default 128)
  --stranger USER  to a listener with SASL, by somebody who does not know this user's password
  --user USER      to a listener with SASL, by this user, whose password is in LOGWAY_PASSWORD";

fn main() -> anyhow::Result<ExitCode> {
    let mut address: Option<SocketAddr> = None;
    let (mut seed, mut first, mut sessions, mut connections) = (0, 0, 10_000, 128);
    let mut entrance = Entrance::Open;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--bootstrap" => address = Some(value()?.parse().context("--bootstrap")?),
            "--sessions" => sessions = value()?.parse().context("--sessions")?,
            "--seed" => seed = value()?.parse().context("--seed")?,
            "--from" => first = value()?.parse().context("--from")?,
            "--connections" => connections = value()?.parse().context("--connections")?,
            "--stranger" => entrance = Entrance::Stranger { user: value()? },
            "--user" => {
                let password = std::env::var("LOGWAY_PASSWORD").context("LOGWAY_PASSWORD")?;
                entrance = Entrance::Known { user: value()?, password };
            }
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    let address = address.with_context(|| format!("--bootstrap is missing\n{USAGE}"))?;
    let began = Instant::now();
    let attack = Attack { address, entrance, seed, first, sessions, connections };
    let tally = attack.run(&Corpus::load()?)?;
    print!("{tally}");
    println!("in {:.1} s, seed {seed}, from {first}", began.elapsed().as_secs_f64());
    Ok(if tally.wrong_answers.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
