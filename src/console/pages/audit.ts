import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { auditQuery, read } from "#control/requests.ts";
import { auditEvents } from "#state/audit/entry.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import type { Sealed } from "#state/audit/chain.ts";
import { auditFormats, listAudit, renderAudit } from "#state/audit/list.ts";
import type { AuditFormat, AuditPage as Found } from "#state/audit/list.ts";
import { actorOf, entryWords, verdictWords } from "#state/audit/words.ts";
import { formatNumber } from "#text.ts";
import { empty, list, moment, name, none, notice, prose, table } from "#console/components.ts";
import { download } from "#console/context.ts";
import type { AppOptions, Send } from "#console/context.ts";
import { day, field, filters, hidden, search, select } from "#console/forms.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { filled } from "#console/selection.ts";

/** How many entries are on a page. */
const pageSize = 100;

const contentTypes: Readonly<Record<AuditFormat, string>> = {
  jsonl: "application/x-ndjson",
  csv: "text/csv; charset=utf-8",
};

/** Adds the pages of the audit log. */
export function addAuditPages(scope: FastifyInstance, { control }: AppOptions, send: Send): void {
  scope.get("/audit", async (request, reply) => {
    const fields = filled(request.query);
    const { before, from, ...filter } = read(auditQuery, fields, "query");
    const daemon = control.daemon();
    const found = await listAudit(daemon.audit, { filter, before, from, limit: pageSize });
    const runs = new Set(daemon.coordinator.runs().map(({ id }) => id));
    const page = audit({ ...found, fields, isRun: (id) => runs.has(id) });
    return send(request, reply, { title: "Audit", section: "audit" }, page);
  });

  scope.get("/audit/download", async (request, reply) => {
    const { format: wanted, ...fields } = filled(request.query);
    const format = auditFormats.find((each) => each === wanted);
    if (format === undefined) throw new Refusal(404, `there is no such download: ${auditFormats.join(", ")}`);
    const { before: _, from, ...filter } = read(auditQuery, fields, "query");
    return download(reply, `audit.${format}`, contentTypes[format]).send(
      renderAudit(format, control.daemon().audit, { filter, from }),
    );
  });
}

/** The fields of the filter, as they were filled in. */
export interface AuditFields {
  readonly event?: string | undefined;
  readonly by?: string | undefined;
  readonly sync?: string | undefined;
  readonly run?: string | undefined;
  /** Days: `2026-11-21`. */
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  /** Numbers of entries. */
  readonly before?: string | undefined;
  readonly from?: string | undefined;
}

export interface AuditPage extends Found {
  readonly fields: AuditFields;
  /** Whether the journal still has a run. */
  readonly isRun: (id: string) => boolean;
}

/** How many details of an entry are shown at once, and how many at most: a changed configuration can have thousands. */
const shownDetails = { once: 4, most: 50 } as const;

export function audit(page: AuditPage): Html {
  const { entries, more, fields, verification } = page;
  const isFiltered = filterKeys.some((key) => fields[key] !== undefined);
  return html`<h1>Audit</h1>
    ${verdict(page)} ${filter(page, isFiltered)}
    ${
      entries.length === 0
        ? empty(
            isFiltered || fields.before !== undefined || fields.from !== undefined
              ? html`<p>No entry matches. <a href="/audit">Show all</a></p>`
              : verification.files.length === 0
                ? html`<p>
                    There is no audit log yet. It begins with the first run, decision or change of configuration.
                  </p>`
                : html`<p>No entry can be read.</p>`,
          )
        : entryTable(page)
    }
    <nav class="paging" aria-label="Pages of entries">
      ${fields.before !== undefined && html`<a href="${withFields(fields, { before: undefined })}">Newest entries</a>`}
      ${more && html`<a href="${withFields(fields, { before: String(entries.at(-1)?.sequence ?? "") })}" rel="next">Earlier entries</a>`}
    </nav>
    <p class="downloads">
      Download ${isFiltered ? "what matches" : "all of it"}:
      <a href="${downloadOf(fields, "jsonl")}" download>JSON lines</a>
      <a href="${downloadOf(fields, "csv")}" download>CSV</a>
    </p>`;
}

/** What `rollcall audit verify` says. */
function verdict({ verification, first, fields }: AuditPage): Html | false {
  const { broken, damages, files, head } = verification;
  if (broken === undefined && files.length === 0) return false;
  const from = fields.from === undefined ? 1 : Number(fields.from);
  const words = verdictWords(verification, from);
  const since = (number: number): Html =>
    html`<a href="${withFields(fields, { from: String(number), before: undefined })}"
      >Check from entry ${formatNumber(number)} on</a
    >`;
  if (broken !== undefined) {
    // Entries that were archived elsewhere, or the one that is wrong.
    const next = first !== undefined && first > head.sequence + 1 ? first : head.sequence + 2;
    return notice(
      "bad",
      html`<p><b>${words}</b></p>
        <p>${head.sequence > 0 && html`The last good entry: ${lastGood(head)}. `}${since(next)}</p>`,
    );
  }
  if (damages.length > 0)
    return notice(
      "bad",
      html`<p><b>${words}</b></p>
        ${list(damages.map((entry) => html`${moment(entry.at)}: ${entryWords(entry).join("; ")}`))}
        <p>Once you have investigated: ${since((damages.at(-1)?.sequence ?? 0) + 1)}</p>`,
    );
  return notice(
    "good",
    html`<p>
        <b>Verified.</b> ${words}
        ${from > 1 && html`<a href="${withFields(fields, { from: undefined })}">Check all of it</a>`}
      </p>
      ${head.sequence > 0 && html`<p class="quiet">The last entry: ${lastGood(head)}</p>`}`,
  );
}

function lastGood({ sequence, hash }: Found["verification"]["head"]): Html {
  return html`<code>${sequence}:${hash}</code>`;
}

const filterKeys = ["event", "by", "sync", "run", "since", "until"] as const;

const labels: Readonly<Record<AuditEntry["event"], string>> = {
  asked: "requested a run",
  approved: "approved",
  rejected: "rejected",
  overridden: "overrode limits",
  undone: "requested an undo",
  ended: "a run ended",
  recovered: "a killed run",
  configuration: "configuration",
  "signed in": "signed in",
  "sign-in blocked": "sign-in refused",
  account: "changed an account",
  token: "access token",
  "inbox token": "token of an inbox",
  started: "started",
  stopped: "stopped",
  "journal damaged": "journal damaged",
  "audit torn": "audit log incomplete",
  "audit damaged": "audit log damaged",
};

function filter({ fields, syncs }: AuditPage, isFiltered: boolean): Html {
  const known = fields.sync === undefined || syncs.includes(fields.sync) ? syncs : [fields.sync, ...syncs];
  const events = auditEvents.map((each) => [each, labels[each]] as const);
  return filters(
    "/audit",
    [
      field("Person", search("by", fields.by, html`placeholder="a part of the name" data-search`)),
      field("Event", select("event", [["", "any"], ...events], fields.event)),
      field("Sync", select("sync", [["", "all"], ...known.map((each) => [each, each] as const)], fields.sync)),
      field("Run", search("run", fields.run)),
      field("From (UTC)", day("since", fields.since)),
      field("To (UTC)", day("until", fields.until)),
      fields.from !== undefined && hidden("from", fields.from),
    ],
    { all: isFiltered ? "/audit" : undefined },
  );
}

function entryTable({ entries, isRun }: AuditPage): Html {
  return table<Sealed>(
    "Entries of the audit log",
    [
      { label: "What", kind: "head", cell: (entry) => what(entry, isRun) },
      { label: "When", cell: ({ at: time }) => moment(time) },
      { label: "Who", cell: who },
      { label: "No.", kind: "number", cell: ({ sequence }) => html`<span class="quiet">${sequence}</span>` },
    ],
    entries,
    ({ sequence }) => html`id="entry-${sequence}"`,
  );
}

function who(entry: Sealed): Html {
  const by = actorOf(entry);
  if (by === undefined) return none;
  return html`${name(by.name)}${by.from !== by.name && html` <small class="quiet">${by.from}</small>`}`;
}

function what(entry: Sealed, isRun: (id: string) => boolean): Html {
  const { event, facts } = entry;
  const [text = event, ...details] = entryWords(entry);
  const runs = [facts["run"], facts["undoes"]].filter((id) => typeof id === "string").filter(isRun);
  return html`<div class="long">
    <bdi>${withLinks(text, runs)}</bdi>
    ${lines(details)}
  </div>`;
}

function runLink(id: string): Html {
  return html`<a href="${at("/runs", id)}">${id}</a>`;
}

/** A text with a link at each run that it names; those that it does not name follow it. */
function withLinks(text: string, runs: readonly string[]): Html {
  let parts: (string | Html)[] = [text];
  for (const id of runs)
    parts = parts.flatMap((part) =>
      typeof part === "string"
        ? part.split(id).flatMap((piece, index) => (index === 0 ? [piece] : [runLink(id), piece]))
        : [part],
    );
  return html`${parts}${runs.filter((id) => !text.includes(id)).map((id) => html` ${runLink(id)}`)}`;
}

function lines(details: readonly string[]): Html | false {
  if (details.length === 0) return false;
  const shown = details.slice(0, shownDetails.most);
  const left = details.length - shown.length;
  const list = html`${shown.map((line) => html`<small class="source"><bdi>${prose(line)}</bdi></small>`)}
  ${left > 0 && html`<small class="source">and ${formatNumber(left)} more: the downloads have all</small>`}`;
  if (details.length <= shownDetails.once) return list;
  return html`<details>
    <summary><small>${formatNumber(details.length)} details</small></summary>
    ${list}
  </details>`;
}

/** The address of the page with some fields changed. */
function withFields(fields: AuditFields, change: Partial<AuditFields>): string {
  return withQuery("/audit", { ...fields, ...change });
}

function downloadOf(fields: AuditFields, format: AuditFormat): string {
  return withQuery("/audit/download", { ...fields, before: undefined, format });
}
