//! A tenant's credits: accounts, the ledger, purchases, and the saga that carries a purchase out.

pub mod account;
pub mod accounts;
pub mod buy;
pub mod purchase;
pub mod purchases;
