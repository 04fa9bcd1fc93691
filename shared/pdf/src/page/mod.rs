//! One page: its text, its graphics, its classification and its image.

mod classify;
mod confidence;
mod content;
mod fields;
mod figures;
mod geometry;
mod graphics;
mod grid;
mod recorder;
mod render;
mod shape;
mod sheet;
mod structure;
mod text_quality;

pub(crate) use classify::{reason, reason_without_images};
pub(crate) use confidence::confidence;
pub(crate) use content::TextContent;
pub(crate) use fields::fields;
pub(crate) use figures::{Cluster, clusters};
pub(crate) use geometry::Area;
pub(crate) use graphics::{Drawing, Graphics};
pub(crate) use render::render;
pub(crate) use sheet::Sheet;
