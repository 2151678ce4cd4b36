import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { csvLine } from "#plan/render/csv.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { doubtKinds, doubtsOf } from "#sync/planning/notes.ts";
import type { DoubtKind } from "#sync/planning/notes.ts";
import type { RunRecord } from "#sync/record.ts";
import type { AppOptions, Send } from "./context.ts";
import { doubt } from "#console/pages/doubt.ts";
import type { SyncInDoubt } from "#console/pages/doubt.ts";
import { filled } from "./selection.ts";

/** Adds the pages of what the last runs were not sure of. */
export function addDoubtPages(scope: FastifyInstance, { control }: AppOptions, send: Send): void {
  scope.get("/doubt", async (request, reply) => {
    const page = doubt({ now: Date.now(), syncs: syncsInDoubt(control.daemon().coordinator) });
    return send(request, reply, { title: "In doubt", section: "doubt", live: "/doubt" }, page);
  });

  scope.get("/doubt/download", async (request, reply) => {
    const { what: wanted, sync } = filled(request.query);
    const what = doubtKinds.find((each) => each === wanted);
    if (what === undefined) throw new Refusal(404, `there is no such list: ${doubtKinds.join(", ")}`);
    const syncs = syncsInDoubt(control.daemon().coordinator).filter((each) => sync === undefined || each.sync === sync);
    return reply
      .type("text/csv; charset=utf-8")
      .header("content-disposition", `attachment; filename="${what}.csv"`)
      .send(doubtsAsCsv(what, syncs));
  });
}

/** Whether it says something of all records: one that failed may have read nothing. */
function hasRead({ counts, for: people, undoes }: RunRecord): boolean {
  return counts !== undefined && people === undefined && undoes === undefined;
}

/** Each sync with its last run that has read everything. */
function syncsInDoubt(coordinator: Coordinator): SyncInDoubt[] {
  return coordinator.syncs().map(({ sync }) => {
    const run = coordinator.runs().find((each) => each.sync === sync && hasRead(each));
    return { sync, run, doubts: run === undefined ? [] : doubtsOf(run) };
  });
}

/** For a spreadsheet: a row for each cause, as other CSV for people. */
export function doubtsAsCsv(what: DoubtKind, syncs: readonly SyncInDoubt[]): string {
  const rows = syncs.flatMap(({ sync, run, doubts }) =>
    doubts
      .filter((each) => each.what === what)
      .flatMap(({ causes }) =>
        causes.map(({ text, kind, names }) =>
          csvLine([sync, run?.startedAt, kind, names.length === 0 ? undefined : names.join("; "), text]),
        ),
      ),
  );
  return `\uFEFF${csvLine(["sync", "time", "kind", "names", "cause"])}${rows.join("")}`;
}
