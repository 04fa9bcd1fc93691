//! A searchable PDF: the original pages with an invisible text layer.

use super::{Make, Spec};

pub const SPEC: Spec = Spec {
    names: &["pdf"],
    extension: "pdf",
    mime: "application/pdf",
    make: Make::FromSource,
    has_table_styles: false,
};
