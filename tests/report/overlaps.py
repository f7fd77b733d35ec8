"""Texts of figures that overlap in a real browser."""

COUNT = """[...document.querySelectorAll('.plot svg')].reduce((count, svg) => {
    const boxes = [...svg.querySelectorAll('text')].map(e => e.getBoundingClientRect());
    const over = (a, b, from, to) => a[from] < b[to] - 1 && b[from] < a[to] - 1;
    const meet = (a, b) => over(a, b, 'left', 'right') && over(a, b, 'top', 'bottom');
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => { count += meet(a, b); }));
    return count;
}, 0)"""


def overlapping_texts(page):
    """How many pairs, in all figures."""
    return page.evaluate(COUNT)
