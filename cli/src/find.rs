//! Finds jobs and dead letters by their id or a unique prefix of it.

use everypage_core::{
    app::App,
    dead_letters::{self, DeadLetter},
    events::Store,
    ids::{JobId, TenantId},
    job::{Job, jobs},
    settings::Settings,
};

use crate::{args::TenantArg, problem::Problem};

/// Far more than one machine stores.
pub const ALL: usize = 1_000_000;

pub fn tenant(settings: &Settings) -> TenantId {
    TenantId::new(settings.tenant.clone())
}

/// The tenant of the option, else of the settings.
pub fn tenant_or_default(settings: &Settings, arg: TenantArg) -> TenantId {
    arg.tenant.map_or_else(|| tenant(settings), TenantId::new)
}

/// The job whose id is `name`, or the only one whose id starts with it.
pub async fn job(app: &App, name: &str) -> Result<Job, Problem> {
    let id = JobId::new(name.trim().to_ascii_lowercase());
    // Another tenant's job is reported as unknown.
    let tenant = tenant(&app.settings);
    let is_own = |job: &Job| job.received.tenant == tenant;
    if let Some(found) = jobs::find(&app.store, &id).await?.filter(|job| is_own(&job.value)) {
        return Ok(found.value);
    }
    let all = jobs::list(&app.store, &tenant, ALL).await?;
    only(all, |job| job.id.as_str(), name, "job", "everypage jobs list")
}

pub async fn dead_letter(store: &Store, name: &str) -> Result<DeadLetter, Problem> {
    let all = dead_letters::waiting(store, ALL).await?.into_iter().map(|found| found.value);
    only(all, |dead_letter| dead_letter.id.as_str(), name, "dead letter", "everypage dlq list")
}

/// The item whose id is `name`, or the only one whose id starts with it.
pub fn only<T>(
    all: impl IntoIterator<Item = T>,
    id: impl Fn(&T) -> &str,
    name: &str,
    what: &str,
    listed_by: &str,
) -> Result<T, Problem> {
    let wanted = name.trim().to_ascii_uppercase();
    if wanted.is_empty() {
        return Err(Problem::Usage(format!("the id of the {what} is empty; `{listed_by}` lists them")));
    }
    let mut found: Vec<T> =
        all.into_iter().filter(|one| id(one).to_ascii_uppercase().starts_with(&wanted)).collect();
    // An exact match wins even if another id starts with it.
    if let Some(exact) = found.iter().position(|one| id(one).eq_ignore_ascii_case(&wanted)) {
        return Ok(found.swap_remove(exact));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Problem::Failed(format!("there is no {what} {name}; `{listed_by}` lists them"))),
        count => {
            let some: Vec<&str> = found.iter().take(3).map(&id).collect();
            let more = if count > some.len() { ", …" } else { "" };
            Err(Problem::Usage(format!(
                "{count} {what}s start with {name}: {}{more}; write more of the id",
                some.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Result<&'static str, String> {
        only(["01ABC", "01ABD", "01ABDX"], |id| id, name, "job", "everypage jobs list")
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_unique_prefix_is_enough_in_either_case() {
        assert_eq!(find("01abc"), Ok("01ABC"));
        assert_eq!(find("01abd"), Ok("01ABD"));
        assert!(find("01").unwrap_err().contains("3 jobs start with 01"));
        assert!(find("02").unwrap_err().contains("there is no job 02"));
        assert!(find(" ").is_err());
    }
}
