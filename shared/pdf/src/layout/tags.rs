//! Finds the structure element of a glyph.

use std::collections::HashMap;

use super::content::{TagRole, TaggedRun};

/// Height of one bucket in points: about a line.
const BUCKET_POINTS: f32 = 12.0;
/// A run taller than this many buckets is no line of text.
const MAX_BUCKETS: i32 = 40;

/// The role and the identity of a structure element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub role: TagRole,
    pub element: u32,
}

/// The tagged runs of a page, by their place.
pub(super) struct TagIndex<'a> {
    runs: &'a [TaggedRun],
    buckets: HashMap<i32, Vec<u32>>,
    last: Option<usize>,
}

impl<'a> TagIndex<'a> {
    pub fn new(runs: &'a [TaggedRun]) -> Self {
        let mut buckets: HashMap<i32, Vec<u32>> = HashMap::new();
        for (index, run) in runs.iter().enumerate() {
            let (first, last) = (bucket(run.area.y0), bucket(run.area.y1));
            for at in first..=last.min(first.saturating_add(MAX_BUCKETS)) {
                buckets.entry(at).or_default().push(index as u32);
            }
        }
        Self { runs, buckets, last: None }
    }

    /// The element at a point. Neighbouring glyphs are mostly in one run, so the last one is tried first.
    pub fn at(&mut self, x: f32, y: f32) -> Option<Tag> {
        if self.runs.is_empty() {
            return None;
        }
        let contains = |run: &TaggedRun| run.area.grown(0.5).contains(x, y);
        let found = match self.last {
            Some(last) if contains(&self.runs[last]) => Some(last),
            _ => {
                let near = self.buckets.get(&bucket(y)).map(Vec::as_slice).unwrap_or_default();
                // Of overlapping runs, the later one is on top.
                near.iter().rev().map(|&index| index as usize).find(|&index| contains(&self.runs[index]))
            }
        };
        self.last = found;
        found.map(|index| Tag { role: self.runs[index].role, element: self.runs[index].element })
    }
}

fn bucket(y: f32) -> i32 {
    (y / BUCKET_POINTS).floor() as i32
}
