const rim = 24; // pixels of the neighbour that stay in sight

// scrollRowTo scrolls a row sideways until one of its parts is visible, without
// scrolling the page.
export function scrollRowTo(row: Element | null, part: Element | null | undefined): void {
  if (!row || !part) return;
  const outer = row.getBoundingClientRect();
  const inner = part.getBoundingClientRect();
  if (inner.left < outer.left) row.scrollLeft -= outer.left - inner.left + rim;
  else if (inner.right > outer.right) row.scrollLeft += inner.right - outer.right + rim;
}
