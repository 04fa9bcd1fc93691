//! `everypage tenants`: settings of one tenant.

use everypage_core::{
    ids::TenantId,
    settings::TENANT_VARIABLES,
    tenants::{self, Overrides, TenantError},
};

use crate::{args::Tenants, backend::Backend, exit::Exit, problem::Problem, settings::Context, table::Table};

pub async fn run(context: &Context, command: Tenants) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let app = backend.app();
    let (overrides, json) = match command {
        Tenants::Show { tenant, listing } => {
            (tenants::overrides(&app.tenants, &TenantId::new(tenant)).await?, listing.json)
        }
        Tenants::Set { tenant, variables } => {
            let changes: Vec<_> = variables.into_iter().map(|(name, value)| (name, Some(value))).collect();
            (change(context, app, &tenant, &changes).await?, false)
        }
        Tenants::Unset { tenant, names } => {
            let changes: Vec<_> = names.into_iter().map(|name| (name, None)).collect();
            (change(context, app, &tenant, &changes).await?, false)
        }
    };
    show(context, &overrides, json)?;
    Ok(Exit::Complete)
}

async fn change(
    context: &Context,
    app: &everypage_core::app::App,
    tenant: &str,
    changes: &[(String, Option<String>)],
) -> Result<Overrides, Problem> {
    match tenants::change(&app.tenants, &TenantId::new(tenant), changes, "cli").await {
        Ok(overrides) => Ok(overrides),
        Err(TenantError::Fault(fault)) => Err(fault.into()),
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
