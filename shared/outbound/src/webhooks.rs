//! Webhooks over HTTP, to URLs that a tenant chose and that are not trusted.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::ports::hooks::{HookError, Hooks, WebhookRequest};
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use crate::http::{self, SetupError, describe};

/// The documentation asks receivers to answer first and work afterwards.
const TIMEOUT: Duration = Duration::from_secs(10);

pub struct HttpWebhooks {
    client: Client,
    allow_private: bool,
}

impl HttpWebhooks {
    /// With `allow_private`, addresses of this machine and of private networks may be called.
    pub fn new(allow_private: bool) -> Result<Self, SetupError> {
        let client = http::client(true)?
            .timeout(TIMEOUT)
            // The client resolves names through this, so the address that is checked is the one called.
            .dns_resolver(Arc::new(CheckedResolver { allow_private }))
            .build()
            .map_err(SetupError::Client)?;
        Ok(Self { client, allow_private })
    }
}

#[async_trait]
impl Hooks for HttpWebhooks {
    fn check(&self, url: &str) -> Result<(), String> {
        check(url, self.allow_private).map(drop)
    }

    async fn post(&self, call: &WebhookRequest) -> Result<(), HookError> {
        let url = check(&call.url, self.allow_private).map_err(HookError::Refused)?;
        let mut request = self.client.post(url).body(call.body.clone());
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(HookError::Failed(format!("the receiver answered {}", answer.status()))),
            Err(error) => Err(HookError::Failed(describe(&error))),
        }
    }
}

/// Checks a URL as far as that is possible before its host name is resolved.
fn check(text: &str, allow_private: bool) -> Result<Url, String> {
    let malformed = || "the URL must be one such as https://example.com/hooks".to_owned();
    let url: Url = text.parse().map_err(|_| malformed())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(malformed());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not hold a user name or password: messages are signed instead".to_owned());
    }
    let literal = url.host_str().unwrap_or_default().trim_matches(['[', ']']).parse::<IpAddr>();
    match literal {
        Ok(address) if !allow_private && !is_public(address) => Err(NOT_PUBLIC.to_owned()),
        _ => Ok(url),
    }
}

/// Without the address that a name resolves to: tenants must not learn the operator's network from it.
const NOT_PUBLIC: &str = "the address belongs to this machine or a private network, which the operator has not \
    allowed (WEBHOOK_ALLOW_PRIVATE)";

/// Resolves names to the addresses that may be called.
struct CheckedResolver {
    allow_private: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            // The client replaces the port.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.iter().copied().filter(|found| allow_private || is_public(found.ip())).collect();
            match (allowed.is_empty(), found.first()) {
                (true, Some(_)) => Err(NOT_PUBLIC.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an address is reachable from the whole internet, so that a call to it reaches nothing that
/// only this machine can reach.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => {
                let first = address.segments()[0];
                // Global unicast is 2000::/3, without its ranges for documentation and benchmarks.
                (first & 0xe000) == 0x2000
                    && !(first == 0x2001 && matches!(address.segments()[1], 0x0db8 | 0x0002 | 0x0000))
                    && first != 0x3fff
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        // Carrier-grade NAT, IETF protocol assignments, benchmarks, and reserved addresses.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240)
}

/// The IPv4 address that an IPv6 one leads to: mapped, translated (NAT64) or tunnelled (6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return Some(mapped);
    }
    let [a, b, .., y, z] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x0064, 0xff9b) => Some(of(y, z)),
        (0x2002, _) => Some(of(b, address.segments()[2])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_globally_reachable_addresses_are_public() {
        for (text, public) in [
            ("93.184.216.34", true),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("192.168.0.1", false),
            // Metadata services of clouds, which hand out credentials.
            ("169.254.169.254", false),
            ("fd00:ec2::254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }

    #[test]
    fn a_url_is_checked_before_it_is_called() {
        for (text, reason) in [
            ("example.com/x", "such as"),
            ("ftp://example.com", "such as"),
            ("https://me:secret@example.com/", "signed"),
            ("http://127.0.0.1:9/", "private network"),
            ("http://[::1]/", "private network"),
            // Other notations of 127.0.0.1 that URL parsers accept.
            ("http://2130706433/", "private network"),
            ("http://0x7f.1/", "private network"),
        ] {
            let error = check(text, false).unwrap_err();
            assert!(error.contains(reason) && !error.contains("secret"), "{text}: {error}");
            assert!(!error.contains("127."), "the address is not named: {error}");
        }
        assert!(check("https://example.com/hooks?x=1", false).is_ok());
        assert!(check("http://127.0.0.1:9/", true).is_ok());
    }
}
