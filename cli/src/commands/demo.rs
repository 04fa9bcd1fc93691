//! stub
use crate::{exit::Exit, problem::Problem, settings::Context};
pub async fn run(_context: &Context) -> Result<Exit, Problem> {
    Ok(Exit::Complete)
}
