//! Passwords from standard input, which no process list shows.

use std::io::BufRead;

use everypage_core::secret::Secret;

use crate::problem::Problem;

/// Reads the first line of standard input.
pub fn from_stdin() -> Result<Secret, Problem> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| {
        Problem::Usage(format!("the password can't be read from standard input: {error}"))
    })?;
    // Passwords may start and end with spaces, so only the line ending is removed.
    let password = line.strip_suffix('\n').unwrap_or(&line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    match password {
        "" => Err(Problem::Usage(
            "--password-stdin was given, but standard input has no password on its first line".into(),
        )),
        password => Ok(Secret::new(password)),
    }
}
