//! `everypage dev`: a provider that fails as its script says, and the generated references.

use std::{net::Ipv4Addr, path::Path};

use everypage_scripted_provider::{Call, Outcome, Rule, Script, ScriptedProvider};

use crate::{docs, exit::Exit, output, problem::Problem, settings::Context};

pub async fn provider(context: &Context, port: u16, script: Vec<Rule>) -> Result<Exit, Problem> {
    let screen = &context.screen;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let provider = ScriptedProvider::start_at(address, Script { rules: script }).await.map_err(|error| {
        Problem::Failed(format!(
            "port {port} of 127.0.0.1 can't be used: {error}; choose another with --port"
        ))
    })?;
    for [(url, address), (key, value)] in provider.environment() {
        screen.print_line(&format!("export {url}={address} {key}={value}"))?;
    }
    screen.note("set these variables in another terminal; calls are shown here, Ctrl-C stops the provider");
    let mut shown = 0;
    loop {
        tokio::select! {
            () = provider.until(|_| !provider.calls_after(shown).is_empty()) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
        for call in &provider.calls_after(shown) {
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

/// Writes the generated references.
pub fn docs(context: &Context, folder: &Path) -> Result<Exit, Problem> {
    for (name, text) in docs::references() {
        let path = folder.join(name);
        output::write(&path, text.as_bytes())?;
        context.screen.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Complete)
}

fn line(call: &Call) -> String {
    let page = call.page.map(|page| format!("page {page}")).unwrap_or_default();
    let content = if call.has_image { "with image" } else { "text only" };
    let note = if call.outcome == Outcome::Disconnected { " (client disconnected)" } else { "" };
    format!("#{} {}:{} {page} {content}: {}{note}", call.seq, call.provider, call.model, call.behaviour)
}
