//! `everypage purchases`: credits that are bought, and those purchases that wait for a person.

use std::time::Duration;

use everypage_core::{
    app::App,
    domain::{
        ids::{PurchaseId, TenantId},
        purchase::{Decision, Purchase, State},
    },
    store::{listing, purchases},
    usecases::purchase::{self, PurchaseError, Wish},
};

use crate::{
    args::Purchases,
    commands::{only_local, password},
    engine::Engine,
    exit::Exit,
    find, human,
    problem::Problem,
    screen::Screen,
    settings::Context,
    table::Table,
};

/// Somebody waits at the terminal; what takes longer goes on at the next start, or in `serve`.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(context: &Context, command: Purchases) -> Result<Exit, Problem> {
    if let Purchases::Buy { .. } = command {
        only_local(context, "the stack has a payment service of its own: POST /v1/account/credits")?;
    }
    let engine = Engine::open(context).await?;
    let (app, screen) = (engine.app(), &context.screen);
    let named = |tenant: Option<String>| tenant.map_or_else(|| find::tenant(app), TenantId::new);
    let (id, decision) = match command {
        Purchases::List { tenant, limit, listing } => {
            let all = listing::purchases(app, &named(tenant), None, limit).await?.items;
            list(screen, &all, listing.json, "nothing was bought yet")?;
            return Ok(Exit::Complete);
        }
        Purchases::Waiting(listing) => {
            let all = waiting(app).await?;
            list(screen, &all, listing.json, "no purchase waits for a person")?;
            return Ok(Exit::Complete);
        }
        Purchases::Show { id, tenant, listing } => {
            let purchase = known(app, &named(tenant), &id).await?;
            show(screen, &purchase, listing.json)?;
            return Ok(Exit::Complete);
        }
        Purchases::Buy { credits, tenant, method_stdin, key } => {
            let method = method_stdin.then(password::from_stdin).transpose()?;
            let wish =
                Wish { tenant: named(tenant), by: "cli".into(), credits, method, idempotency_key: key };
            let (begun, _) = purchase::begin(app, wish).await?;
            return told(&engine, screen, begun).await;
        }
        Purchases::Resume { id } => (id, Decision::Resume),
        Purchases::Rollback { id, reason } => (id, Decision::RollBack { reason }),
        Purchases::Resolve { id, note } => (id, Decision::Resolve { note }),
    };
    let purchase = known(app, &find::tenant(app), &id).await?;
    engine.enlist().await?;
    let decided = purchase::decide(app, &purchase.id, "cli", decision).await?;
    told(&engine, screen, decided).await
}

/// Takes the purchase as far as it comes, and says how far that is.
async fn told(engine: &Engine, screen: &Screen, purchase: Purchase) -> Result<Exit, Problem> {
    // A stack does that itself, with what it knows of its payment service.
    let purchase = match engine {
        Engine::Local(_) => purchase::drive(engine.app(), &purchase.id, PATIENCE).await?,
        Engine::Aws(_) => purchase,
    };
    engine.flush().await?;
    screen.print_line(&sentence(&purchase, engine.later()))?;
    Ok(match purchase.state {
        State::Compensated | State::Manual => Exit::Failed,
        _ => Exit::Complete,
    })
}

fn sentence(purchase: &Purchase, later: &str) -> String {
    let (id, credits) = (&purchase.id, human::count(purchase.order.credits as usize, "credit", "credits"));
    let because = purchase.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match purchase.state {
        State::Completed => format!("purchase {id} of {credits} is completed"),
        State::Compensated => format!("purchase {id} of {credits} was undone{because}"),
        State::Manual => format!("purchase {id} of {credits} waits for a person{because}"),
        State::Resolved => format!("purchase {id} of {credits} is resolved{because}"),
        State::Running | State::Compensating => {
            format!("purchase {id} of {credits} is {} and goes on {later}", purchase.state.name())
        }
    }
}

async fn waiting(app: &App) -> Result<Vec<Purchase>, Problem> {
    let all = purchases::waiting_for_a_person(app, find::ALL).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// A purchase of the tenant's, or of any tenant's that waits for a person or whose whole id is given.
async fn known(app: &App, tenant: &TenantId, id: &str) -> Result<Purchase, Problem> {
    if let Some(found) = purchases::find(app, &PurchaseId::new(id)).await? {
        return Ok(found.value);
    }
    let mut all = listing::purchases(app, tenant, None, find::ALL).await?.items;
    all.extend(waiting(app).await?.into_iter().filter(|purchase| purchase.order.tenant != *tenant));
    find::only(all, |purchase| purchase.id.as_str(), id, "purchase", "everypage purchases list")
}

fn list(screen: &Screen, purchases: &[Purchase], json: bool, none: &str) -> Result<(), Problem> {
    if json {
        return screen.print_json(&purchases);
    }
    if purchases.is_empty() {
        screen.note(none);
        return Ok(());
    }
    let mut table = Table::new(["ID", "TENANT", "BEGUN", "CREDITS", "PRICE", "STATE", "WHY"]).right(&[3, 4]);
    for purchase in purchases {
        table.row([
            purchase.id.to_string(),
            purchase.order.tenant.to_string(),
            human::time(purchase.started_at),
            purchase.order.credits.to_string(),
            format!("${:.2}", purchase.order.price_micro_usd.usd()),
            purchase.state.name().to_owned(),
            purchase.reason.clone().unwrap_or_default(),
        ]);
    }
    screen.print(table.text().as_bytes())
}

fn show(screen: &Screen, purchase: &Purchase, json: bool) -> Result<(), Problem> {
    if json {
        return screen.print_json(purchase);
    }
    list(screen, std::slice::from_ref(purchase), false, "")?;
    let mut table = Table::new(["STEP", "STATE", "TRIES", "WHY"]).right(&[2]);
    for record in &purchase.steps {
        let state = serde_json::to_value(record.state)?;
        table.row([
            record.step.name().to_owned(),
            state.as_str().unwrap_or_default().to_owned(),
            record.tries.to_string(),
            record.reason.clone().unwrap_or_default(),
        ]);
    }
    screen.print_line("")?;
    screen.print(table.text().as_bytes())
}

impl From<PurchaseError> for Problem {
    fn from(error: PurchaseError) -> Self {
        match error {
            PurchaseError::NotSetUp | PurchaseError::BadAmount { .. } => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}
