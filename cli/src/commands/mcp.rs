//! `everypage mcp`: the tools and resources of an MCP server over standard input and output.

use crate::{backend::Backend, exit::Exit, mcp, problem::Problem, settings::Context};

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    mcp::serve(Backend::open(context).await?).await?;
    Ok(Exit::Complete)
}
