//! Within a crate, files import each other in small circles at most: what can only be understood together
//! must be small.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// As many files may need each other.
const CIRCLE_FILES_MAX: usize = 12;

/// A crate's source files by their module paths, as `["append", "rounds"]`.
type Modules = BTreeMap<Vec<String>, PathBuf>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_owned()
}

#[test]
fn no_circle_of_modules_is_larger_than_a_dozen_files() {
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let folder = entry.expect("can be read").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("is text");
        for circle in circles_of(&folder.join("src")) {
            let count = circle.len();
            let is_small = count <= CIRCLE_FILES_MAX;
            assert!(is_small, "{count} files of {name} need each other: {circle:#?}");
            println!("{name}: a circle of {count} files");
        }
    }
}

#[test]
fn a_circle_is_found() {
    let dir = std::env::temp_dir().join(format!("logway-circles-{}", std::process::id()));
    fs::create_dir_all(dir.join("a")).expect("is made");
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("is written");
    write("lib.rs", "mod a;\nmod b;\nmod c;\n");
    write("a/mod.rs", "mod deep;\nuse crate::b::B;\n");
    write("a/deep.rs", "use super::super::c::C;\n");
    write("b.rs", "use crate::{\n    a::deep::Deep,\n    c::C,\n};\n");
    write(
        "c.rs",
        "use crate::b;\n// use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    let circles = circles_of(&dir);
    fs::remove_dir_all(&dir).expect("is removed");
    let names: Vec<BTreeSet<&str>> = circles.iter().map(|circle| names(circle)).collect();
    assert_eq!(names, [BTreeSet::from(["b.rs", "c.rs", "deep.rs"])]);
}

fn names(circle: &[PathBuf]) -> BTreeSet<&str> {
    circle.iter().filter_map(|path| path.file_name()?.to_str()).collect()
}

/// The files that reach each other by their `use` lines, tests apart; each circle once.
fn circles_of(source: &Path) -> Vec<Vec<PathBuf>> {
    let mut modules = Modules::new();
    collect(source, &mut Vec::new(), &mut modules);
    let imports: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
        modules.iter().map(|(module, file)| (module, imports_of(module, file, &modules))).collect();
    let reached: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
        modules.keys().map(|module| (module, reached_from(module, &imports))).collect();
    let mut circles = BTreeSet::new();
    for (module, others) in &reached {
        let circle: Vec<PathBuf> = others
            .iter()
            .filter(|other| reached[*other].contains(module))
            .map(|other| modules[*other].clone())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reached_from<'a>(
    module: &'a Vec<String>,
    imports: &BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>,
) -> BTreeSet<&'a Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        next.extend(imports[module].iter().filter(|import| reached.insert(**import)));
    }
    reached
}

fn collect(folder: &Path, module: &mut Vec<String>, modules: &mut Modules) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("can be read").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        module.push(stem.clone());
        if path.is_dir() {
            collect(&path, module, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = ["lib", "main", "mod"].contains(&stem.as_str());
            let name = if is_root { &module[..module.len() - 1] } else { &module[..] };
            modules.insert(name.to_vec(), path.clone());
        }
        module.pop();
    }
}

/// The files of the crate that a file imports from. Its own `mod` lines are not imports, and so are not
/// what it passes on of the modules below it.
fn imports_of<'a>(
    module: &[String],
    file: &Path,
    modules: &'a Modules,
) -> BTreeSet<&'a Vec<String>> {
    let text = fs::read_to_string(file).expect("is text");
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut imports = BTreeSet::new();
    for (is_passed_on, statement) in statements(text) {
        for path in paths(&statement) {
            let Some(target) = resolve(module, &path, modules) else { continue };
            let is_below = target.len() > module.len() && target.starts_with(module);
            if target.as_slice() != module && !(is_passed_on && is_below) {
                imports.insert(target);
            }
        }
    }
    imports
}

/// What stands behind each `use` that begins a line, and whether it is passed on (`pub use`).
fn statements(text: &str) -> Vec<(bool, String)> {
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let mut statements = Vec::new();
    while let Some(line) = lines.next() {
        let Some((front, first)) = line.split_once("use ") else { continue };
        let is_passed_on = front == "pub " || front.starts_with("pub(") && front.ends_with(") ");
        if !front.is_empty() && !is_passed_on {
            continue;
        }
        let mut statement = first.to_owned();
        while !statement.contains(';') {
            statement.push_str(lines.next().expect("a use ends with a semicolon"));
        }
        statements.push((is_passed_on, statement.replace(';', "")));
    }
    statements
}

/// The paths of a `use`, its braces unfolded.
fn paths(statement: &str) -> Vec<Vec<String>> {
    let Some(open) = statement.find('{') else {
        let path = statement.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let front: Vec<String> = statement[..open]
        .split("::")
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    let close = statement.rfind('}').unwrap_or(statement.len());
    let mut unfolded = Vec::new();
    let (mut depth, mut begin) = (0, open + 1);
    for (place, sign) in statement[..close].char_indices().skip_while(|(place, _)| *place <= open) {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                unfolded.extend(paths(&statement[begin..place]));
                begin = place + 1;
            }
            _ => {}
        }
    }
    unfolded.extend(paths(&statement[begin..close]));
    unfolded.into_iter().map(|path| front.iter().cloned().chain(path).collect()).collect()
}

/// The file that a path leads into: that of the deepest module on it.
fn resolve<'a>(
    module: &[String],
    path: &[String],
    modules: &'a Modules,
) -> Option<&'a Vec<String>> {
    let mut full: Vec<String> = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        Some("self" | "super") => module.to_vec(),
        // A module below this one, or another crate.
        _ => {
            let mut below = module.to_vec();
            below.extend(path.first().cloned());
            if !modules.contains_key(&below) {
                return None;
            }
            module.to_vec()
        }
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => _ = full.pop(),
            _ => full.push(part.clone()),
        }
    }
    while !modules.contains_key(&full) {
        full.pop()?;
    }
    modules.get_key_value(&full).map(|(name, _)| name)
}
