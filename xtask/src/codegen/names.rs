//! From the definitions' names to Rust's.

/// The module of a message: `ProduceRequest` becomes `produce_request`.
pub fn module_name(name: &str) -> String {
    snake_case(name)
}

/// The name of a field: snake case, with an underscore behind a keyword.
pub fn field_name(name: &str) -> String {
    let name = snake_case(name);
    match name.as_str() {
        "type" | "match" | "ref" | "move" | "where" | "use" => name + "_",
        _ => name,
    }
}

/// Breaks words where a capital follows a small letter or a digit, or begins a word after other capitals.
fn snake_case(name: &str) -> String {
    // The one word with a capital in the middle.
    let name = name.replace("KRaft", "Kraft");
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 8);
    for (position, letter) in letters.iter().enumerate() {
        let after_capital = position > 0 && letters[position - 1].is_uppercase();
        let before_small = letters.get(position + 1).is_some_and(|next| next.is_lowercase());
        if position > 0 && letter.is_uppercase() && (!after_capital || before_small) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::{field_name, module_name};

    #[test]
    fn words_are_found() {
        assert_eq!(module_name("ProduceRequest"), "produce_request");
        assert_eq!(module_name("KRaftVersionRecord"), "kraft_version_record");
        assert_eq!(field_name("ISRNodes"), "isr_nodes");
        assert_eq!(field_name("Type"), "type_");
        assert_eq!(field_name("principalType"), "principal_type");
    }
}
