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
    context.addIssue({ code: "custom", message: "must be a GUID, or a list of GUIDs like [g1,g2]" });
    return [];
  });
});

/**
 * The parameters of `pinboarddata` by their names in lower case (0.3, B.11 to B.13): the GUIDs in lower case, what says
 * nothing absent.
 */
export const pinboardParameters = z.object({
  id: z.string({ error: "is missing: the GUID of a pinboard" }).pipe(guid),
  /** Every value that was given. */
  vizid: z
    .array(guids)
    .transform((lists) => [...new Set(lists.flat())])
    .prefault([]),
  batchsize: whole(1),
  pagenumber: whole(1),
  offset: whole(0),
  formattype: z.enum(["COMPACT", "FULL"], { error: "must be FULL or COMPACT" }).prefault("COMPACT"),
});

/** What stands in the answer beside the rows of a visualization (B.11). */
const frame = {
  name: z.string(),
  columnNames: z.array(z.string()),
  samplingRatio: z.literal(1),
  totalRowCount: z.int(),
  rowCount: z.int(),
  pageSize: z.int(),
  offset: z.int(),
};

/** The answer of `pinboarddata` in the form COMPACT, by the visualizations' ids (B.11). */
export const compactData = z.record(z.guid(), z.strictObject({ ...frame, data: z.array(z.array(z.unknown())) }));

/** The answer of `pinboarddata` in the form FULL, by the visualizations' ids (B.11). */
export const fullData = z.record(
  z.guid(),
  z.strictObject({ ...frame, data: z.array(z.record(z.string(), z.unknown())) }),
);

/** The parameter of `listvizheaders`. */
export const headerParameters = z.object({ id: guid });

/** One object of the answer of `listvizheaders` (specification 2.6, B.14). Times are in epoch milliseconds. */
export const visualizationHeader = z.strictObject({
  id: z.guid(),
  name: z.string(),
  author: z.guid(),
  created: z.int(),
  modified: z.int(),
  modifiedBy: z.guid(),
  owner: z.guid(),
  vizType: z.enum(["TABLE", "CHART", "HEADLINE"]),
  title: z.strictObject({ value: z.strictObject({ text: z.string() }) }),
});
export type VisualizationHeader = z.infer<typeof visualizationHeader>;
