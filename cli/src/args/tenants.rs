//! `tenants`, `account`, `purchases`, `keys` and `webhook`: what belongs to a tenant.

use clap::{Args, Subcommand};
use everypage_core::tenants::caller::Role;

use super::Listing;

#[derive(Debug, Args)]
pub struct TenantArg {
    /// Tenant [default: $TENANT]
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    pub tenant: Option<String>,
}

/// Tenants' names become parts of keys and file names.
fn tenant(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("a tenant's name consists of letters, digits, dots, dashes and underscores".to_owned()),
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE, such as JOB_TIMEOUT=10m")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Subcommand)]
pub enum Tenants {
    /// List the settings that a tenant overrides
    Show {
        /// Name of the tenant
        tenant: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Override settings for a tenant, such as JOB_TIMEOUT=10m
    Set {
        /// Name of the tenant
        tenant: String,
        /// Settings and their values
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        variables: Vec<(String, String)>,
    },
    /// Remove overrides, so that the installation's settings apply
    Unset {
        /// Name of the tenant
        tenant: String,
        /// Settings
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Delete everything of a tenant but its audit trails, or continue a deletion that stopped
    Erase {
        /// Name of the tenant
        #[arg(value_parser = tenant)]
        tenant: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// List the erasures of tenants: those that run or need manual action, and the latest that have ended
    Erasures(Listing),
}

#[derive(Debug, Subcommand)]
pub enum Account {
    /// Show a tenant's balance
    Show {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// List the balances of all tenants
    List(Listing),
    /// List every change of a balance, newest first
    Ledger {
        #[command(flatten)]
        tenant: TenantArg,
        /// Maximum number of entries
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Add credits to a tenant's balance
    Grant(Movement),
    /// Deduct credits from a tenant's balance, up to the available ones
    Deduct(Movement),
    /// Verify that a balance is the sum of its ledger, and that its audit trail was not changed
    Verify {
        #[command(flatten)]
        tenant: TenantArg,
        /// Rebuild the account and its ledger from its audit trail, if that was not changed
        #[arg(long)]
        repair: bool,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Args)]
pub struct Movement {
    /// Number of credits; one pays for one page read by AI
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub credits: u64,
    /// Reason, stored in the ledger
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    #[command(flatten)]
    pub tenant: TenantArg,
}

#[derive(Debug, Subcommand)]
pub enum Purchases {
    /// List a tenant's purchases, newest first
    List {
        #[command(flatten)]
        tenant: TenantArg,
        /// Maximum number of purchases
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// List the purchases of all tenants that need manual action, oldest first
    Waiting(Listing),
    /// Show one purchase and its steps
    Show {
        /// Id of the purchase, or a unique prefix of it
        id: String,
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Buy credits through the payment service (PAYMENT_URL), on this machine
    Buy {
        /// Number of credits
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        credits: u64,
        #[command(flatten)]
        tenant: TenantArg,
        /// Read the payment service's token of the payment method from the first line of standard input
        #[arg(long)]
        method_stdin: bool,
        /// Idempotency key: repeated purchases with the same key are one purchase
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Continue a purchase that needs manual action
    Resume {
        /// Id of the purchase, or a unique prefix of it
        id: String,
    },
    /// Roll back a purchase, even a completed one
    Rollback {
        /// Id of the purchase, or a unique prefix of it
        id: String,
        /// Reason, stored in the audit trail
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Mark a purchase as resolved outside of Everypage
    Resolve {
        /// Id of the purchase, or a unique prefix of it
        id: String,
        /// How it was resolved, stored in the audit trail
        #[arg(long, value_name = "TEXT")]
        note: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Create a key and print it; it can't be shown again
    Create {
        #[command(flatten)]
        tenant: TenantArg,
        /// Role: user sends documents and reads results; operator also decides on plans and dead letters
        #[arg(long, default_value = "user")]
        role: Role,
        /// Name of the key's user, shown in audit trails [default: the role]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// List a tenant's keys without their secrets, oldest first
    List {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Revoke a key: requests with it are rejected from now on
    Revoke {
        /// Id of the key, or a unique prefix of it; `keys list` shows it
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        tenant: TenantArg,
    },
}

#[derive(Debug, Subcommand)]
pub enum Webhook {
    /// Add a webhook for events of some types, and print the secret that signs its messages, once
    Add {
        /// URL that accepts a POST per event, such as `https://example.com/hooks`
        url: String,
        /// Types of events, or prefixes such as job.*, separated by commas [default: ends of jobs]
        #[arg(long, value_name = "TYPES", value_delimiter = ',')]
        events: Vec<String>,
        #[command(flatten)]
        tenant: TenantArg,
    },
    /// List the webhooks
    List {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Remove a webhook with its messages that wait
    Remove {
        /// Id of the webhook, or a unique prefix of it; `webhook list` shows it
        id: String,
        #[command(flatten)]
        tenant: TenantArg,
    },
    /// List the messages to a webhook, newest first: attempts, next attempt, why the last one failed
    Deliveries {
        /// Id of the webhook, or a unique prefix of it
        #[arg(default_value = "default")]
        id: String,
        #[command(flatten)]
        tenant: TenantArg,
        /// Maximum number of messages
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Notify a URL when a job ends, and print the secret that signs the messages, once
    Set {
        /// URL that accepts a POST per ended job, such as `https://example.com/hooks`
        url: String,
        #[command(flatten)]
        tenant: TenantArg,
    },
    /// Show the URL that `set` set
    Show {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Remove what `set` set
    Unset {
        #[command(flatten)]
        tenant: TenantArg,
    },
}
