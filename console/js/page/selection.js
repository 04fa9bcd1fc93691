// The pages of a document that belong to a job.

/** Parses the `pages` option: `all`, or ranges in order such as `1-10,12,40-`. `last` is the document's last page. */
export function selection(text, last) {
  const ranges = (text === 'all' ? '1-' : text).split(',').map((range) => {
    const [from, to = from] = range.split('-');
    return [Number(from), Math.min(to === '' ? last : Number(to), last)];
  });
  return {
    has: (page) => ranges.some(([from, to]) => from <= page && page <= to),
    /** The nearest selected page on either side, if any. */
    before: (page) =>
      ranges.findLast(([from, to]) => from < page && from <= to)?.map((end) => Math.min(end, page - 1))[1],
    after: (page) => ranges.find(([from, to]) => to > page && from <= to)?.map((end) => Math.max(end, page + 1))[0],
  };
}
