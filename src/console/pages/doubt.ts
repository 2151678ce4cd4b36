import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { csvLine } from "#plan/render/csv.ts";
import { inChunks } from "#plan/render/shared.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { doubtKinds, isDoubt } from "#plan/note.ts";
import type { DoubtKind, Note, NoteDetail } from "#plan/note.ts";
import { quarantineNotes } from "#sync/planning/notes.ts";
import { quarantinedHeader, quarantinedRow } from "#state/quarantined.ts";
import type { QuarantinedRecords } from "#state/quarantined.ts";
import { hasReadAll } from "#state/record.ts";
import { download } from "#console/context.ts";
import type { AppOptions, Send } from "#console/context.ts";
import { filled } from "#console/selection.ts";
import type { RunRecord } from "#state/record.ts";
import { empty, name, notice, prose, series, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { icon } from "#console/icons.ts";

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
    return download(reply, `${what}.csv`).send(Readable.from(inChunks(list)));
  });
}

/** A sync with its last run that has read everything; absent: there was none. */
export interface SyncInDoubt {
  readonly sync: string;
  readonly run?: RunRecord | undefined;
  readonly doubts: readonly (Note & { readonly doubt: DoubtKind })[];
  /** Whether the quarantined records are stored, not only their most frequent causes. */
  readonly hasRecords: boolean;
}

export interface DoubtPage extends Timed {
  readonly syncs: readonly SyncInDoubt[];
}

/** Quarantined records by cause, and memberships that lead nowhere by what is missing. */
export function doubt({ now, syncs }: DoubtPage): Html {
  const known = syncs.filter(({ run }) => run !== undefined);
  const inDoubt = known.filter(({ doubts }) => doubts.length > 0);
  const sure = known.filter(({ doubts }) => doubts.length === 0);
  return html`<h1>In doubt</h1>
    <p class="quiet">
      What the last run of each sync could not decide. Quarantined records stay as the target has them, and these
      memberships are left out, until the source is corrected: send the lists to its owner.
    </p>
    ${known.length === 0 && empty(html`<p>No sync has read its sources yet. Look again after the first run.</p>`)}
    ${inDoubt.map((each) => section(each, now))}
    ${sure.length > 0 && notice("good", html`<p>Nothing is in doubt in ${surely(sure, now)}.</p>`)}`;
}

/** How many syncs without a doubt have a time each; of more, the oldest is told. */
const timesShown = 6;

function surely(sure: readonly SyncInDoubt[], now: number): Html {
  const read = (run: RunRecord | undefined, rest = ""): Part =>
    run !== undefined && html` (read ${when(run.startedAt, now)}${rest})`;
  if (sure.length <= timesShown) return series(sure.map(({ sync, run }) => html`${name(sync)}${read(run)}`));
  const [oldest] = sure
    .map(({ run }) => run)
    .toSorted((a, b) => ((a?.startedAt ?? "") < (b?.startedAt ?? "") ? -1 : 1));
  return html`${series(sure.map(({ sync }) => name(sync)))}${read(oldest, " or later")}`;
}

const titles: Readonly<Record<DoubtKind, string>> = {
  quarantined: "Quarantined records",
  memberships: "Memberships that lead nowhere",
};

function section({ sync, run, doubts, hasRecords }: SyncInDoubt, now: number): Html {
  return html`<section aria-label="${sync}">
    <h2>
      ${name(sync)}
      ${run !== undefined && html`<small>read ${when(run.startedAt, now)} by <a href="${at("/runs", run.id)}">run ${run.id}</a></small>`}
    </h2>
    ${doubts.map((each) => card(each, sync, hasRecords))}
  </section>`;
}

/** The causes of one kind of doubt, with the list of what they are about. */
function card(
  { doubt: what, text: heading, details = [] }: SyncInDoubt["doubts"][number],
  sync: string,
  hasRecords: boolean,
): Html {
  return html`<article class="card" aria-label="${titles[what]} of ${sync}">
    <header>
      <h3>${titles[what]}</h3>
      <a class="button secondary small" href="${list(what, sync)}" download
        >${icon("download")} <span class="aloud">${titles[what]} as </span>CSV</a
      >
    </header>
    <p>${prose(heading)}.</p>
    <ul class="causes">
      ${details.map(({ text }) => html`<li data-row><bdi>${prose(text)}</bdi></li>`)}
    </ul>
    <p class="quiet"><small>The list has ${content(what, hasRecords)}.</small></p>
  </article>`;
}

/** What a list has. */
function content(what: DoubtKind, hasRecords: boolean): string {
  if (what === "memberships") return "a row for each cause above";
  return hasRecords
    ? "a row for each record"
    : "a row for each cause above: the records of this run are not stored, those of the next one will be";
}

function list(what: DoubtKind, sync: string): string {
  return withQuery("/doubt/download", { what, sync });
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
