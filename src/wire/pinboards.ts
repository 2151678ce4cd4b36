import { z } from "zod";

const guid = z.guid({ error: "must be a GUID" }).transform((text) => text.toLowerCase());

/** `-1` says nothing, as does leaving it out; otherwise a whole number from `least` on (B.13). */
function whole(least: number) {
  const error = `must be a whole number, at least ${least}, or -1`;
  return z
    .string()
    .regex(/^-?\d+$/, { error })
    .transform(Number)
    .refine((value) => value === -1 || (value >= least && Number.isSafeInteger(value)), { error })
    .transform((value) => (value === -1 ? undefined : value))
    .optional();
}

/** GUIDs in one of the forms of B.12: one, or several between brackets, quoted or not. Empty: none. */
const guids = z.string().transform((text, context): string[] => {
  const trimmed = text.trim();
  const inside = /^\[(.*)\]$/s.exec(trimmed)?.[1];
  const parts = inside === undefined ? [trimmed] : inside.split(",").map((part) => part.trim());
  if (parts.length === 1 && parts[0] === "") return [];
  return parts.flatMap((part) => {
    const parsed = guid.safeParse(inside === undefined ? part : part.replace(/^"(.*)"$/, "$1"));
    if (parsed.success) return parsed.data;
    context.addIssue("must be a GUID, or a list of GUIDs like [g1,g2]");
    return [];
  });
});

/**
 * The parameters of `pinboarddata` by their names in lower case (0.3, B.11 to B.13): the GUIDs in lower case, what says
 * nothing absent.
 */
export const pinboardParameters = z.object({
  id: z.string({ error: "is missing: the GUID of a pinboard" }).pipe(guid).describe("The GUID of a pinboard."),
  vizid: z
    .array(guids)
    .transform((lists) => [...new Set(lists.flat())])
    .prefault([])
    .describe("GUIDs of visualizations: one, several, or `[g1,g2]`. Empty means all."),
  batchsize: whole(1).describe("Rows in a page; -1 means all."),
  pagenumber: whole(1).describe("From 1; with `batchsize`, wins over `offset`."),
  offset: whole(0).describe("The first row, from 0."),
  formattype: z
    .enum(["COMPACT", "FULL"], { error: "must be FULL or COMPACT" })
    .prefault("COMPACT")
    .describe("`COMPACT`: rows are arrays. `FULL`: rows are objects."),
});

/** What the answer says of a visualization beside its rows (B.11). */
const summary = {
  name: z.string(),
  columnNames: z.array(z.string()),
  samplingRatio: z.literal(1),
  totalRowCount: z.int().describe("The rows of the whole result."),
  rowCount: z.int().describe("The rows in this answer."),
  pageSize: z.int().describe("`batchsize`, or -1."),
  offset: z.int().describe("Where this page starts, or -1."),
};

/** The answer of `pinboarddata` in the form COMPACT, by the visualizations' ids (B.11). */
export const compactData = z.record(z.guid(), z.strictObject({ ...summary, data: z.array(z.array(z.unknown())) }));

/** The answer of `pinboarddata` in the form FULL, by the visualizations' ids (B.11). */
export const fullData = z.record(
  z.guid(),
  z.strictObject({ ...summary, data: z.array(z.record(z.string(), z.unknown())) }),
);

/** The parameter of `listvizheaders`. */
export const headerParameters = z.object({ id: guid.describe("The GUID of a pinboard.") });

/** One object of the answer of `listvizheaders` (specification 2.6, B.14). Times are in epoch milliseconds. */
export const visualizationHeader = z.strictObject({
  id: z.guid(),
  name: z.string(),
  author: z.guid(),
  created: z.int().describe("Epoch milliseconds."),
  modified: z.int().describe("Epoch milliseconds."),
  modifiedBy: z.guid(),
  owner: z.guid().describe("The pinboard."),
  vizType: z.enum(["TABLE", "CHART", "HEADLINE"]),
  title: z.strictObject({ value: z.strictObject({ text: z.string() }) }),
});
export type VisualizationHeader = z.infer<typeof visualizationHeader>;
