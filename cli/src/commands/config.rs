//! `everypage config check`: every setting with its value, source and faults.

use serde_json::json;

use crate::{
    args::Listing,
    exit::Exit,
    problem::Problem,
    settings::{Address, Context, no_api_key, vision},
    table::Table,
};

pub async fn check(context: &Context, listing: Listing) -> Result<Exit, Problem> {
    match &context.address {
        Address::Local => {}
        #[cfg(feature = "aws")]
        Address::Aws(address) => return super::check_stack::check(context, address, listing).await,
        #[cfg(not(feature = "aws"))]
        Address::Aws(_) => return Err(Problem::without_aws()),
    }
    let screen = &context.screen;
    let mut faults: Vec<String> = Vec::new();
    let mut warnings: Vec<String> = Vec::new();
    let mut entries = Vec::new();
    match &context.reading {
        Err(all) => faults.clone_from(all),
        Ok(reading) => {
            warnings.clone_from(&reading.warnings);
            entries.clone_from(&reading.entries);
            if let Err(problem) = vision(&reading.settings).await {
                faults.push(problem.to_string());
            }
            if reading.settings.failover_order().is_empty() {
                warnings.push(no_api_key("no page can be read by AI"));
            }
        }
    }
    let from = |environment: bool| if environment { "environment" } else { "default" };
    if listing.json {
        let settings: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({ "name": entry.name, "value": entry.value, "from": from(entry.from_environment), "about": entry.about })
            })
            .collect();
        screen.print_json(&json!({
            "data": context.data().ok(), "settings": settings, "warnings": warnings, "faults": faults,
        }))?;
    } else if !entries.is_empty() {
        let mut table = Table::new(["VARIABLE", "VALUE", "FROM", "MEANING"]);
        for entry in &entries {
            // A prompt is longer than a line.
            let value = console::truncate_str(&entry.value, 32, "…").replace('\n', " ");
            table.row([
                entry.name.to_owned(),
                value,
                from(entry.from_environment).to_owned(),
                entry.about.to_owned(),
            ]);
        }
        screen.print(table.text().as_bytes())?;
        match context.data() {
            Ok(data) => {
                screen.print_line(&format!("\nJobs and results are stored in {}.", data.display()))?
            }
            Err(problem) => faults.push(problem.to_string()),
        }
    }
    for warning in &warnings {
        screen.warn(warning);
    }
    for fault in &faults {
        screen.error(fault);
    }
    Ok(match faults.is_empty() {
        true => Exit::Complete,
        false => Exit::Usage,
    })
}
