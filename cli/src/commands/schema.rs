//! `everypage schema`: the JSON Schema of the JSON result.

use crate::{exit::Exit, problem::Problem, settings::Context};

pub fn run(context: &Context) -> Result<Exit, Problem> {
    context.screen.print_json(&everypage_api::result_schema())?;
    Ok(Exit::Complete)
}
