//! `everypage account`: credits of tenants.

use everypage_core::{
    billing::{
        account::{Account, AccountEvent, Cause, LedgerEntry},
        accounts::{self, AllAccounts},
        repair::repair_account,
        verify::verify_account,
    },
    ids::TenantId,
    settings::Credits,
    tenants,
};

use crate::{
    args::{Account as Command, Movement},
    backend::Backend,
    exit::Exit,
    find, human,
    problem::Problem,
    screen::Screen,
    settings::Context,
    table::Table,
};

pub async fn run(context: &Context, command: Command) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    let named = |tenant| find::tenant_or_default(&app.settings, tenant);
    match command {
        Command::Show { tenant, listing } => {
            let tenant = named(tenant);
            welcome(&backend, &tenant).await?;
            let account = accounts::load(&app.store, &tenant).await?.value;
            let unlimited = tenants::settings(&app.tenants, &tenant).await?.credits == Credits::Unlimited;
            show(screen, &[account], listing.json)?;
            if unlimited {
                screen.note(&format!("tenant {tenant} needs no credits (CREDITS=unlimited)"));
            }
        }
        Command::List(listing) => {
            let AllAccounts { accounts, damaged } = accounts::all(&app.store).await?;
            if accounts.is_empty() && damaged.is_empty() && !listing.json {
                screen.note("no tenant has an account yet; `everypage account grant` creates one");
            } else {
                show(screen, &accounts, listing.json)?;
            }
            for (tenant, reason) in &damaged {
                screen.error(&format!(
                    "the account of tenant {tenant} can't be read: {reason}; rebuild it from its trail: \
                     everypage account verify --tenant {tenant} --repair"
                ));
            }
            return Ok(if damaged.is_empty() { Exit::Complete } else { Exit::Failed });
        }
        Command::Ledger { tenant, limit, listing } => {
            let lines = accounts::ledger_page(&app.store, &named(tenant), None, limit).await?.items;
            if listing.json {
                screen.print_json(&lines)?;
            } else if lines.is_empty() {
                screen.note("the ledger is empty");
            } else {
                screen.print(ledger(&lines).text().as_bytes())?;
            }
        }
        Command::Grant(movement) => {
            let Movement { credits, note, tenant } = movement;
            let event = AccountEvent::Added { credits, cause: operator(note) };
            change(&backend, screen, &named(tenant), event).await?;
        }
        Command::Deduct(movement) => {
            let Movement { credits, note, tenant } = movement;
            let event = AccountEvent::Deducted { credits, cause: operator(note) };
            change(&backend, screen, &named(tenant), event).await?;
        }
        Command::Verify { tenant, repair: true, listing } => {
            let tenant = named(tenant);
            backend.register().await?;
            let repaired = repair_account(&app.store, &tenant, "cli").await;
            backend.flush().await?;
            let findings = repaired.map_err(|error| Problem::Failed(error.to_string()))?;
            if listing.json {
                screen.print_json(&findings)?;
            } else if findings.is_empty() {
                screen.print_line(&format!("the account of tenant {tenant} is consistent"))?;
            } else {
                findings.iter().for_each(|finding| screen.note(finding));
                screen.print_line(&format!("the account of tenant {tenant} is repaired"))?;
            }
        }
        Command::Verify { tenant, repair: false, listing } => {
            let tenant = named(tenant);
            let findings = verify_account(&app.store, &tenant).await?;
            if listing.json {
                screen.print_json(&findings)?;
            } else if findings.is_empty() {
                screen.print_line(&format!("the account of tenant {tenant} is consistent"))?;
            }
            findings.iter().for_each(|finding| screen.error(finding));
            return Ok(if findings.is_empty() { Exit::Complete } else { Exit::Failed });
        }
    }
    Ok(Exit::Complete)
}

fn operator(note: String) -> Cause {
    Cause::Operator { by: "cli".into(), note }
}

/// Grants a new tenant its welcome credits, with the first use of its account.
pub async fn welcome(backend: &Backend, tenant: &TenantId) -> Result<(), Problem> {
    let app = backend.app();
    if app.settings.welcome_credits > 0 {
        backend.register().await?;
        accounts::welcome(&app.store, &app.tenants, tenant).await?;
        backend.flush().await?;
    }
    Ok(())
}

async fn change(
    backend: &Backend,
    screen: &Screen,
    tenant: &TenantId,
    event: AccountEvent,
) -> Result<(), Problem> {
    welcome(backend, tenant).await?;
    backend.register().await?;
    let account = accounts::change(&backend.app().store, tenant, "cli", &event).await;
    let account = account.map_err(|error| Problem::Failed(error.to_string()))?;
    backend.flush().await?;
    screen.print_line(&format!(
        "tenant {tenant} has {}, {} available",
        human::count(account.balance as usize, "credit", "credits"),
        account.available()
    ))
}

fn show(screen: &Screen, accounts: &[Account], json: bool) -> Result<(), Problem> {
    if json {
        return screen.print_json(&accounts);
    }
    let columns =
        ["TENANT", "BALANCE", "RESERVED", "AVAILABLE", "PENDING", "EARNED", "SPENT", "CHANGES", "LAST"];
    let mut table = Table::new(columns).right(&[1, 2, 3, 4, 5, 6, 7]);
    for account in accounts {
        let figures = account.figures.clone().unwrap_or_default();
        table.row([
            account.tenant.to_string(),
            account.balance.to_string(),
            account.reserved.to_string(),
            account.available().to_string(),
            (account.ordered + account.allocated).to_string(),
            figures.earned.to_string(),
            figures.spent.to_string(),
            figures.transactions.to_string(),
            figures.last_at.map(human::time).unwrap_or_default(),
        ]);
    }
    screen.print(table.text().as_bytes())
}

fn ledger(lines: &[LedgerEntry]) -> Table {
    let mut table = Table::new(["TIME", "AMOUNT", "BALANCE", "CAUSE"]).right(&[1, 2]);
    for line in lines {
        let cause = match &line.cause {
            Cause::Job { job } => format!("job {job}"),
            Cause::Purchase { purchase } => format!("purchase {purchase}"),
            Cause::Operator { by, note } => format!("{note} (by {by})"),
            Cause::Welcome {} => "welcome credits".to_owned(),
        };
        table.row([human::time(line.at), format!("{:+}", line.amount), line.balance.to_string(), cause]);
    }
    table
}
