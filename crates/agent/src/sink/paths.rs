//! Paths that headers of events are part of.

/// A path without parts that are empty, with a slash at its end. Headers are not to lead elsewhere.
///
/// # Errors
///
/// Why it is no path.
pub(super) fn directory(path: &str, is_absolute: bool, bytes_max: usize) -> Result<String, String> {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    if parts().any(|part| part == "." || part == "..") || path.chars().any(char::is_control) {
        return Err(format!("'{}' is no path for objects", path.escape_debug()));
    }
    let mut directory = String::from(if is_absolute { "/" } else { "" });
    parts().for_each(|part| directory.extend([part, "/"]));
    // A part of a path is a file's name in directories.
    if directory.len() > bytes_max || parts().any(|part| part.len() > 255) {
        return Err(format!("the path of {} bytes is too long for objects", directory.len()));
    }
    Ok(directory)
}
