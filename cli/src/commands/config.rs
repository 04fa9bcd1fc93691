//! `everypage config check`: every setting with its value, source and faults.

use everypage_core::{
    ports::ocr::Ocr,
    settings::{OcrPages, Settings},
};
use serde_json::json;

use crate::{
    args::ConfigCheck,
    commands::check_models::{self, Called},
    exit::Exit,
    problem::Problem,
    settings::{Address, Context, no_api_key, ocr, vision},
    table::Table,
};

pub async fn check(context: &Context, check: ConfigCheck) -> Result<Exit, Problem> {
    let ConfigCheck { listing, online } = check;
    match &context.address {
        Address::Local => {}
        Address::Aws(_) if online => {
            let what =
                "--online calls the models from this machine, with its settings; leave out --backend aws";
            return Err(Problem::Usage(what.into()));
        }
        #[cfg(feature = "aws")]
        Address::Aws(address) => return super::check_stack::check(context, address, listing).await,
        #[cfg(not(feature = "aws"))]
        Address::Aws(_) => return Err(Problem::without_aws()),
    }
    let screen = &context.screen;
    let mut faults: Vec<String> = Vec::new();
    let mut warnings: Vec<String> = Vec::new();
    let mut entries = Vec::new();
    let mut ocr_state = None;
    let mut called = Vec::new();
    match &context.reading {
        Err(all) => faults.clone_from(all),
        Ok(reading) => {
            warnings.clone_from(&reading.warnings);
            entries.clone_from(&reading.entries);
            warnings.extend(check_models::unpriced(&reading.settings));
            match vision(&reading.settings).await {
                Ok(vision) if online => called = check_models::call_all(&vision, &reading.settings).await,
                Ok(_) => {}
                Err(problem) => faults.push(problem.to_string()),
            }
            faults.extend(called.iter().filter_map(|call| call.result.clone().err()));
            if reading.settings.failover_order().is_empty() {
                warnings.push(no_api_key("no page can be read by AI"));
            }
            ocr_state = Some(check_ocr(&reading.settings, &mut warnings).await?);
        }
    }
    let confinement = everypage_pdf::confinement();
    let from = |environment: bool| if environment { "environment" } else { "default" };
    if listing.json {
        let settings: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({ "name": entry.name, "value": entry.value, "from": from(entry.from_environment), "about": entry.about })
            })
            .collect();
        screen.print_json(&json!({
            "data": context.data().ok(), "ocr": ocr_state, "settings": settings, "warnings": warnings, "faults": faults,
            "confinement": { "landlock": confinement.landlock, "seccomp": confinement.seccomp },
            "models": called.iter().map(Called::to_json).collect::<Vec<_>>(),
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
        if let Some(state) = &ocr_state {
            screen.print_line(&format!("\nOCR: {state}."))?;
        }
        match context.data() {
            Ok(data) => {
                screen.print_line(&format!("\nJobs and results are stored in {}.", data.display()))?
            }
            Err(problem) => faults.push(problem.to_string()),
        }
        screen.print_line(&format!("Processes that parse documents are confined by {confinement}."))?;
    }
    if !called.is_empty() && !listing.json {
        let mut table = Table::new(["MODEL", "CALLED"]);
        for call in &called {
            let result = match &call.result {
                Ok(time) => format!("answered in {:.1} s", time.as_secs_f64()),
                Err(_) => "failed, see below".to_owned(),
            };
            table.row([call.target.to_string(), result]);
        }
        screen.print_line("")?;
        screen.print(table.text().as_bytes())?;
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

/// Whether OCR can run, in words; a warning if it is wanted and can't.
async fn check_ocr(settings: &Settings, warnings: &mut Vec<String>) -> Result<String, Problem> {
    let languages = settings.ocr_languages.join("+");
    if settings.ocr == OcrPages::Off {
        return Ok("off".into());
    }
    Ok(match ocr()?.check(&settings.ocr_languages).await {
        Ok(()) => format!("ready, languages: {languages}"),
        Err(error) => {
            warnings
                .push(format!("{error}; pages without a text layer have no text unless an AI reads them"));
            format!("not available, languages: {languages}")
        }
    })
}
