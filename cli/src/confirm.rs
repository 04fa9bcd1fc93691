//! Confirmation before something is deleted.

use std::io::{IsTerminal, Write};

use crate::problem::Problem;

/// Asks at the terminal; an error when standard input is not one.
pub fn ask(question: &str, consequence: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::Usage(format!(
            "{question} This can't be undone, and there is no terminal to confirm it at; pass --yes"
        )));
    }
    eprint!("{question} {consequence} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Problem::Failed(format!("the answer could not be read: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
