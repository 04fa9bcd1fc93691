// Which pages of a document a job has.

/** As a job's options say it, in order: `all`, or `1-10,12,40-`. The document ends with page `last`. */
export function selection(text, last) {
  const ranges = (text === 'all' ? '1-' : text).split(',').map((range) => {
    const [from, to = from] = range.split('-');
    return [Number(from), Math.min(to === '' ? last : Number(to), last)];
  });
  return {
    has: (page) => ranges.some(([from, to]) => from <= page && page <= to),
    /** The nearest page on either side, if there is one. */
    before: (page) => ranges.findLast(([from, to]) => from < page && from <= to)?.map((end) => Math.min(end, page - 1))[1],
    after: (page) => ranges.find(([from, to]) => to > page && from <= to)?.map((end) => Math.max(end, page + 1))[0],
  };
}
