//! Callers with a token of an identity provider. API Gateway has verified its signature, issuer, audience and
//! times; what remains are the claims that name the caller.

use std::collections::HashMap;

use everypage_api::{Caller, Role};
use everypage_core::ids::TenantId;

/// Longest name of a tenant or user in a claim.
const MAX_NAME: usize = 200;

/// The names of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    tenant: String,
    role: String,
}

impl TokenClaims {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let name = |variable_name: &str, default: &str| {
            variable(variable_name).filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        Self { tenant: name("JWT_TENANT_CLAIM", "tenant"), role: name("JWT_ROLE_CLAIM", "role") }
    }

    /// The caller of a token; `None` if it names no tenant or an unknown role.
    pub fn caller(&self, claims: &HashMap<String, String>) -> Option<Caller> {
        let tenant = claims.get(&self.tenant).filter(|tenant| is_tenant(tenant))?;
        let role = match claims.get(&self.role) {
            Some(role) => role.parse().ok()?,
            None => Role::User,
        };
        let user = claims.get("sub").or_else(|| claims.get("client_id"))?;
        let is_name = (1..=MAX_NAME).contains(&user.len()) && !user.chars().any(char::is_control);
        is_name.then(|| Caller { tenant: TenantId::new(tenant), user: user.clone(), role })
    }
}

/// Whether a claim can be a tenant: the characters that `TENANTS` accepts.
fn is_tenant(name: &str) -> bool {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(claims: &[(&str, &str)]) -> Option<Caller> {
        let claims = claims.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TokenClaims::read(|name| (name == "JWT_TENANT_CLAIM").then(|| "custom:tenant".into())).caller(&claims)
    }

    #[test]
    fn a_token_names_tenant_user_and_role() {
        let found = caller(&[("custom:tenant", "acme"), ("sub", "ann"), ("role", "operator")]).unwrap();
        assert_eq!((found.tenant.as_str(), found.user.as_str(), found.role), ("acme", "ann", Role::Operator));
        assert_eq!(caller(&[("custom:tenant", "acme"), ("sub", "ann")]).unwrap().role, Role::User);
        assert_eq!(caller(&[("custom:tenant", "acme"), ("client_id", "batch")]).unwrap().user, "batch");
    }

    #[test]
    fn a_token_without_a_tenant_or_with_a_strange_one_names_no_caller() {
        for claims in [
            &[("tenant", "acme"), ("sub", "ann")][..],
            &[("custom:tenant", ""), ("sub", "ann")],
            &[("custom:tenant", "acme/../globex"), ("sub", "ann")],
            &[("custom:tenant", "[acme globex]"), ("sub", "ann")],
            &[("custom:tenant", "acme")],
            &[("custom:tenant", "acme"), ("sub", "a\u{1b}b")],
            &[("custom:tenant", "acme"), ("sub", "ann"), ("role", "root")],
        ] {
            assert_eq!(caller(claims), None, "{claims:?}");
        }
    }
}
