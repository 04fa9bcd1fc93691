//! Landlock: no path can be opened, no TCP port connected or bound, no process outside signalled.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetError, RulesetStatus, Scope,
};

/// The newest version that was tried here; older kernels enforce what they know of it.
const VERSION: ABI = ABI::V6;

/// Restricts this thread and the threads that it starts. Whether the kernel enforces any of it.
pub fn restrict() -> bool {
    try_restrict().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

fn try_restrict() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?
        .restrict_self()
}
