//! The end of a job: results and their versions, healing, verification and deletion.

pub mod delete;
pub mod finalize;
pub mod heal;
pub mod healing;
pub mod result;
pub mod results;
pub mod verify;
