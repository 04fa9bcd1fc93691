//! One page: its text, its graphics, its classification and its image.

mod classify;
mod geometry;
mod graphics;
mod grid;
mod recorder;
mod render;
mod shape;
mod text;
mod text_quality;

pub(crate) use classify::reason;
pub(crate) use geometry::Area;
pub(crate) use graphics::Graphics;
pub(crate) use render::render;
pub(crate) use text::TextLayer;
