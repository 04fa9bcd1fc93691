//! `everypage dev provider`: a provider that fails as told.

use std::net::Ipv4Addr;

use everypage_testkit::provider::{Call, Outcome, Rule, Script, ScriptedProvider};

use crate::{exit::Exit, problem::Problem, settings::Context};

pub async fn provider(context: &Context, port: u16, script: Vec<Rule>) -> Result<Exit, Problem> {
    let screen = &context.screen;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let provider = ScriptedProvider::start_at(address, Script { rules: script }).await.map_err(|error| {
        Problem::Failed(format!(
            "port {port} of 127.0.0.1 can't be used: {error}; choose another with --port"
        ))
    })?;
    screen.print_line(&format!(
        "export OPENAI_BASE_URL={}\nexport ANTHROPIC_BASE_URL={} ANTHROPIC_API_KEY=scripted",
        provider.openai_base_url(),
        provider.anthropic_base_url()
    ))?;
    screen.note("set these in another terminal; each call is shown here, Ctrl-C ends it");
    let mut shown = 0;
    loop {
        tokio::select! {
            () = provider.until(|counts| counts.total > shown) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
        for call in provider.calls().iter().skip(shown as usize) {
            shown = call.seq;
            screen.note(&line(call));
        }
    }
    let counts = provider.counts();
    for model in &counts.models {
        screen.note(&format!("{}:{}  {} calls", model.provider, model.model, model.calls));
    }
    Ok(Exit::Complete)
}

fn line(call: &Call) -> String {
    let page = call.page.map(|page| format!("page {page}")).unwrap_or_default();
    let with = if call.has_image { "with image" } else { "text only" };
    let left = if call.outcome == Outcome::Disconnected { " (client left)" } else { "" };
    format!("#{} {}:{} {page} {with}: {}{left}", call.seq, call.provider, call.model, call.behaviour)
}
