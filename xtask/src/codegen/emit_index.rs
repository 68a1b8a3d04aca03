//! The module that lists the messages.

use super::emit_message::header;
use super::jar::Artifact;
use super::schema::Message;

/// `messages/mod.rs`, before formatting.
pub fn emit_index(messages: &[Message]) -> String {
    let mut code = header("the definitions", Artifact::ALL);
    code += "//! The messages of Kafka's protocol, and the records of its coordinators.\n//!\n\
             //! Each has a module of its own, which also holds the structs inside it; the messages themselves are also here.\n\n\
             #![allow(unused_variables, reason = \"not every struct differs from version to version\")]\n\n\
             pub mod api_key;\n";
    for message in messages {
        code += &format!("pub mod {};\n", message.module);
    }
    code += "\n";
    for message in messages {
        code += &format!("pub use {}::{};\n", message.module, message.name);
    }
    code
}

/// `all_messages/mod.rs` of the codec's tests, before formatting.
pub fn emit_test_index(messages: &[Message]) -> String {
    let names: String = messages.iter().map(|message| format!("{}\n", message.name)).collect();
    header("the definitions", Artifact::ALL)
        + "//! The list of all messages.\n\n\
           /// Invokes a macro with the names of all messages.\n\
           macro_rules! with_all_messages {\n($callback:ident) => {\n$callback! {\n"
        + &names
        + "}\n};\n}\n"
}
