//! Text in the language of manual pages (man(7)).

/// A page that is being written.
#[derive(Debug)]
pub(super) struct Page(String);

impl Page {
    /// A page with its name, as `logway-serve`, its section, and a line of what it is about.
    pub(super) fn new(name: &str, section: u8, about: &str) -> Page {
        let version = env!("CARGO_PKG_VERSION");
        let title = format!(
            ".TH \"{}\" {section} \"\" \"logway {version}\" \"Logway\"\n",
            name.to_uppercase()
        );
        let mut page = Page(title);
        page.heading("Name");
        page.0.push_str(&format!("{} \\- {}\n", escaped(name), marked(about)));
        page
    }

    /// Begins a part of the page.
    pub(super) fn heading(&mut self, title: &str) {
        self.0.push_str(&format!(".SH \"{}\"\n", escaped(&title.to_uppercase())));
    }

    /// Text whose paragraphs have an empty line between them.
    pub(super) fn text(&mut self, text: &str) {
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            self.0.push_str(".PP\n");
            self.lines(paragraph);
        }
    }

    /// Something in bold, and what there is to say about it.
    pub(super) fn item(&mut self, name: &str, text: &str) {
        self.0.push_str(&format!(".TP\n\\fB{}\\fR\n", escaped(name)));
        let mut paragraphs = text.split("\n\n");
        self.lines(paragraphs.next().unwrap_or_default());
        for paragraph in paragraphs {
            self.0.push_str(".IP\n");
            self.lines(paragraph);
        }
    }

    /// Lines as they are.
    pub(super) fn literal(&mut self, text: &str) {
        self.0.push_str(".PP\n.nf\n.RS 4\n");
        text.lines().for_each(|line| self.0.push_str(&format!("{}\n", at_start(escaped(line)))));
        self.0.push_str(".RE\n.fi\n");
    }

    /// The page.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn lines(&mut self, text: &str) {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.for_each(|line| self.0.push_str(&format!("{}\n", at_start(marked(line)))));
    }
}

/// Text with the characters escaped that mean something to the formatter. A hyphen is one that can be
/// typed, as in an option.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// The same, with what stands between backticks in bold.
fn marked(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(number, part): (usize, &str)| match number % 2 {
        0 => escaped(part),
        _ => format!("\\fB{}\\fR", escaped(part)),
    };
    parts.map(part).collect()
}

/// Keeps the beginning of a line from being taken for a request.
fn at_start(line: String) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_a_request() {
        let mut page = Page::new("a-b", 1, "be `bold`");
        page.text(".so /etc/passwd\n'x\n\nback\\slash");
        page.item("--x", "one\n\ntwo");
        page.literal(".TH\n  'y");
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            ".TH \"A-B\" 1 \"\" \"logway {version}\" \"Logway\"\n.SH \"NAME\"\na\\-b \\- be \\fBbold\\fR\n\
             .PP\n\\&.so /etc/passwd\n\\&'x\n.PP\nback\\eslash\n\
             .TP\n\\fB\\-\\-x\\fR\none\n.IP\ntwo\n\
             .PP\n.nf\n.RS 4\n\\&.TH\n  'y\n.RE\n.fi\n"
        );
        assert_eq!(page.into_text(), expected);
    }
}
