import type { Html } from "#console/html.ts";
import { html } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import { withoutMiddle } from "#text.ts";

/** In pixels of the picture: the height of a row, of a box in it, the space between columns, and the width of a character. */
const sizes = { row: 34, box: 26, gap: 40, character: 7.6, padding: 12 } as const;

/** The most characters of a name, and the most groups that a picture has room for. */
const [longest, most] = [30, 40];

interface Node {
  readonly name: string;
  readonly below: Node[];
}

/** A box with its place, in columns and pixels. */
interface Placed {
  readonly name: string;
  readonly depth: number;
  readonly y: number;
  /** Where the line to it begins. */
  readonly from?: number | undefined;
}

/**
 * How somebody is in groups, and these in others: a tree from left to right, each group a link.
 * @param paths of each group the shortest path to it, beginning with a direct membership
 * @returns undefined where there is no room for a picture
 */
export function membershipPicture(
  root: string,
  paths: readonly (readonly string[])[],
  hrefOf: (group: string) => string,
): Html | undefined {
  if (paths.length === 0 || paths.length > most) return undefined;
  const tree: Node = { name: root, below: [] };
  for (const path of paths) {
    let at = tree;
    for (const name of path) {
      const known = at.below.find((node) => node.name === name) ?? { name, below: [] };
      if (!at.below.includes(known)) at.below.push(known);
      at = known;
    }
  }
  const boxes: Placed[] = [];
  const rows = place(tree, 0, 0, boxes);
  const depths = Math.max(...boxes.map(({ depth }) => depth));
  const widths = Array.from({ length: depths + 1 }, (_, depth) =>
    Math.max(...boxes.filter((box) => box.depth === depth).map(({ name }) => widthOf(name))),
  );
  const left = (depth: number): number => widths.slice(0, depth).reduce((sum, width) => sum + width + sizes.gap, 0.5);
  const width = Math.ceil(left(depths) + (widths[depths] ?? 0) + 1);
  const height = rows * sizes.row;
  return html`<svg
    class="paths"
    width="${width}"
    height="${height}"
    viewBox="0 0 ${width} ${height}"
    role="group"
    aria-label="Paths to groups"
  >
    ${boxes.map(({ depth, y, from }) => {
      if (from === undefined) return false;
      const [start, end] = [left(depth) - sizes.gap, left(depth)];
      const middle = (start + end) / 2;
      return html`<path d="M${start} ${from}C${middle} ${from} ${middle} ${y} ${end} ${y}" />`;
    })}
    ${boxes.map(({ name, depth, y }) => {
      const box = html`<rect
          x="${left(depth)}"
          y="${y - sizes.box / 2}"
          width="${widths[depth] ?? 0}"
          height="${sizes.box}"
          rx="6"
        />
        <text x="${left(depth) + sizes.padding}" y="${y + 4.5}">${withoutMiddle(name, longest)}</text>`;
      return depth === 0
        ? html`<g class="root">${box}</g>`
        : html`<a href="${hrefOf(name)}" data-row><title>${name}</title>${box}</a>`;
    })}
  </svg>`;
}

function widthOf(name: string): number {
  return Math.ceil(withoutMiddle(name, longest).length * sizes.character + 2 * sizes.padding);
}

/** Places a group beside the first of those that it is in. @returns how many rows these take */
function place(node: Node, depth: number, row: number, boxes: Placed[], from?: number): number {
  const y = (row + 0.5) * sizes.row;
  boxes.push({ name: node.name, depth, y, from });
  let rows = 0;
  for (const below of node.below) rows += place(below, depth + 1, row + rows, boxes, y);
  return Math.max(1, rows);
}

/** The same in words, for a narrow window: a path a line. */
export function membershipList(paths: readonly (readonly string[])[], linkOf: (group: string) => Html): Html {
  return html`<ul class="ways">
    ${paths.map(
      (path) =>
        html`<li data-row>
          ${path.map((group, index) => html`${index > 0 && html` ${icon("arrow")}<span class="aloud">which is in</span> `}${linkOf(group)}`)}
        </li>`,
    )}
  </ul>`;
}
