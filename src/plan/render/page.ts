import { createHash } from "node:crypto";
import { visible } from "#text.ts";

/** Text of a page: foreign text only comes in through `escaped`. */
export type Html = string;

/** Foreign text in a page. What is hidden in it can be seen, and nothing in it is markup. */
export function escaped(text: string): Html {
  return visible(text).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The same, kept from changing the order of what stands around it. */
export function isolated(text: string): Html {
  return `<bdi>${escaped(text)}</bdi>`;
}

/** Nothing is fetched, and nothing runs: one file that can be sent around and kept. */
const style = `
:root { color-scheme: light dark; --text: #1c2126; --quiet: #5c6773; --line: #d9dee3; --back: #fff; --soft: #f4f6f8;
  --create: #116329; --update: #7a4d00; --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ec; --quiet: #9aa5b1; --line: #3a424b; --back: #14181c;
  --soft: #1e242a; --create: #6cc788; --update: #e3b341; --delete: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; font: 15px/1.5 system-ui, sans-serif; color: var(--text);
  background: var(--back); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; padding: .25rem 0; border-bottom: 2px solid currentcolor; }
a { color: inherit; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1.5rem; }
dl.facts dt, .quiet { color: var(--quiet); }
dl.facts dd { margin: 0; grid-column: 2; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem; text-align: end; border-bottom: 1px solid var(--line); }
th:first-child { text-align: start; }
code { font: .9em ui-monospace, monospace; }
pre { padding: .75rem; background: var(--soft); white-space: pre-wrap; font: .9em/1.45 ui-monospace, monospace; }
.create, .good { color: var(--create); } .update, .waiting { color: var(--update); } .delete, .bad { color: var(--delete); }
.some { content-visibility: auto; contain-intrinsic-size: auto 4000px; }
.change { display: grid; grid-template-columns: minmax(8rem, 1fr) 3fr; gap: 0 1rem; padding: .35rem 0;
  border-bottom: 1px solid var(--line); }
.change b { font-weight: 600; }
del { color: var(--delete); } ins { color: var(--create); text-decoration: none; }
.member { display: inline-block; margin: 0 .8em 0 0; text-decoration: none; }
summary { cursor: pointer; color: var(--quiet); }
@media (max-width: 40rem) { .change { grid-template-columns: 1fr; } body { padding: .75rem; } th, td { padding: .3rem; } }
@media print { :root { color-scheme: light; --text: #000; --quiet: #444; --line: #bbb; --back: #fff; --soft: #fff;
  --create: #0b4a1d; --update: #5c3a00; --delete: #8c1d18; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; } h2 { break-after: avoid; }
  .change { break-inside: avoid; } .some { content-visibility: visible; } }
`;

const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** What a page begins with. Elements are closed and attributes quoted everywhere, so that it is XML as well. */
export function pageStart(title: string): Html {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="${policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="referrer" content="no-referrer"/>
<meta name="robots" content="noindex"/>
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${isolated(title)}</h1>
`;
}

/** What it ends with. */
export const pageEnd: Html = "</main>\n</body>\n</html>\n";
