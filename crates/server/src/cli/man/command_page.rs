//! The page of a command, made from the definition of the command line.

use clap::{Arg, Command};

use super::roff::Page;

/// The page of a command, by its whole name, as `logway-topic-create`.
pub(super) fn render(name: &str, command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = Page::new(name, 1, about.trim_end_matches('.'));
    page.heading("Synopsis");
    let usage = command.clone().render_usage().to_string();
    page.text(&format!("`{}`", usage.trim_start_matches("Usage:").trim()));
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    let long = command.get_long_about().map(ToString::to_string);
    if long.is_some() || !aliases.is_empty() {
        page.heading("Description");
        page.text(&long.unwrap_or_default());
        let aliases = aliases.iter().map(|alias| format!("Also called `{alias}`."));
        aliases.for_each(|alias| page.text(&alias));
    }
    let below: Vec<&Command> = visible(command).collect();
    if !below.is_empty() {
        page.heading("Commands");
        for command in &below {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            page.item(&format!("{name}-{}(1)", command.get_name()), &about);
        }
    }
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let (global, own): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(is_shown).partition(|arg| arg.is_global_set());
    for (title, arguments) in [("Options", own), ("Global options", global)] {
        if !arguments.is_empty() && (title == "Options" || below.is_empty() || name == "logway") {
            page.heading(title);
            arguments.into_iter().for_each(|arg| page.item(&syntax(arg), &meaning(arg)));
        }
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        page.heading("Examples");
        page.literal(examples.strip_prefix("Examples:\n").unwrap_or(&examples));
    }
    page.heading("See also");
    let parent = name.rsplit_once('-').map(|(parent, _)| format!("`{parent}`(1), "));
    page.text(&format!("{}`logway.toml`(5)", parent.unwrap_or_default()));
    page.into_text()
}

/// The commands below a command that somebody would call.
pub(super) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// `-o, --offset <OFFSET>`, or `<TOPIC>...`.
fn syntax(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases: String = aliases.iter().map(|alias| format!(", --{alias}")).collect();
    format!("{short}{}{aliases}", arg.to_string().trim_end_matches("..."))
}

/// What it means, what it takes, and what holds where it is not given.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let mut meaning = help.unwrap_or_default();
    if !arg.get_action().takes_values() {
        return meaning;
    }
    let possible = arg.get_possible_values();
    let words = possible.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name());
    let words = words.collect::<Vec<_>>().join("`, `");
    if !words.is_empty() {
        meaning.push_str(&format!("\n\nOne of `{words}`."));
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(",");
    if !defaults.is_empty() {
        meaning.push_str(&format!("\n\nDefault: `{defaults}`."));
    }
    if let Some(variable) = arg.get_env() {
        meaning.push_str(&format!("\n\nAlso in the variable `{}`.", variable.to_string_lossy()));
    }
    meaning
}
