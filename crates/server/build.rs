//! Tells the program its version with the commit that it is built of, as `LOGWAY_VERSION`,
//! and the commit alone, or `unknown`, as `LOGWAY_BUILT_OF`.
//!
//! The commit is looked for in these places, in this order. No git is needed.
//!
//! 1. the variable `LOGWAY_COMMIT`, which builders of packages can set
//! 2. `commit.txt`, into which `git archive` writes the commit (`.gitattributes`)
//! 3. the files of the repository
//!
//! Only release builds have it: else each commit would make each developer build the crate anew.

use std::fs;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "LOGWAY_COMMIT";

/// As many digits as git shows of the commits of a large project.
const SHOWN_DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release { commit_of(Path::new(".")) } else { None };
    let built_of = match (&commit, is_release) {
        (Some(commit), _) => commit,
        (None, true) => "of an unknown commit",
        (None, false) => "debug build",
    };
    println!("cargo::rustc-env=LOGWAY_VERSION={} ({built_of})", env!("CARGO_PKG_VERSION"));
    println!("cargo::rustc-env=LOGWAY_BUILT_OF={}", commit.as_deref().unwrap_or("unknown"));
}

fn commit_of(package: &Path) -> Option<String> {
    println!("cargo::rerun-if-changed=commit.txt");
    let given = std::env::var(VARIABLE).ok();
    let archived = || fs::read_to_string(package.join("commit.txt")).ok();
    let commit = given.and_then(|text| commit_in(&text)).or_else(|| commit_in(&archived()?));
    commit.or_else(|| commit_in(&head(&package.join("../../.git"))?))
}

/// The beginning of a commit's name, if the text is one.
fn commit_in(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = text.len() >= SHOWN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| text[..SHOWN_DIGITS].to_lowercase())
}

/// What a repository's `HEAD` stands for (gitrepository-layout(5)).
fn head(dot_git: &Path) -> Option<String> {
    let own = git_dir(dot_git)?;
    // What all worktrees of a repository share.
    let shared = fs::read_to_string(own.join("commondir")).ok();
    let shared = shared.map_or_else(|| own.clone(), |path| own.join(path.trim()));
    // Each commit, and each other change of what is checked out, adds a line to the log of HEAD.
    let watched = ["HEAD", "logs/HEAD"].map(|name| own.join(name));
    for path in watched.iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let head = fs::read_to_string(own.join("HEAD")).ok()?;
    let Some(reference) = head.strip_prefix("ref:") else { return Some(head) };
    let reference = reference.trim();
    fs::read_to_string(shared.join(reference)).ok().or_else(|| packed(&shared, reference))
}

/// `.git` is a directory, or a file that names it.
fn git_dir(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let file = fs::read_to_string(dot_git).ok()?;
    let named = file.strip_prefix("gitdir:")?.trim();
    Some(dot_git.parent()?.join(named))
}

fn packed(shared: &Path, reference: &str) -> Option<String> {
    let packed = fs::read_to_string(shared.join("packed-refs")).ok()?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == reference).map(|(commit, _)| commit.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What git itself says, in a directory.
    fn git(dir: &Path, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
        let mut git = Command::new("git");
        let output = git.arg("-C").arg(dir).args(identity).args(arguments).output();
        let output = output.expect("git is there for tests");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("is text").trim().to_owned()
    }

    #[test]
    fn the_commit_is_found_in_every_kind_of_checkout() {
        let dir = tempfile::tempdir().expect("a directory");
        let (main, tree) = (dir.path().join("main"), dir.path().join("tree"));
        std::fs::create_dir(&main).expect("is created");
        git(&main, &["init", "-q"]);
        assert_eq!(head(&main.join(".git")), None, "there is no commit yet");
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&main, &["worktree", "add", "-q", "-b", "other/branch", "../tree"]);
        git(&tree, &["commit", "-q", "--allow-empty", "-m", "two"]);
        let found =
            |checkout: &Path| head(&checkout.join(".git")).map(|text| text.trim().to_owned());
        for change in ["loose", "packed", "detached"] {
            match change {
                "packed" => _ = git(&main, &["pack-refs", "--all"]),
                "detached" => _ = git(&tree, &["checkout", "-q", "--detach"]),
                _ => {}
            }
            for checkout in [&main, &tree] {
                assert_eq!(
                    found(checkout),
                    Some(git(checkout, &["rev-parse", "HEAD"])),
                    "{change}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_commit_is_not_taken_for_one() {
        let commit = "0123456789ABCDEF0123456789abcdef01234567";
        assert_eq!(commit_in(commit).as_deref(), Some("0123456789ab"));
        for text in [
            "",
            "$Format:%H$",
            "0123456789",
            "ref: refs/heads/main",
            "0123456789xyz",
            "é23456789012",
        ] {
            assert_eq!(commit_in(text), None, "{text}");
        }
    }
}
