import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { csvLine } from "#plan/render/csv.ts";
import { inChunks } from "#plan/render/shared.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { doubtKinds, isDoubt } from "#plan/note.ts";
import type { DoubtKind, NoteDetail } from "#plan/note.ts";
import { quarantineNotes } from "#sync/planning/notes.ts";
import { quarantinedHeader, quarantinedRow } from "#state/quarantined.ts";
import type { QuarantinedRecords } from "#state/quarantined.ts";
import { hasReadAll } from "#state/record.ts";
import type { AppOptions, Send } from "./context.ts";
import { doubt } from "#console/pages/doubt.ts";
import type { SyncInDoubt } from "#console/pages/doubt.ts";
import { filled } from "./selection.ts";

/** How many causes of quarantined records are shown, and how many records of each. */
const most = { reasons: 50, records: 3 } as const;

/** Adds the pages of what the last runs were not sure of. */
export function addDoubtPages(scope: FastifyInstance, { control, plans }: AppOptions, send: Send): void {
  scope.get("/doubt", async (request, reply) => {
    const syncs: SyncInDoubt[] = [];
    for (const each of lastReads(control.daemon().coordinator)) {
      const records = await recordsOf(plans, each);
      const found = records && quarantineNotes(await records.summary(most)).find(isDoubt);
      syncs.push({
        ...each,
        doubts: [
          ...(found === undefined ? [] : [found]),
          ...each.doubts.filter(({ doubt }) => found === undefined || doubt !== "quarantined"),
        ],
        hasRecords: found !== undefined,
      });
    }
    return send(
      request,
      reply,
      { title: "In doubt", section: "doubt", live: "/doubt" },
      doubt({ now: Date.now(), syncs }),
    );
  });

  scope.get("/doubt/download", async (request, reply) => {
    const { what: wanted, sync } = filled(request.query);
    const what = doubtKinds.find((each) => each === wanted);
    if (what === undefined) throw new Refusal(404, `there is no such list: ${doubtKinds.join(", ")}`);
    const syncs = lastReads(control.daemon().coordinator).filter((each) => sync === undefined || each.sync === sync);
    const list =
      what === "quarantined" ? quarantinedAsCsv(syncs, (each) => recordsOf(plans, each)) : membershipsAsCsv(syncs);
    return reply
      .type("text/csv; charset=utf-8")
      .header("content-disposition", `attachment; filename="${what}.csv"`)
      .send(Readable.from(inChunks(list)));
  });
}

/** A sync with its last run that has read everything, and what its notes say. */
type LastRead = Omit<SyncInDoubt, "hasRecords">;

function lastReads(coordinator: Coordinator): LastRead[] {
  return coordinator.syncs().map(({ sync }) => {
    const run = coordinator.runs().find((each) => each.sync === sync && hasReadAll(each));
    return { sync, run, doubts: run === undefined ? [] : run.notes.filter(isDoubt) };
  });
}

/** The quarantined records of a sync, where it has any and they are stored. */
async function recordsOf(plans: AppOptions["plans"], { run }: LastRead): Promise<QuarantinedRecords | undefined> {
  return run === undefined || run.quarantined === 0 ? undefined : plans.quarantined(run);
}

function causesOf({ doubts }: LastRead, what: DoubtKind): NoteDetail[] {
  return doubts.filter(({ doubt }) => doubt === what).flatMap(({ details = [] }) => details);
}

/** For a spreadsheet: a row for each record; for each cause in the notes, where the records are not stored. */
export async function* quarantinedAsCsv(
  syncs: readonly LastRead[],
  recordsOf: (of: LastRead) => Promise<Pick<QuarantinedRecords, "all"> | undefined>,
): AsyncIterable<string> {
  yield quarantinedHeader;
  for (const each of syncs) {
    const { sync, run: { startedAt } = { startedAt: "" } } = each;
    const records = await recordsOf(each);
    if (records === undefined)
      for (const { text: reason, kind, names = [] } of causesOf(each, "quarantined"))
        yield quarantinedRow(sync, startedAt, { kind, name: names.length === 0 ? null : names.join("; "), reason });
    else
      for await (const batch of records.all())
        yield batch.map((record) => quarantinedRow(sync, startedAt, record)).join("");
  }
}

/** For a spreadsheet: a row for each cause. */
export async function* membershipsAsCsv(syncs: readonly LastRead[]): AsyncIterable<string> {
  yield `\uFEFF${csvLine(["sync", "time", "kind", "names", "cause"])}`;
  for (const each of syncs)
    for (const { text, kind, names = [] } of causesOf(each, "memberships"))
      yield csvLine([each.sync, each.run?.startedAt, kind, names.length === 0 ? undefined : names.join("; "), text]);
}
