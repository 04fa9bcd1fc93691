//! JSON: the stored original. The other formats are rendered from it.

use super::Spec;
use crate::finish::result::ResultDocument;

pub const SPEC: Spec = Spec { names: &["json"], extension: "json", mime: "application/json", render };

fn render(document: &ResultDocument) -> Vec<u8> {
    serde_json::to_vec_pretty(document).expect("a result has only string keys")
}
