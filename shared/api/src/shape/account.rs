use everypage_core::{
    billing::{account, purchase},
    sagas::progress,
    settings::{Credits, Settings},
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// The tenant's credits. One credit pays for one page read by AI.
#[derive(Debug, Serialize, ToSchema)]
pub struct Account {
    /// The tenant of the key.
    pub tenant: String,
    /// Whether jobs need no credits; then nothing is reserved or charged.
    pub unlimited: bool,
    /// The sum of the ledger.
    #[schema(example = 1000)]
    pub balance: u64,
    /// Of the balance, what jobs reserve until they end.
    #[schema(example = 40)]
    pub reserved: u64,
    /// The balance less the reserved credits.
    #[schema(example = 960)]
    pub available: u64,
    /// Credits of purchases that are not completed.
    pub pending: u64,
    /// All credits that were added so far, less those of purchases that were undone.
    #[schema(example = 1500)]
    pub earned: u64,
    /// All credits that were used or deducted so far. What was earned less this is the balance.
    #[schema(example = 500)]
    pub spent: u64,
    /// How often the balance changed.
    #[schema(example = 42)]
    pub transactions: u64,
    /// When the account was first used; absent if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Timestamp>,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// The price of one credit; absent where credits can't be bought.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 0.05)]
    pub price_usd: Option<f64>,
}

impl Account {
    pub fn new(account: account::Account, settings: &Settings) -> Self {
        let figures = account.figures.clone().unwrap_or_default();
        Self {
            earned: figures.earned,
            spent: figures.spent,
            transactions: figures.transactions,
            first_at: figures.first_at,
            last_at: figures.last_at,
            unlimited: settings.credits == Credits::Unlimited,
            available: account.available(),
            balance: account.balance,
            reserved: account.reserved,
            pending: account.ordered + account.allocated,
            price_usd: settings.purchasing.as_ref().map(|purchasing| purchasing.price_usd),
            tenant: account.tenant.to_string(),
        }
    }
}

/// Why the balance changed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    /// A job was charged for the pages that models read.
    Job { job: String },
    /// Credits were bought.
    Purchase { purchase: String },
    /// An operator added or deducted credits.
    Operator { note: String },
    /// A new tenant got its welcome credits.
    Welcome {},
}

/// One change of the balance. Entries are never changed or removed.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerEntry {
    /// Increases from entry to entry, with gaps.
    pub sequence: u64,
    /// When the balance changed.
    pub at: Timestamp,
    /// Negative for charges.
    #[schema(example = -12)]
    pub amount: i64,
    /// The balance after this entry.
    #[schema(example = 988)]
    pub balance: u64,
    pub cause: Cause,
}

impl From<account::LedgerEntry> for LedgerEntry {
    fn from(entry: account::LedgerEntry) -> Self {
        let cause = match entry.cause {
            account::Cause::Job { job } => Cause::Job { job: job.to_string() },
            account::Cause::Purchase { purchase } => Cause::Purchase { purchase: purchase.to_string() },
            account::Cause::Operator { note, .. } => Cause::Operator { note },
            account::Cause::Welcome {} => Cause::Welcome {},
        };
        Self { sequence: entry.sequence, at: entry.at, amount: entry.amount, balance: entry.balance, cause }
    }
}

/// One step of a purchase.
#[derive(Debug, Serialize, ToSchema)]
pub struct PurchaseStep {
    pub step: purchase::Step,
    pub state: progress::StepState,
    /// Why the last try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A purchase of credits.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purchase {
    /// The id of the purchase.
    pub id: String,
    pub state: progress::State,
    /// The number of credits.
    #[schema(example = 1000)]
    pub credits: u64,
    /// Millionths of a US dollar; whole cents.
    #[schema(example = 50_000_000)]
    pub price_micro_usd: u64,
    /// The user that bought them.
    pub by: String,
    /// The steps of the purchase, in order.
    pub steps: Vec<PurchaseStep>,
    /// Why the purchase is being undone, or needs a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the purchase started.
    pub created_at: Timestamp,
    /// When the purchase was completed, undone or resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl From<purchase::Purchase> for Purchase {
    fn from(purchase: purchase::Purchase) -> Self {
        let step = |record: progress::StepRecord<purchase::Step>| PurchaseStep {
            step: record.step,
            state: record.state,
            reason: record.reason,
        };
        Self {
            id: purchase.id.to_string(),
            state: purchase.progress.state,
            credits: purchase.order.credits,
            price_micro_usd: purchase.order.price_micro_usd.0,
            by: purchase.order.by,
            steps: purchase.progress.steps.into_iter().map(step).collect(),
            reason: purchase.progress.reason,
            created_at: purchase.progress.started_at,
            ended_at: purchase.progress.ended_at,
        }
    }
}
