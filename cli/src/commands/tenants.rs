//! `everypage tenants`: settings of one tenant, and its erasure.

use std::time::Duration;

use everypage_core::{
    app::App,
    erasures::{self, erasure::Erasure},
    finish::erase,
    ids::TenantId,
    sagas::{
        definition::SagaStep,
        progress::{State, StepState},
        run,
    },
    settings::TENANT_VARIABLES,
    tenants::{self, Overrides, TenantError},
};

use crate::{
    args::Tenants, backend::Backend, confirm, ctrl_c, exit::Exit, find, human, problem::Problem,
    screen::Screen, settings::Context, table::Table,
};

/// How often the progress of an erasure is shown.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Ended erasures that are listed.
const MAX_ENDED: usize = 50;

pub async fn run(context: &Context, command: Tenants) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let app = backend.app();
    let (overrides, json) = match command {
        Tenants::Show { tenant, listing } => {
            (tenants::overrides(&app.tenants, &TenantId::new(tenant)).await?, listing.json)
        }
        Tenants::Set { tenant, variables } => {
            let changes: Vec<_> = variables.into_iter().map(|(name, value)| (name, Some(value))).collect();
            (change(context, &backend, &tenant, &changes).await?, false)
        }
        Tenants::Unset { tenant, names } => {
            let changes: Vec<_> = names.into_iter().map(|name| (name, None)).collect();
            (change(context, &backend, &tenant, &changes).await?, false)
        }
        Tenants::Erase { tenant, yes } => {
            return erase_tenant(context, &backend, &TenantId::new(tenant), yes).await;
        }
        Tenants::Erasures(listing) => {
            list_erasures(app, &context.screen, listing.json).await?;
            return Ok(Exit::Complete);
        }
    };
    show(context, &overrides, json)?;
    Ok(Exit::Complete)
}

async fn change(
    context: &Context,
    backend: &Backend,
    tenant: &str,
    changes: &[(String, Option<String>)],
) -> Result<Overrides, Problem> {
    backend.register().await?;
    match tenants::change(&backend.app().tenants, &TenantId::new(tenant), changes, "cli").await {
        Ok(overrides) => {
            backend.flush().await?;
            Ok(overrides)
        }
        Err(TenantError::Fault(fault)) => Err(fault.into()),
        Err(TenantError::Closed(closed)) => Err(Problem::Failed(closed.to_string())),
        Err(TenantError::Refused(mut faults)) => {
            let last = faults.pop().unwrap_or_default();
            faults.iter().for_each(|fault| context.screen.error(fault));
            Err(Problem::Usage(last))
        }
    }
}

fn show(context: &Context, overrides: &Overrides, json: bool) -> Result<(), Problem> {
    if json {
        return context.screen.print_json(&overrides.variables);
    }
    if overrides.variables.is_empty() {
        let names = TENANT_VARIABLES.join(", ");
        context.screen.note(&format!("this tenant overrides no settings; it may override {names}"));
        return Ok(());
    }
    let mut table = Table::new(["VARIABLE", "VALUE"]);
    for (name, value) in &overrides.variables {
        table.row([name.clone(), console::truncate_str(value, 60, "…").replace('\n', " ")]);
    }
    context.screen.print(table.text().as_bytes())
}

async fn erase_tenant(
    context: &Context,
    backend: &Backend,
    tenant: &TenantId,
    yes: bool,
) -> Result<Exit, Problem> {
    let (app, screen) = (backend.app(), &context.screen);
    let consequence = "Its keys, webhooks, jobs with all documents and results, uploads, notices, settings \
                       and credits are deleted permanently.";
    if !yes && !confirm::ask(&format!("Erase tenant {tenant}?"), consequence)? {
        screen.note("nothing was erased");
        return Ok(Exit::Cancelled);
    }
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
    let work = async {
        backend.register().await?;
        let (started, existed) = erase::start(&app.store, tenant, "cli").await?;
        screen.note(&match existed {
            true => format!("erasure {} of tenant {tenant} continues", started.id),
            false => format!("erasure {}: tenant {tenant} accepts nothing from now on", started.id),
        });
        // A stack carries out its erasures itself.
        match backend {
            Backend::Local(_) => drive(app, screen, started, &cancel).await,
            #[cfg(feature = "aws")]
            Backend::Aws(_) => Ok(started),
        }
    };
    let erasure = backend.run_with(screen, &progress, &cancel, work).await?;
    let reason = erasure.progress.reason.as_deref().unwrap_or_default();
    Ok(match erasure.progress.state {
        State::Completed => {
            screen.print_line(&format!("tenant {tenant} is erased"))?;
            Exit::Complete
        }
        State::Manual => {
            screen.print_line(&format!(
                "the erasure of tenant {tenant} stopped: {reason}; remove the cause and run this again"
            ))?;
            Exit::Failed
        }
        _ => {
            let later = backend.later();
            screen.print_line(&format!(
                "the erasure of tenant {tenant} continues {later}: everypage tenants erasures"
            ))?;
            Exit::Complete
        }
    })
}

/// Runs the steps of an erasure and shows each that is done.
async fn drive(
    app: &App,
    screen: &Screen,
    started: Erasure,
    cancel: &tokio_util::sync::CancellationToken,
) -> Result<Erasure, Problem> {
    let (id, mut shown) = (started.id.clone(), Vec::new());
    let mut erasure = started;
    loop {
        for record in &erasure.progress.steps {
            let line = match (record.state, &record.reason) {
                (StepState::Done, _) => format!("{}: done", record.step.name()),
                (_, Some(reason)) => format!("{}: {reason}", record.step.name()),
                _ => continue,
            };
            if !shown.contains(&line) {
                screen.note(&line);
                shown.push(line);
            }
        }
        if !erasure.progress.state.is_active() || cancel.is_cancelled() {
            return Ok(erasure);
        }
        if let Some(next) = run::drive(&app.eraser, &id, Duration::ZERO).await? {
            erasure = next;
        }
        if erasure.progress.due > app.store.clock.now() {
            app.store.clock.sleep(POLL_INTERVAL).await;
        }
    }
}

async fn list_erasures(app: &App, screen: &Screen, json: bool) -> Result<(), Problem> {
    let mut all = erasures::list_active(&app.store, find::ALL).await?;
    all.extend(erasures::list_manual(&app.store, find::ALL).await?);
    all.extend(erasures::list_ended(&app.store, MAX_ENDED).await?);
    let all: Vec<Erasure> = all.into_iter().map(|erasure| erasure.value).collect();
    if json {
        return screen.print_json(&all);
    }
    if all.is_empty() {
        screen.note("no tenant was erased");
        return Ok(());
    }
    let mut table = Table::new(["ID", "TENANT", "STARTED", "BY", "STATE", "STEP", "REASON"]);
    for erasure in &all {
        let progress = &erasure.progress;
        let next = progress.steps.iter().find(|record| record.state != StepState::Done);
        let waiting = next.and_then(|record| record.reason.clone());
        table.row([
            erasure.id.to_string(),
            erasure.tenant.to_string(),
            human::time(progress.started_at),
            erasure.by.clone(),
            progress.state.name().to_owned(),
            next.map_or_else(String::new, |record| record.step.name().to_owned()),
            progress.reason.clone().or(waiting).unwrap_or_default(),
        ]);
    }
    screen.print(table.text().as_bytes())
}
