//! Links between the documents, held by a test: the page that a link names is there, and so is its heading.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_owned()
}

/// Every file that belongs to the project, from its root: those that git knows, and those that it does not ignore.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are text");
    names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The line without what stands between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Where the links of a page lead, as they are written; a link may be broken over two lines.
fn links(text: &str) -> Vec<String> {
    let text = prose(text).map(without_code).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.trim().to_owned()).collect()
}

/// The anchors of a page's headings, as GitHub makes them: of headings with one name the second has `-1`.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut anchors = Vec::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(match *count {
            0 => anchor,
            again => format!("{anchor}-{again}"),
        });
        *count += 1;
    }
    anchors
}

/// A path without `.` and `..`; none if it leads out of the project.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => whole.pop().then_some(())?,
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    Some(whole)
}

/// What is wrong with a link of a page, if anything is.
fn complaint(page: &Path, target: &str, files: &[PathBuf]) -> Option<String> {
    let is_elsewhere = ["https://", "http://", "mailto:"].iter().any(|s| target.starts_with(s));
    if is_elsewhere {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = match path {
        "" => Some(page.to_owned()),
        path => resolved(&page.parent().unwrap_or(Path::new("")).join(path)),
    };
    let Some(to) = to else { return Some("leads out of the project".to_owned()) };
    let is_there = files.iter().any(|file| file == &to || file.starts_with(&to));
    if !is_there || !root().join(&to).exists() {
        return Some(format!("there is no {}", to.display()));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(root().join(&to)).unwrap_or_default();
    let is_heading = anchors(&text).iter().any(|heading| heading == anchor);
    (!is_heading).then(|| format!("{} has no heading #{anchor}", to.display()))
}

#[test]
fn links_between_documents_resolve() {
    let files = files();
    let (mut complaints, mut count) = (Vec::new(), 0);
    for page in files.iter().filter(|file| file.extension().is_some_and(|e| e == "md")) {
        // One that was removed and is not committed yet is still known.
        let Ok(text) = fs::read_to_string(root().join(page)) else { continue };
        for target in links(&text) {
            count += 1;
            if let Some(complaint) = complaint(page, &target, &files) {
                complaints.push(format!("{}: ({target}): {complaint}", page.display()));
            }
        }
    }
    assert!(count > 50, "only {count} links were found");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let files = files();
    let wrong = |target| complaint(Path::new("docs/BENCHMARKS.md"), target, &files);
    for good in
        ["../README.md", "bench", "#how-to-read-it", "https://example.org/#x", "../docs/FORMATS.md"]
    {
        assert_eq!(wrong(good), None, "{good}");
    }
    for bad in
        ["README.md", "../../README.md", "#no-such-heading", "../README.md#nowhere", "nothing/"]
    {
        assert!(wrong(bad).is_some(), "{bad}");
    }
}

#[test]
fn links_and_anchors_are_read_as_github_reads_them() {
    let text = "# One `two`: three\n```\n# no\n[a](b)\n```\n## One two three\n[x](y.md#z) `[c](d)` [e\n](f)\n";
    assert_eq!(links(text), ["y.md#z", "f"]);
    assert_eq!(anchors(text), ["one-two-three", "one-two-three-1"]);
}

/// The source files that a page names between backquotes, as `crate/src/…`, with what they may be: a file, or a folder.
fn named_sources(text: &str) -> Vec<String> {
    let spans = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |span: &&str| {
        span.split_once("/src/").is_some_and(|(name, _)| name.chars().all(char::is_alphanumeric))
            && span.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c))
    };
    spans.filter(is_path).map(str::to_owned).collect()
}

#[test]
fn sources_that_documents_name_are_there() {
    let root = root();
    let pages = files().into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
    // What was, stays as it was.
    let pages = pages.filter(|page| !page.ends_with("CHANGELOG.md"));
    let (mut gone, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(root.join(&page)).expect("is text");
        for name in named_sources(&text) {
            count += 1;
            let path = root.join("crates").join(&name);
            let is_there =
                path.exists() || root.join(&name).exists() || path.with_extension("rs").exists();
            if !is_there {
                gone.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(count > 50, "only {count} were found");
    assert!(gone.is_empty(), "{gone:#?}");
}
