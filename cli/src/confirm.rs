//! Asking before something is gone for good.

use std::io::{IsTerminal, Write};

use crate::problem::Problem;

/// Puts the question to whoever sits at the terminal; an error when nobody does.
pub fn ask(question: &str, consequence: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::Usage(format!(
            "{question} This can't be undone and nobody is there to ask; pass --yes to do it"
        )));
    }
    eprint!("{question} {consequence} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Problem::Failed(format!("no answer could be read: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
