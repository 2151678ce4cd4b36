/** Names of foreign directories, and what people write into them. */
export const hostile = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  "gnp.\u202Ecod\u200B",
  "line\nbreak",
  "x".repeat(255),
  "'--",
  "&amp;",
];

/** Text as a reader sees it. */
export function textOf(page: string): string {
  return page
    .replaceAll("<wbr />", "")
    .replaceAll(/<style>[^<]*<\/style>|<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .replaceAll(" .", ".")
    .replaceAll("&#39;", "'")
    .replaceAll("&quot;", '"');
}
