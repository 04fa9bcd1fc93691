//! Conformance of the vault: KMS keys.

use std::sync::Arc;

use everypage_aws::{Clients, KmsVault};
use everypage_testkit::conformance::vault::Subject;

use super::emulator;

async fn key(clients: &Clients) -> String {
    clients.kms.create_key().send().await.unwrap().key_metadata.unwrap().key_id
}

everypage_testkit::vault_conformance!(async {
    let (here, elsewhere) = (emulator::connect().await, emulator::connect().await);
    let (ours, theirs) = (key(&here).await, key(&here).await);
    Subject::new(
        Arc::new(KmsVault::new(here.kms.clone(), &ours)),
        Arc::new(KmsVault::new(elsewhere.kms, &ours)),
        Arc::new(KmsVault::new(here.kms, theirs)),
    )
});
