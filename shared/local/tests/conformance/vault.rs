//! Conformance of the vault whose key is a file.

use std::sync::Arc;

use everypage_local::FileVault;
use everypage_testkit::conformance::vault::Subject;

everypage_testkit::vault_conformance!(async {
    let folder = crate::folder();
    let [vault, again, other] =
        ["key", "key", "another"].map(|key| Arc::new(FileVault::open(&folder.join(key)).unwrap()));
    Subject::new(vault, again, other)
});
