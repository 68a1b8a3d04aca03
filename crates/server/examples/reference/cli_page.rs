//! The command line as Markdown.

use std::fmt::Write;

use clap::{Arg, Command};

/// Every command of a program, each under the commands that it belongs to, below what the page begins with.
pub(crate) fn render(top: &str, mut root: Command) -> String {
    root.build();
    let program = root.get_name().to_owned();
    let mut page = top.to_owned();
    page.push_str("\n## Global options\n\nEvery command takes these.\n\n");
    root.get_arguments().filter(|arg| arg.is_global_set()).for_each(|arg| item(&mut page, arg));
    for command in visible(&root) {
        section(&mut page, command, &program, 2);
    }
    page
}

/// A command and those below it.
fn section(page: &mut String, command: &Command, above: &str, level: usize) {
    let name = format!("{above} {}", command.get_name());
    let heading = "#".repeat(level);
    push(page, format_args!("\n{heading} `{name}`\n"));
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        push(page, format_args!("\n{about}\n"));
    }
    if visible(command).next().is_some() {
        return visible(command).for_each(|below| section(page, below, &name, level + 1));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    push(page, format_args!("\n```\n{usage}\n```\n\n"));
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        push(page, format_args!("Also called `{}`.\n\n", aliases.join("`, `")));
    }
    let is_own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help";
    command.get_arguments().filter(is_own).for_each(|arg| item(page, arg));
    if let Some(examples) = command.get_after_help() {
        push(page, format_args!("\n```\n{examples}\n```\n"));
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// One argument or option: how it is written, what it means, what it takes.
fn item(page: &mut String, arg: &Arg) {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let help = help.unwrap_or_default().replace('\n', " ");
    push(page, format_args!("- `{}`: {help}", syntax(arg)));
    let takes_value = arg.get_action().takes_values();
    let possible = arg.get_possible_values();
    let words: Vec<&str> =
        possible.iter().filter(|v| !v.is_hide_set()).map(|value| value.get_name()).collect();
    if takes_value && !words.is_empty() {
        push(page, format_args!(" (one of `{}`)", words.join("`, `")));
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    if takes_value && !defaults.is_empty() {
        push(page, format_args!(" (default `{}`)", defaults.join(",")));
    }
    if let Some(variable) = arg.get_env() {
        push(page, format_args!(" (or in `{}`)", variable.to_string_lossy()));
    }
    page.push('\n');
}

/// `-o, --offset <OFFSET>`, or `<TOPIC>...`.
fn syntax(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let mut syntax = format!("{short}{}", arg.to_string().trim_end_matches("..."));
    for alias in arg.get_visible_aliases().unwrap_or_default() {
        let _ = write!(syntax, ", --{alias}");
    }
    syntax
}

/// Writing to a string cannot fail.
fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}
