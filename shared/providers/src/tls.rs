//! TLS by rustls and ring, trusting whom the machine trusts.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

/// With `system_roots`, the machine's own store decides (so a company's CA works once installed).
///
/// Without them, or where the machine has none, nobody is trusted: plain HTTP on loopback still
/// works, and an HTTPS call fails on its own instead of the whole program at start.
pub(crate) fn client_config(system_roots: bool) -> Result<ClientConfig, Error> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
    };
    // Reading some 150 certificates takes milliseconds that a plain-HTTP program need not spend.
    if system_roots && let Ok(trusting) = builder()?.with_platform_verifier() {
        return Ok(trusting.with_no_client_auth());
    }
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}
