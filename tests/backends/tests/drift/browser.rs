//! CORS and security headers agree with the API, the console and `serve`.

use std::collections::{BTreeMap, BTreeSet};

use everypage_backends::root;
use serde_json::{Value, json};

use crate::{between, files, list, part, template};

#[test]
fn routes_without_a_key_are_also_open_at_the_gateway() {
    let document: Value =
        serde_json::from_slice(&std::fs::read(root().join("shared/api/openapi.json")).unwrap()).unwrap();
    let open = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.filter(|(_, operation)| operation["security"] == json!([{}])).map(move |_| path.as_str())
    });
    let open: BTreeSet<&str> = open.collect();
    let template = template();
    let routes = template.lines().filter(|line| line.contains("Auth: {Authorizer: NONE}"));
    let given: BTreeSet<&str> =
        routes.map(|line| line.split("Path: ").nth(1).unwrap().split(',').next().unwrap()).collect();
    assert_eq!(given, open);
}

#[test]
fn cors_allows_exactly_the_methods_and_headers_of_the_api() {
    let document: Value =
        serde_json::from_slice(&std::fs::read(root().join("shared/api/openapi.json")).unwrap()).unwrap();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let (mut methods, mut sent, mut returned) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (method, operation) in operations {
        methods.insert(method.to_uppercase());
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let headers = parameters.filter(|parameter| parameter["in"] == "header");
        sent.extend(headers.map(|header| header["name"].as_str().unwrap().to_lowercase()));
        let answers = operation["responses"].as_object().unwrap().values();
        let headers = answers.filter_map(|answer| answer["headers"].as_object()).flatten();
        returned.extend(headers.map(|(name, _)| name.to_lowercase()));
    }
    // The OpenAPI document describes these in prose, or once for all routes.
    sent.extend(["authorization", "content-type", "if-none-match", "if-range", "range"].map(str::to_owned));
    returned.extend(["accept-ranges", "content-range", "retry-after", "x-request-id"].map(str::to_owned));
    let template = template();
    let cors = |name: &str| list(&template, "  Api:", name);
    assert_eq!(cors("AllowMethods"), methods);
    assert_eq!(cors("AllowHeaders"), sent);
    assert_eq!(cors("ExposeHeaders"), returned);
    // Each method has a route; OPTIONS has none, so that the gateway answers it.
    let api = part(&template, "  ApiFunction:");
    let routes: BTreeSet<String> = between(&api, "!Ref Api, Method: ", ",").map(str::to_owned).collect();
    assert_eq!(routes, methods);
}

#[test]
fn cors_allows_every_request_of_the_console() {
    // Headers that browsers always allow.
    const SAFE: [&str; 2] = ["accept", "content-type"];
    let template = template();
    let cors = |name: &str| list(&template, "  Api:", name);
    let (mut sent, mut read, mut methods) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (_, source) in files(&root().join("console/js"), "js") {
        // Names with a dash that are keys of an object; other such names are attributes of elements.
        let keys = source.split('\'').collect::<Vec<_>>();
        let is_key = |before: &str, after: &str| after.starts_with(':') || before.ends_with("headers[");
        let keys = keys.windows(3).filter(|parts| is_key(parts[0], parts[2])).map(|parts| parts[1]);
        sent.extend(keys.filter(|name| is_header(name)).map(str::to_owned));
        let plain =
            ["authorization", "accept"].into_iter().filter(|name| source.contains(&format!("{{ {name}: ")));
        sent.extend(plain.map(str::to_owned));
        read.extend(between(&source, "headers.get('", "')").map(str::to_owned));
        methods.extend(between(&source, "method: '", "'").map(str::to_owned));
        methods.extend(between(&source, "send('", "'").map(str::to_owned));
    }
    assert!(sent.len() >= 5 && methods.len() >= 2 && read.len() >= 2, "{sent:?} {read:?} {methods:?}");
    let refused = |wanted: &BTreeSet<String>, allowed: BTreeSet<String>| -> Vec<String> {
        wanted
            .iter()
            .filter(|name| !SAFE.contains(&name.as_str()) && !allowed.contains(*name))
            .cloned()
            .collect()
    };
    assert_eq!(refused(&sent, cors("AllowHeaders")), Vec::<String>::new());
    assert_eq!(refused(&read, cors("ExposeHeaders")), Vec::<String>::new());
    assert_eq!(refused(&methods, cors("AllowMethods")), Vec::<String>::new());
    // Outside the API: an upload link is a PUT with the document's content type.
    let bucket = part(&template, "  Bucket:");
    assert!(bucket.contains("- AllowedMethods: [PUT]\n            AllowedOrigins: [!Ref AllowedOrigin]"));
    assert!(list(&template, "  Bucket:", "AllowedHeaders").contains("content-type"));
}

fn is_header(name: &str) -> bool {
    let is_attribute = ["aria-", "data-"].iter().any(|kind| name.starts_with(kind));
    name.contains('-') && !is_attribute && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

#[test]
fn the_console_behind_cloudfront_has_the_headers_of_serve() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (console, guard) = (read("shared/serve/src/console.rs"), read("shared/serve/src/guard.rs"));
    let policy = between(&console, "const POLICY: &str = \"", "\";").next().unwrap();
    let template = read("infra/console.yaml");
    let given = between(&template, "ContentSecurityPolicy: !Sub >-\n", "          ContentTypeOptions")
        .next()
        .unwrap();
    let directives = |text: &str| -> BTreeMap<String, Vec<String>> {
        let text = text.replace('\\', " ");
        let each = text.split(';').map(|one| one.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        each.filter(|words| !words.is_empty()).map(|mut words| (words.remove(0), words)).collect()
    };
    let (mut here, mut there) = (directives(policy), directives(given));
    assert!(here.len() >= 8, "{here:?}");
    let bucket = "https://${DocumentsBucket}.s3.${AWS::Region}.${AWS::URLSuffix}";
    assert_eq!(here.remove("connect-src").unwrap(), ["'self'"]);
    assert_eq!(there.remove("connect-src").unwrap(), ["'self'", "${ApiUrl}", bucket]);
    assert_eq!(there, here);
    // Every other header that either source file sets, except those of single files.
    let all = console + guard.split("#[cfg(test)]").next().unwrap();
    let names = between(&all, "HeaderName::from_static(\"", "\")").filter(|name| name.contains("origin"));
    let values = |name: &str| format!("{{Header: {name}, Value: same-origin, Override: true}}");
    let missing: Vec<&str> = names.filter(|name| !template.contains(&values(name))).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(all.contains("X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static(\"nosniff\")"));
    assert!(template.contains("ContentTypeOptions: {Override: true}"));
    assert!(all.contains("REFERRER_POLICY, HeaderValue::from_static(\"no-referrer\")"));
    assert!(template.contains("ReferrerPolicy: {Override: true, ReferrerPolicy: no-referrer}"));
}
