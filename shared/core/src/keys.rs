//! Every record key, index partition and blob key, in one place.

use std::fmt::Display;

use jiff::Timestamp;

use crate::{
    event::Aggregate,
    ids::{DeadLetterId, ErasureId, JobId, PageNumber, Priority, PurchaseId, TenantId},
    ports::records::Key,
    providers::target::Target,
};

/// Keys of records.
///
/// | partition | sort | what |
/// | --- | --- | --- |
/// | `job#J` | `job` | the job |
/// | `job#J` | `event#0000000001` | its trail |
/// | `job#J` | `page#0000000017` | lease, outcome and text of a page |
/// | `job#J` | `pagelog#0000000017#0000000001` | a page's trail |
/// | `job#J` | `healing` | which process publishes pages that were read late |
/// | `job#J` | `secret` | the sealed password, until the document is prepared or has failed |
/// | `job#J` | `upload#ID` | the uploaded object that became the job |
/// | `job#J` | `delivery#ID` | a webhook delivery about the job |
/// | `job#J` | `countdown` | the ranges that have pages to settle |
/// | `job#J` | `countdown#0000000033` | the pages of one range that are not settled |
/// | `job#J` | `due` | when it is admitted whatever the room, while it waits |
/// | `job#J` | `wake` | on AWS, the token of the step that waits for the pages or a decision |
/// | `idempotency#T` | a key | the job that a request made |
/// | `upload#ID` | `upload` | an announced upload, or an object that arrived unannounced |
/// | `tenant#T` | `overrides` | the tenant's own values of some settings |
/// | `tenant#T` | `place#2` | the place in line of the tenant's last document of a level |
/// | `tenant#T` | `administration` / `event#…` | where its trail of acts of administration ends, and the trail |
/// | `tenant#T` | `apikey#ID` | which record holds the API key with that id |
/// | `tenant#T` | `webhook` / `webhook#ID` | a webhook: URL, event types, sealed secret; without id, `default` |
/// | `tenant#T` | `receiver#ID` | whether a webhook's receiver accepts messages, if it refused some |
/// | `apikey#SHA256` | `apikey` | the owner of an API key; never the key itself |
/// | `account#T` | `account` | the tenant's credits |
/// | `account#T` | `event#…` / `ledger#…` | its trail, and each change of the balance |
/// | `account#T` | `checked` | how far the account was checked against its trail |
/// | `account#T` | `drift` | what is wrong with an account that differs from its trail |
/// | `jobs` | `backfill` | how far the jobs that ended under version 0.1 are listed |
/// | `accounts` | `check` | the account that was checked last |
/// | `purchase#ID` | `purchase` / `event#…` | a purchase of credits and its trail |
/// | `purchase#ID` | `method` | the payment method, sealed, until it was charged |
/// | `erasure#ID` | `erasure` / `event#…` | the erasure of a tenant and its trail |
/// | `notices#T` | `notice#ID` | a notice to a person, waiting or sent |
/// | `notices#T` | `group#…` | when notices of one kind were last sent |
/// | `webhook#ID` | `webhook` | one webhook delivery, pending or done |
/// | `breaker` | a target | its circuit breaker |
/// | `breaker#…` | `event#…` | the breaker's trail |
/// | `pace` | a target | its in-flight limit and pause |
/// | `slots#…` | `0000000000` | a group of 32 in-flight slots of a target |
/// | `hedges` | `credit` | calls of all processes that are not used up by doubled ones |
/// | `seats` | `0000000000` | jobs that are admitted and have not ended, a group of them |
/// | `admission` | `turn` | how far the line of waiting jobs has come |
/// | `nodes` | a node | when a process that stores events was last seen |
/// | `dead#…` | `dead` / `event#…` | a dead letter and its trail |
pub mod record {
    use super::*;

    /// The start of the partition of a job, before its id, and the sort key of the job itself there.
    pub const JOB_PARTITION: &str = "job#";
    pub const JOB: &str = "job";
    /// Sort prefixes within a partition.
    pub const EVENTS: &str = "event#";
    pub const PAGES: &str = "page#";
    pub const PAGE_EVENTS: &str = "pagelog#";
    pub const UNCLAIMED_CALLS: &str = "calls#";
    pub const JOB_UPLOADS: &str = "upload#";
    pub const JOB_DELIVERIES: &str = "delivery#";
    pub const TENANT_API_KEYS: &str = "apikey#";
    pub const LEDGER: &str = "ledger#";
    pub const NOTICES: &str = "notice#";
    /// The prefix of all webhooks of a tenant.
    pub const TENANT_WEBHOOKS: &str = "webhook";
    /// The id of the webhook whose key has none.
    pub const DEFAULT_WEBHOOK: &str = "default";

    /// Sort keys and partitions that identify what a record holds.
    pub const PASSWORD: &str = "secret";
    pub const HEALING: &str = "healing";
    pub const SLOTS: &str = "slots#";
    pub const BREAKERS: &str = "breaker";
    pub const PACES: &str = "pace";
    pub const HEDGES: &str = "hedges";
    pub const NODES: &str = "nodes";
    pub const SEATS: &str = "seats";

    pub fn job_partition(job: &JobId) -> String {
        format!("{JOB_PARTITION}{job}")
    }

    pub fn job(job: &JobId) -> Key {
        Key::new(job_partition(job), JOB)
    }

    /// Model calls of a worker that had lost its page; `id` is new for each.
    pub fn unclaimed_calls(job: &JobId, id: &str) -> Key {
        Key::new(job_partition(job), format!("{UNCLAIMED_CALLS}{id}"))
    }

    pub fn page(job: &JobId, page: PageNumber) -> Key {
        Key::new(job_partition(job), format!("{PAGES}{:010}", page.get()))
    }

    pub fn healing(job: &JobId) -> Key {
        Key::new(job_partition(job), HEALING)
    }

    pub fn countdown(job: &JobId) -> Key {
        Key::new(job_partition(job), "countdown")
    }

    /// The countdown of the range that starts with page `first`.
    pub fn range_countdown(job: &JobId, first: PageNumber) -> Key {
        Key::new(job_partition(job), format!("countdown#{:010}", first.get()))
    }

    pub fn due(job: &JobId) -> Key {
        Key::new(job_partition(job), "due")
    }

    /// The spent and reserved part of the job's budget.
    pub fn job_expenses(job: &JobId) -> Key {
        Key::new(job_partition(job), "expenses")
    }

    pub fn wake(job: &JobId) -> Key {
        Key::new(job_partition(job), "wake")
    }

    pub fn password(job: &JobId) -> Key {
        Key::new(job_partition(job), PASSWORD)
    }

    pub fn job_upload(job: &JobId, upload: &str) -> Key {
        Key::new(job_partition(job), format!("{JOB_UPLOADS}{upload}"))
    }

    /// Names a webhook delivery about a job.
    pub fn job_delivery(job: &JobId, delivery: &str) -> Key {
        Key::new(job_partition(job), format!("{JOB_DELIVERIES}{delivery}"))
    }

    pub fn idempotency_partition(tenant: &TenantId) -> String {
        format!("idempotency#{tenant}")
    }

    pub fn idempotency(tenant: &TenantId, key: &str) -> Key {
        Key::new(idempotency_partition(tenant), key)
    }

    pub fn upload(id: &str) -> Key {
        Key::new(format!("upload#{id}"), "upload")
    }

    pub fn tenant_partition(tenant: &TenantId) -> String {
        format!("tenant#{tenant}")
    }

    pub fn overrides(tenant: &TenantId) -> Key {
        Key::new(tenant_partition(tenant), "overrides")
    }

    /// The spent and reserved part of the tenant's budget for a month.
    pub fn tenant_expenses(tenant: &TenantId, month: &str) -> Key {
        Key::new(tenant_partition(tenant), format!("expenses#{month}"))
    }

    /// The place in line of the tenant's last document of a level.
    pub fn last_place(tenant: &TenantId, level: Priority) -> Key {
        Key::new(tenant_partition(tenant), format!("place#{}", level.level()))
    }

    pub fn administration(tenant: &TenantId) -> Key {
        Key::new(tenant_partition(tenant), "administration")
    }

    pub fn tenant_api_key(tenant: &TenantId, id: &str) -> Key {
        Key::new(tenant_partition(tenant), format!("{TENANT_API_KEYS}{id}"))
    }

    pub fn tenant_webhook(tenant: &TenantId, id: &str) -> Key {
        let sort = match id {
            DEFAULT_WEBHOOK => TENANT_WEBHOOKS.to_owned(),
            id => format!("{TENANT_WEBHOOKS}#{id}"),
        };
        Key::new(tenant_partition(tenant), sort)
    }

    /// How the receiver of a webhook is doing.
    pub fn webhook_receiver(tenant: &TenantId, id: &str) -> Key {
        Key::new(tenant_partition(tenant), format!("receiver#{id}"))
    }

    pub fn api_key(sha256: &str) -> Key {
        Key::new(format!("apikey#{sha256}"), "apikey")
    }

    pub fn account_partition(tenant: &TenantId) -> String {
        format!("account#{tenant}")
    }

    pub fn account(tenant: &TenantId) -> Key {
        Key::new(account_partition(tenant), "account")
    }

    /// How far an account was checked.
    pub fn checked_account(tenant: &TenantId) -> Key {
        Key::new(account_partition(tenant), "checked")
    }

    /// Where the check of all accounts stands.
    pub fn account_check() -> Key {
        Key::new("accounts", "check")
    }

    /// How far the list of jobs that ended under version 0.1 has come.
    pub fn ended_jobs_backfill() -> Key {
        Key::new("jobs", "backfill")
    }

    /// The difference between an account and its trail.
    pub fn drifted_account(tenant: &TenantId) -> Key {
        Key::new(account_partition(tenant), "drift")
    }

    pub fn ledger_entry(tenant: &TenantId, sequence: u64) -> Key {
        Key::new(account_partition(tenant), format!("{LEDGER}{sequence:010}"))
    }

    pub fn purchase_partition(id: &PurchaseId) -> String {
        format!("purchase#{id}")
    }

    pub fn purchase(id: &PurchaseId) -> Key {
        Key::new(purchase_partition(id), "purchase")
    }

    pub fn payment_method(id: &PurchaseId) -> Key {
        Key::new(purchase_partition(id), "method")
    }

    pub fn erasure_partition(id: &ErasureId) -> String {
        format!("erasure#{id}")
    }

    pub fn erasure(id: &ErasureId) -> Key {
        Key::new(erasure_partition(id), "erasure")
    }

    pub fn notices_partition(tenant: &TenantId) -> String {
        format!("notices#{tenant}")
    }

    pub fn notice(tenant: &TenantId, id: &str) -> Key {
        Key::new(notices_partition(tenant), format!("{NOTICES}{id}"))
    }

    pub fn notice_group(tenant: &TenantId, kind: &str, topic: &str) -> Key {
        Key::new(notices_partition(tenant), format!("group#{kind}#{topic}"))
    }

    pub fn webhook_delivery(id: &str) -> Key {
        Key::new(format!("webhook#{id}"), "webhook")
    }

    /// `name` is a target, or `provider:*`.
    pub fn breaker(name: &str) -> Key {
        Key::new(BREAKERS, name)
    }

    /// A group of slots. Each has a partition of its own: no partition is written by every worker.
    pub fn slots(target: &Target, group: u32) -> Key {
        Key::new(format!("{SLOTS}{target}#{group}"), "group")
    }

    pub fn pace(target: &Target) -> Key {
        Key::new(PACES, target.to_string())
    }

    pub fn hedge_credit() -> Key {
        Key::new(HEDGES, "credit")
    }

    /// A group of seats.
    pub fn seats(group: u32) -> Key {
        Key::new(SEATS, format!("{group:010}"))
    }

    pub fn admission_turn() -> Key {
        Key::new("admission", "turn")
    }

    pub fn node(node: &str) -> Key {
        Key::new(NODES, node)
    }

    pub fn dead_letter(id: &DeadLetterId) -> Key {
        Key::new(format!("dead#{id}"), "dead")
    }

    /// Partition and sort prefix of an aggregate's events.
    pub fn trail(aggregate: &Aggregate) -> (String, String) {
        match aggregate {
            Aggregate::Job(job) => (job_partition(job), EVENTS.into()),
            Aggregate::Page(job, page) => (job_partition(job), format!("{PAGE_EVENTS}{:010}#", page.get())),
            Aggregate::Breaker(target) => (format!("breaker#{target}"), EVENTS.into()),
            Aggregate::DeadLetter(id) => (format!("dead#{id}"), EVENTS.into()),
            Aggregate::Account(tenant) => (account_partition(tenant), EVENTS.into()),
            Aggregate::Purchase(id) => (purchase_partition(id), EVENTS.into()),
            Aggregate::Tenant(tenant) => (tenant_partition(tenant), EVENTS.into()),
            Aggregate::Erasure(id) => (erasure_partition(id), EVENTS.into()),
        }
    }

    pub fn event(aggregate: &Aggregate, sequence: u64) -> Key {
        let (partition, prefix) = trail(aggregate);
        Key::new(partition, format!("{prefix}{sequence:010}"))
    }
}

/// Partitions of the two indexes: by tenant, and by state.
pub mod index {
    use super::*;

    /// Jobs that are admitted and have not ended.
    pub const OPEN_JOBS: &str = "jobs#open";
    /// Jobs that wait for admission, in the order of the line.
    pub const WAITING_JOBS: &str = "jobs#waiting";
    /// Those of them that have a deadline, by when they are admitted whatever the room.
    pub const DUE_JOBS: &str = "jobs#due";
    /// Jobs that have ended, until their content is removed.
    pub const ENDED_JOBS: &str = "jobs#ended";
    pub const API_KEYS: &str = "apikeys";
    pub const ACCOUNTS: &str = "accounts";
    /// Accounts that were checked; also those whose record is gone.
    pub const CHECKED_ACCOUNTS: &str = "accounts#checked";
    /// Accounts that differ from their trails.
    pub const DRIFTED_ACCOUNTS: &str = "accounts#drifted";
    pub const DEAD_LETTERS: &str = "dead";
    pub const HEALING: &str = "healing";
    pub const DUE_WEBHOOKS: &str = "webhooks";
    pub const DUE_PURCHASES: &str = "purchases#due";
    /// Purchases that wait for an operator.
    pub const MANUAL_PURCHASES: &str = "purchases#manual";
    pub const DUE_ERASURES: &str = "erasures#due";
    /// Erasures of tenants that wait for an operator.
    pub const MANUAL_ERASURES: &str = "erasures#manual";
    pub const ENDED_ERASURES: &str = "erasures#ended";
    pub const DUE_NOTICES: &str = "notices#due";
    /// Notices that were sent, or given up.
    pub const ENDED_NOTICES: &str = "notices#ended";
    /// Followed by the node that stored the events.
    pub const OUTBOX: &str = "outbox#";

    /// Where a level starts in the line: higher ones are before it.
    pub fn level(level: Priority) -> String {
        format!("{}#", Priority::Urgent.level() - level.level())
    }

    pub fn jobs(tenant: &TenantId) -> String {
        format!("jobs#{tenant}")
    }

    pub fn uploads(tenant: &TenantId) -> String {
        format!("uploads#{tenant}")
    }

    pub fn events(tenant: &TenantId) -> String {
        format!("events#{tenant}")
    }

    pub fn notices(tenant: &TenantId) -> String {
        format!("notices#{tenant}")
    }

    pub fn ledger(tenant: &TenantId) -> String {
        format!("ledger#{tenant}")
    }

    /// The deliveries of one webhook.
    pub fn webhook_deliveries(tenant: &TenantId, webhook: &str) -> String {
        format!("deliveries#{tenant}#{webhook}")
    }

    pub fn purchases(tenant: &TenantId) -> String {
        format!("purchases#{tenant}")
    }

    pub fn dead_letters(tenant: &TenantId) -> String {
        format!("dead#{tenant}")
    }

    /// The place of `id` in a partition that is ordered by time.
    pub fn by_time(time: Timestamp, id: impl Display) -> String {
        format!("{time:.3}#{id}")
    }

    /// Events that a process has stored and not published.
    pub fn outbox(node: &str) -> String {
        format!("{OUTBOX}{node}")
    }
}

/// Keys of blobs. A blob is whole or absent, and never changes once it exists.
pub mod blob {
    use super::*;

    /// Everything of a job.
    pub fn job(job: &JobId) -> String {
        format!("jobs/{job}/")
    }

    pub fn source(job: &JobId) -> String {
        format!("jobs/{job}/source.pdf")
    }

    /// The page count, so that a redriven job need not be opened again.
    pub fn inspection(job: &JobId) -> String {
        format!("jobs/{job}/inspected.json")
    }

    /// Text and classification of the pages `first` to `last`.
    pub fn range_text(job: &JobId, first: PageNumber, last: PageNumber) -> String {
        format!("jobs/{job}/text/{first}-{last}.json")
    }

    /// Structure that all pages share: running headers, styles of headings.
    pub fn structure(job: &JobId) -> String {
        format!("jobs/{job}/structure.json")
    }

    /// The list of a range's images, written after all of them.
    pub fn range_images(job: &JobId, first: PageNumber, last: PageNumber) -> String {
        format!("jobs/{job}/images/{first}-{last}.json")
    }

    /// The text that OCR recognized on a page.
    pub fn page_ocr(job: &JobId, page: PageNumber) -> String {
        format!("jobs/{job}/ocr/{page}.json")
    }

    pub fn page_image(job: &JobId, page: PageNumber, extension: &str) -> String {
        format!("jobs/{job}/pages/{page}.{extension}")
    }

    /// Context that is too large for the page message; `digest` names its content.
    pub fn page_context(job: &JobId, page: PageNumber, digest: &str) -> String {
        format!("jobs/{job}/context/{page}-{digest}.txt")
    }

    /// The page messages of a plan. Named by content: a plan that was drawn up but not proposed in
    /// time never gets in the way of another.
    pub fn manifest(job: &JobId, plan: u32, digest: &str) -> String {
        format!("jobs/{job}/manifest-v{plan}-{digest}.json")
    }

    /// AI text that is too large for the page's record.
    pub fn page_text(job: &JobId, page: PageNumber, sha256: &str) -> String {
        format!("jobs/{job}/answers/{page}-{sha256}.txt")
    }

    /// One form of a result version. A job is redriven only while it has no result; what an earlier
    /// run stored and could not publish stays where it is, under that run's number.
    pub fn result(job: &JobId, redrives: u32, version: u32, extension: &str) -> String {
        let run = if redrives == 0 { String::new() } else { format!("redrive-{redrives}/") };
        format!("jobs/{job}/result/{run}v{version}.{extension}")
    }

    /// Where the page trails stood when the job's trail was sealed.
    pub fn seal(job: &JobId, digest: &str) -> String {
        format!("jobs/{job}/seal/{digest}.json")
    }
}
