//! `${env:NAME}` in values (commons-text has more lookups; Flume's documents name this one). `$${` stands for `${`, as there.

/// The value with what it refers to; `look_up` knows the environment.
///
/// # Errors
///
/// What is wrong, without a word of the value: it may be a secret.
pub(super) fn substitute(
    value: &str,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut done = String::new();
    let mut rest = value;
    while let Some(begin) = rest.find("${") {
        let before = &rest[..begin];
        if let Some(before) = before.strip_suffix('$') {
            done.push_str(before);
            done.push_str("${");
            rest = &rest[begin + 2..];
            continue;
        }
        done.push_str(before);
        let Some(len) = rest[begin..].find('}') else {
            return Err(format!("has a '${{' without its '}}'; {LITERALLY}"));
        };
        let reference = &rest[begin + 2..begin + len];
        rest = &rest[begin + len + 1..];
        let Some(variable) = reference.strip_prefix("env:") else {
            return Err(format!("has a '${{' and no 'env:NAME}}' behind it; {LITERALLY}"));
        };
        let (name, fallback) = match variable.split_once(":-") {
            Some((name, fallback)) => (name, Some(fallback.to_owned())),
            None => (variable, None),
        };
        match look_up(name).or(fallback) {
            Some(text) => done.push_str(&text),
            None => return Err(format!("refers to {name}, which the environment does not have")),
        }
    }
    done.push_str(rest);
    Ok(done)
}

const LITERALLY: &str = "'$${' stands for a '${' of the value itself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_put_in() {
        let look_up = |name: &str| (name == "A").then(|| "x".to_owned());
        assert_eq!(substitute("1${env:A}2${env:B:-y}$3", look_up), Ok("1x2y$3".to_owned()));
        assert_eq!(substitute("$${env:A}$$${$", look_up), Ok("${env:A}$${$".to_owned()));
        assert!(substitute("${env:B}", look_up).is_err_and(|e| e.contains("B")));
        for wrong in ["1${sys:SECRET}", "SECRET${SECRET", "SECRET${env:SECRET"] {
            let error = substitute(wrong, look_up).expect_err("is wrong");
            assert!(!error.contains("SECRET") && error.contains("'$${' stands for"), "{error}");
        }
    }
}
