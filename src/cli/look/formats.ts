/** What `rollcall show` can make of a run. */
export const formats = ["text", "json", "markdown", "html", "csv"] as const;
export type Format = (typeof formats)[number];
