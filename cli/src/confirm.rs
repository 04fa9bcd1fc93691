//! Confirmation before something is deleted.

use std::io::{IsTerminal, Write};

use everypage_core::safe_text::safe;

use crate::problem::Problem;

/// Asks at the terminal; an error when standard input is not one.
pub fn ask(question: &str, consequence: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::Usage(format!(
            "{question} This can't be undone, and there is no terminal to confirm it at; pass --yes"
        )));
    }
    eprint!("{}", prompt(question, consequence));
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Problem::Failed(format!("the answer could not be read: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Questions name documents and reasons, which others chose.
fn prompt(question: &str, consequence: &str) -> String {
    safe(&format!("{question} {consequence} [y/N] ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_no_order_to_the_terminal() {
        assert_eq!(prompt("Delete a\u{1b}[2Jb\u{202e}?", "Gone."), "Delete a\u{fffd}[2Jb? Gone. [y/N] ");
    }
}
