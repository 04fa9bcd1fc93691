//! The layout of a page: from letters and lines to blocks with roles, in reading order.
//!
//! ```text
//! letters -> fragments (words without wide gaps) -> tables with lines or tags, taken out
//!         -> columns (recursive XY cut) -> rows -> aligned tables, paragraphs -> roles
//! ```
//!
//! Pure functions over [`PageContent`]. What needs the whole document (headings, running headers and footers) is
//! decided later, in the core.

mod aligned;
mod check_boxes;
mod columns;
pub(crate) mod content;
mod equations;
mod fields;
mod fragment;
mod grid;
mod header;
mod initial;
mod letters;
mod lists;
mod margins;
mod paragraph;
mod records;
mod roles;
mod row;
mod ruled;
mod stripes;
mod tables;
mod tags;
mod turn;

#[cfg(test)]
mod tests;

use everypage_core::document::{Block, BlockKind, BlockStyle, PageBox, Table};

use self::{
    aligned::Evidence,
    columns::Item,
    content::PageContent,
    fragment::{Fragment, Fragments},
    paragraph::Draft,
    row::Row,
    tables::Found,
    turn::Turn,
};
use crate::page::Area;

/// The layout of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageLayout {
    pub blocks: Vec<Block>,
    /// Areas of tables, on the page as it is in the file.
    pub tables: Vec<Area>,
    /// Tables that neither lines nor tags show.
    pub uncertain_tables: u32,
    /// The lowest confidence of a table that was rebuilt.
    pub weakest_table: Option<f32>,
    /// Tables whose columns could not be found: their text is there, in rows that mean little.
    pub broken_tables: u32,
    /// Frames of forms whose labels and fields could not be brought together.
    pub broken_forms: u32,
    /// Areas of captions that name a figure.
    pub figure_captions: Vec<Area>,
    /// Places with equations that a line of text can't hold.
    pub equations: u32,
}

/// A page with more letters is an attack or a wallpaper of text: its lines are kept as they are.
const MAX_GLYPHS: usize = 60_000;

/// Reads the layout of a page.
pub(crate) fn read(mut content: PageContent) -> PageLayout {
    if content.lines.iter().map(|line| line.glyphs.len()).sum::<usize>() > MAX_GLYPHS {
        return lines_as_they_are(&content);
    }
    let turn = Turn::of(&content);
    turn.apply(&mut content);
    let Fragments { mut level, sideways } = fragment::fragments(&content);
    let body_size = body_size(&level);
    let mut blocks = Blocks::new(turn, content.page, body_size, &level);
    let mut line_numbers = margins::take_line_numbers(&mut level);
    initial::join_initials(&mut level);
    fields::add(&mut level, &content);
    fields::join_filled(&mut level, &content.rules);
    check_boxes::add(&mut level, &content);
    let tables::Taken { found: tables, broken, line_numbers: of_code } =
        tables::take(&mut level, &content, &turn);
    line_numbers.extend(of_code);
    blocks.layout.broken_tables = broken.tables;
    blocks.layout.broken_forms = broken.forms;
    blocks.layout.equations = equations::count(&content, &tables);
    let figures = figures(&content, &mut level, &tables, body_size);
    let is_right_to_left = level.iter().filter(|line| line.is_right_to_left).count() * 2 > level.len();
    for region in columns::regions(items(&level, &tables, &figures), is_right_to_left) {
        read_region(region, &level, &tables, &figures, &mut blocks);
    }
    for (fragment, kind) in line_numbers
        .iter()
        .map(|fragment| (fragment, BlockKind::Margin))
        .chain(sideways.iter().map(|fragment| (fragment, sideways_kind(fragment, &content.page))))
    {
        blocks.push_fragment(fragment, kind);
    }
    blocks.finish()
}

/// One block with the lines in the file's order.
fn lines_as_they_are(content: &PageContent) -> PageLayout {
    let mut text = String::new();
    for line in &content.lines {
        text.extend(line.glyphs.iter().filter_map(|glyph| letters::mapped(glyph.c)));
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    let block = Block { area: page_box(&content.page), text, ..Block::default() };
    PageLayout { blocks: vec![block], ..PageLayout::default() }
}

/// Sideways text at an edge belongs to the page; elsewhere it labels something.
fn sideways_kind(fragment: &Fragment, page: &Area) -> BlockKind {
    let x = fragment.area.center().0 - page.x0;
    let is_at_edge = x < 0.09 * page.width() || x > 0.91 * page.width();
    if is_at_edge { BlockKind::Margin } else { BlockKind::Paragraph }
}

/// A figure with the labels in it.
struct Figure {
    area: Area,
    labels: Vec<Fragment>,
}

/// Takes the labels of figures out of the text. Prose over a picture stays text.
fn figures(
    content: &PageContent,
    fragments: &mut Vec<Fragment>,
    tables: &[Found],
    body_size: f32,
) -> Vec<Figure> {
    let page = content.page.size();
    let captions: Vec<Area> =
        fragments.iter().filter(|line| roles::names_figure(&line.text)).map(|line| line.area).collect();
    let mut figures = Vec::new();
    for cluster in content.clusters.iter().take(500) {
        let area = cluster.area;
        let is_figure = cluster.is_figure(page) || cluster.is_named(page, &captions);
        let in_table = tables.iter().any(|table| table.area.intersect(&area).is_valid());
        if !is_figure || in_table || area.size() > 0.7 * page || figures.len() >= 50 {
            continue;
        }
        let is_label = |fragment: &Fragment, reach: f32| {
            let (x, y) = fragment.area.center();
            area.grown(reach).contains(x, y) && !roles::is_caption(&fragment.text)
        };
        // Labels of axes are around a figure: small and short.
        let is_around = |fragment: &Fragment| {
            fragment.size < 0.93 * body_size
                && fragment.glyphs <= 24
                && is_label(fragment, 2.2 * fragment.size)
        };
        let inside = || fragments.iter().filter(|fragment| is_label(fragment, 0.0));
        let characters: usize = inside().map(|fragment| fragment.text.chars().count()).sum();
        if characters > 25 * inside().count() {
            continue;
        }
        let (labels, rest): (Vec<Fragment>, Vec<Fragment>) =
            fragments.drain(..).partition(|fragment| is_label(fragment, 0.0) || is_around(fragment));
        *fragments = rest;
        let area = labels.iter().fold(area, |all, label| all.union(&label.area));
        figures.push(Figure { area, labels });
    }
    for image in content.images.iter().take(200) {
        let is_large = image.size() > 0.01 * content.page.size() && image.size() < 0.6 * content.page.size();
        let has_text = fragments.iter().any(|fragment| {
            let (x, y) = fragment.area.center();
            image.contains(x, y)
        });
        let is_known = figures.iter().any(|figure| figure.area.intersect(image).is_valid());
        if image.is_valid()
            && is_large
            && !has_text
            && !is_known
            && !tables.iter().any(|table| table.area.intersect(image).is_valid())
        {
            figures.push(Figure { area: *image, labels: Vec::new() });
        }
    }
    figures
}

/// Everything on the page that has a place in the reading order: fragments, then tables, then figures.
fn items(fragments: &[Fragment], tables: &[Found], figures: &[Figure]) -> Vec<Item> {
    let texts = fragments.iter().map(|line| (line.area, Some(line.text.chars().count() as u32), line.size));
    let objects = tables.iter().map(|table| table.area).chain(figures.iter().map(|figure| figure.area));
    texts
        .chain(objects.map(|area| (area, None, 10.0)))
        .enumerate()
        .map(|(index, (area, characters, size))| Item { area, index, characters, size })
        .collect()
}

/// Reads a region without columns: rows, tables among them, paragraphs.
fn read_region(
    region: Vec<Item>,
    fragments: &[Fragment],
    tables: &[Found],
    figures: &[Figure],
    blocks: &mut Blocks,
) {
    let mut objects: Vec<usize> =
        region.iter().map(|item| item.index).filter(|index| *index >= fragments.len()).collect();
    objects.sort_by(|a, b| {
        let top =
            |index: &usize| region.iter().find(|item| item.index == *index).map_or(0.0, |item| item.area.y0);
        top(a).total_cmp(&top(b))
    });
    let mut objects = objects.into_iter().peekable();
    let texts =
        region.iter().filter(|item| item.index < fragments.len()).map(|item| fragments[item.index].clone());
    let rows = row::rows(texts.collect());
    let area_of = |index: usize| {
        let object = index - fragments.len();
        tables.get(object).map_or_else(|| figures[object - tables.len()].area, |table| table.area)
    };
    let push_object = |index: usize, blocks: &mut Blocks| {
        let object = index - fragments.len();
        match tables.get(object) {
            Some(table) => blocks.push_table(table.area, table.table.clone(), table.confidence),
            None => blocks.push_figure(&figures[object - tables.len()]),
        }
    };
    let mut from = 0;
    while from < rows.len() {
        // Rows up to the next object in the region.
        while let Some(index) = objects.next_if(|index| area_of(*index).center().1 <= rows[from].baseline) {
            push_object(index, blocks);
        }
        let end = match objects.peek() {
            Some(index) => {
                let middle = area_of(*index).center().1;
                from + rows[from..].partition_point(|row| row.baseline < middle)
            }
            None => rows.len(),
        };
        let end = end.max(from + 1);
        read_rows(&rows[from..end], blocks);
        from = end;
    }
    for index in objects {
        push_object(index, blocks);
    }
}

fn read_rows(rows: &[Row], blocks: &mut Blocks) {
    let mut from = 0;
    for run in aligned::runs(rows) {
        let cells = match aligned::table(&rows[run.clone()], &[], Evidence::Alignment) {
            Ok(cells) => cells,
            Err(refused) => {
                blocks.layout.broken_tables += u32::from(refused.is_tabular);
                continue;
            }
        };
        blocks.push_lines(&rows[from..run.start]);
        let area = rows[run.clone()].iter().fold(Area::empty(), |all, row| all.union(&row.area));
        let confidence = cells.confidence;
        let table = cells.finish(&blocks.turn);
        blocks.push_table(area, table, confidence);
        from = run.end;
    }
    blocks.push_lines(&rows[from..]);
}

/// The size of most letters on the page.
fn body_size(fragments: &[Fragment]) -> f32 {
    let mut sizes: std::collections::BTreeMap<i32, u32> = std::collections::BTreeMap::new();
    for fragment in fragments {
        *sizes.entry((fragment.size * 2.0).round() as i32).or_default() += fragment.glyphs;
    }
    sizes.into_iter().max_by_key(|(_, glyphs)| *glyphs).map_or(10.0, |(size, _)| size as f32 / 2.0)
}

/// The blocks of a page in the making.
struct Blocks {
    turn: Turn,
    page: Area,
    body_size: f32,
    /// Where the last line of body size is: footnotes are below.
    lowest_text: f32,
    layout: PageLayout,
    footnotes: Vec<Block>,
}

impl Blocks {
    fn new(turn: Turn, page: Area, body_size: f32, fragments: &[Fragment]) -> Self {
        let lowest_text = fragments
            .iter()
            .filter(|line| (line.size - body_size).abs() < 0.3 && line.glyphs > 12)
            .map(|line| line.area.y1)
            .fold(page.y0, f32::max);
        Self { turn, page, body_size, lowest_text, layout: PageLayout::default(), footnotes: Vec::new() }
    }

    fn page_box(&self, area: &Area) -> PageBox {
        page_box(&self.turn.original(area))
    }

    fn push_table(&mut self, area: Area, table: Table, confidence: f32) {
        if table.rows.is_empty() {
            return;
        }
        self.layout.tables.push(self.turn.original(&area));
        self.layout.uncertain_tables += u32::from(confidence < 1.0);
        self.layout.weakest_table = Some(self.layout.weakest_table.unwrap_or(1.0).min(confidence));
        let style = BlockStyle {
            size: tenths(self.body_size),
            lines: table.rows.len().min(1_000) as u16,
            ..BlockStyle::default()
        };
        let block = Block {
            kind: BlockKind::Table,
            area: self.page_box(&area),
            table: Some(table),
            style,
            ..Block::default()
        };
        self.layout.blocks.push(block);
    }

    fn push_figure(&mut self, figure: &Figure) {
        let text = row::rows(figure.labels.clone())
            .iter()
            .map(|row| row.joined().text)
            .collect::<Vec<_>>()
            .join("\n");
        let block =
            Block { kind: BlockKind::Figure, area: self.page_box(&figure.area), text, ..Block::default() };
        self.layout.blocks.push(block);
    }

    fn push_fragment(&mut self, fragment: &Fragment, kind: BlockKind) {
        let style = BlockStyle { size: tenths(fragment.size), lines: 1, ..BlockStyle::default() };
        let area = self.page_box(&fragment.area);
        self.layout.blocks.push(Block { kind, area, text: fragment.text.clone(), style, ..Block::default() });
    }

    fn push_lines(&mut self, rows: &[Row]) {
        let lines: Vec<Fragment> = rows.iter().map(Row::joined).collect();
        let mut list: Vec<f32> = Vec::new();
        for draft in paragraph::paragraphs(&lines) {
            self.push_draft(draft, &mut list);
        }
    }

    /// `list` has the indents of the list items before, to find the depth of the next.
    fn push_draft(&mut self, mut draft: Draft, list: &mut Vec<f32>) {
        draft.text.retain(|c| c != '\u{ad}');
        let (kind, mut level, tagged) = roles::kind(&draft, self.body_size, &self.page, self.lowest_text);
        if kind == BlockKind::ListItem {
            list.retain(|indent| *indent < draft.area.x0 - 4.0);
            list.push(draft.area.x0);
            level = Some(list.len().min(6) as u8);
        } else {
            list.clear();
        }
        if kind == BlockKind::Caption && roles::names_figure(&draft.text) {
            self.layout.figure_captions.push(self.turn.original(&draft.area));
        }
        let style = BlockStyle {
            size: tenths(draft.size),
            bold: draft.bold * 10 >= draft.glyphs * 8,
            italic: draft.italic * 10 >= draft.glyphs * 8,
            lines: draft.lines,
        };
        let area = self.page_box(&draft.area);
        let block = Block { kind, level, area, text: draft.text, table: None, style, tagged };
        if kind == BlockKind::Footnote { self.footnotes.push(block) } else { self.layout.blocks.push(block) }
    }

    fn finish(mut self) -> PageLayout {
        self.layout.blocks.append(&mut self.footnotes);
        self.layout
    }
}

fn tenths(size: f32) -> u16 {
    (size * 10.0).round() as u16
}

pub(crate) fn page_box(area: &Area) -> PageBox {
    PageBox([area.x0, area.y0, area.x1, area.y1].map(|value| value.round() as i32))
}
