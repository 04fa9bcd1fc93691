//! One page: its text, what is painted on it, what kind of page that makes it, and its image.

mod classify;
mod geometry;
mod grid;
mod legible;
mod marks;
mod outline;
mod recorder;
mod render;
mod text;

pub(crate) use classify::reason;
pub(crate) use geometry::Area;
pub(crate) use marks::Marks;
pub(crate) use render::render;
pub(crate) use text::TextLayer;
