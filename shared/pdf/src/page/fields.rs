//! The fields of a form (AcroForm): where they are and what they hold.

use mupdf::{
    Error,
    pdf::{FieldFlags, PdfPage, PdfWidget, WidgetType},
};

use super::geometry::Area;
use crate::layout::content::{Field, FieldKind};

/// More fields on a page are an attack; the layout does without the rest.
const MAX_FIELDS: usize = 2_000;
const MAX_VALUE_CHARACTERS: usize = 2_000;
/// Flags of annotations that are not shown: hidden, and not on screens.
const UNSEEN: i32 = 2 | 32;

/// The visible fields of the page. One that can't be read is left out.
pub(crate) fn fields(page: &PdfPage) -> Vec<Field> {
    page.widgets().take(MAX_FIELDS).filter_map(|widget| field(&widget).ok().flatten()).collect()
}

fn field(widget: &PdfWidget) -> Result<Option<Field>, Error> {
    let object = widget.annotation().object();
    let flags = object.get_dict("F")?.and_then(|flags| flags.as_int().ok()).unwrap_or(0);
    let area = Area::from(widget.annotation().bounds()?);
    if flags & UNSEEN != 0 || !area.is_valid() {
        return Ok(None);
    }
    let kind = match widget.r#type()? {
        WidgetType::Checkbox | WidgetType::RadioButton => {
            // The name of the state is compared as bytes: it may be in any encoding.
            let state = object.get_dict("AS")?.and_then(|state| state.as_name().ok());
            FieldKind::Mark { is_on: state.is_some_and(|state| state != b"Off") }
        }
        WidgetType::Text if widget.field_flags()?.contains(FieldFlags::PASSWORD) => FieldKind::Secret,
        WidgetType::Text | WidgetType::Combobox | WidgetType::Listbox => FieldKind::Text,
        WidgetType::Button | WidgetType::Signature | WidgetType::Unknown => return Ok(None),
    };
    let value = match kind {
        FieldKind::Text => clean(&widget.value()?.unwrap_or_default()),
        FieldKind::Secret | FieldKind::Mark { .. } => String::new(),
    };
    // The field's name is for programs; the tooltip is for people.
    let tooltip = object.get_dict("TU")?.and_then(|text| text.as_string().ok());
    Ok(Some(Field { area, kind, value, label: clean(&tooltip.unwrap_or_default()) }))
}

/// One line without control characters.
fn clean(text: &str) -> String {
    let text: String = text.chars().take(MAX_VALUE_CHARACTERS).collect();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
