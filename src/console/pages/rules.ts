import { actionsOf, usualWords, wordsOfComparison as words } from "#plan/change.ts";
import type { Counts } from "#plan/change.ts";
import { capitalized, isEmpty, nameLimits, sectionsOf, totalsOf } from "#plan/render/shared.ts";
import type { Section } from "#plan/render/shared.ts";
import type { Explanation, RecordExplanation } from "#sync/explain/explain.ts";
import type { Outcome } from "#sync/explain/outcome.ts";
import type { ExplainedTwice, Outlook, PlannedTwice, Side } from "#sync/explain/try.ts";
import { formatNumber, pluralize } from "#text.ts";
import type { Visitor } from "#console/accounts.ts";
import { empty, facts, list, name, notice, prose, section, sentence, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import type { Trial } from "#daemon/trial.ts";
import { field, filters, hidden, search, select } from "#console/forms.ts";
import { at, exactValue, html } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { byItselfHeaders, tokenField } from "#console/layout.ts";
import { changeRow, changesTogether, whatIsDone } from "#console/pages/changes.ts";
import { judgement } from "#console/pages/plan.ts";
import { bySync } from "#console/pages/explanation.ts";
import type { Stage } from "#state/record.ts";

export interface RulesPage extends Timed {
  readonly visitor: Visitor;
  /** The syncs to choose from. */
  readonly syncs: readonly string[];
  /** The one whose rules are shown; absent: there is none. */
  readonly sync?: string | undefined;
  /** Its rules as YAML, changed or not. */
  readonly text?: string | undefined;
  /** Whom to explain. */
  readonly name?: string | undefined;
  /** Why nothing was tried. */
  readonly problem?: string | undefined;
  readonly trial?: Trial | undefined;
}

/** The box to try rules in, and what they would do. */
export function rules(page: RulesPage): Html {
  const { sync, trial } = page;
  return html`<h1>Rules</h1>
    <p>
      Change the rules of a sync here and see what they would do with today's data.
      <strong>Nothing is saved or applied:</strong> no run, no plan to approve, no change of the configuration, the
      journal or the target. To use what you have tried, put it into the configuration.
    </p>
    ${
      sync === undefined
        ? empty(html`<p>There are no syncs whose rules you may try.</p>`, "rules")
        : html`${choice(page, sync)}
            <div class="trial">${form(page, sync)} ${trial !== undefined && result(page, trial)}</div>`
    }`;
}

function choice({ syncs }: RulesPage, sync: string): Html | false {
  const options = syncs.map((each) => [each, each] as const);
  return (
    syncs.length > 1 && filters("/rules", field("Sync", select("sync", options, sync)), { button: "Show its rules" })
  );
}

/** How many lines the box has at least and at most. */
const lines = { least: 12, most: 32 } as const;

function form({ visitor, text = "", name: called = "", problem, trial }: RulesPage, sync: string): Html {
  const rows = Math.min(Math.max(text.split("\n").length + 1, lines.least), lines.most);
  return html`<form method="post" action="/rules" class="card rules">
    ${tokenField(visitor)} ${hidden("sync", sync)}
    ${problem !== undefined && notice("bad", html`<p>${problem}</p>`, true)}
    ${field(
      html`Rules of ${name(sync)}`,
      html`<textarea
        name="text"
        rows="${rows}"
        spellcheck="false"
        autocapitalize="off"
        autocomplete="off"
        wrap="off"
        aria-describedby="rules-hint"
      >
${exactValue(text)}</textarea>`,
    )}
    <p id="rules-hint" class="quiet">
      <small
        >As the daemon has them, without comments. <code>***</code> stands for a secret. Leave it and
        <code>${"${…}"}</code> unchanged: a trial reads only the variables, files and tables that the configuration
        reads.</small
      >
    </p>
    ${field("User or group", search("name", called, html`placeholder="a name, mail or id" data-search`))}
    <p class="buttons">
      <button type="submit" name="what" value="one">Explain</button>
      <button type="submit" name="what" value="all" class="secondary">Compare for everybody</button>
      ${trial !== undefined && html`<a href="/rules?sync=${encodeURIComponent(sync)}">Start again</a>`}
    </p>
  </form>`;
}

function result(page: RulesPage, trial: Trial): Html {
  const { id, endedAt } = trial;
  const isOpen = endedAt === undefined;
  const about = trial.name === undefined ? html`For everybody` : html`For ${name(trial.name)}`;
  return html`<section
    id="result"
    aria-labelledby="result-title"
    ${isOpen && html`hx-get="${at("/rules", id)}" hx-trigger="load delay:1s" hx-headers="${byItselfHeaders}" hx-select="#result" hx-swap="outerHTML"`}
  >
    <h2 id="result-title">${about} ${!isOpen && html`<small class="quiet">${when(endedAt, page.now)}</small>`}</h2>
    ${isOpen ? underWay(page, trial) : outcome(trial)} ${warnings(trial)}
  </section>`;
}

const sides: Readonly<Record<Side, string>> = {
  before: "with the current rules",
  after: "with the changed rules",
};

const doing: Readonly<Record<Stage, string>> = {
  read: "Reading the sources",
  list: "Listing the target",
  plan: "Planning",
  preview: "Planning",
  apply: "Planning",
  verify: "Planning",
};

function underWay({ visitor }: RulesPage, { id, state, progress }: Trial): Html {
  const { side, stage, records } = progress ?? {};
  const what =
    state === "waiting"
      ? "Waits until what others try is over"
      : side === undefined
        ? "Checking the rules"
        : stage === undefined
          ? "Beginning; waits for a run to the same target that is under way"
          : `${doing[stage]} ${sides[side]}${records === undefined ? "" : `: ${pluralize(records, "record")}`}`;
  return html`<div class="empty">
    <p role="status">${what} … <a href="${at("/rules", id)}#result">Look again</a></p>
    <form method="post" action="${at("/rules", id, "stop")}">
      ${tokenField(visitor)} <button type="submit" id="stop" class="secondary">Stop</button>
    </form>
  </div>`;
}

function outcome({ sync, text, name: called = "", explained, planned, error, state }: Trial): Html {
  if (error !== undefined)
    return notice(
      state === "stopped" ? "waiting" : "bad",
      html`<p>${prose(sentence(error.message))}</p>
        ${
          error.problems.length > 0 &&
          html`<ul class="problems">
            ${error.problems.map((each) => problemLine(each, text))}
          </ul>`
        }`,
    );
  if (explained !== undefined) return forOne(explained, called);
  if (planned !== undefined) return forAll(planned, sync);
  return notice("waiting", html`<p>Stopped.</p>`);
}

/** A problem, and below it the line of the text that has it. */
function problemLine(problem: string, text: string): Html {
  const line = /^rules:(\d+):/.exec(problem)?.[1];
  const source = line === undefined ? undefined : text.split("\n")[Number(line) - 1];
  return html`<li>
    ${prose(problem)}
    ${source !== undefined && source.trim() !== "" && html`<code class="source">${source.trim()}</code>`}
  </li>`;
}

function warnings({ warnings: all }: Trial): Html | false {
  return all.length > 0 && notice("waiting", list(all.map(prose)));
}

/* For one */

function forOne({ before, after }: ExplainedTwice, called: string): Html {
  const subjects = pairs(before.outcomes, after.outcomes, ({ kind, name }) => `${kind} ${name}`);
  const records = pairs(before.records, after.records, ({ source, kind, id }) => JSON.stringify([source, kind, id]));
  const changed = subjects.filter(([one, other]) => sayOf(one) !== sayOf(other));
  const rows = records.flatMap(([one, other]) => differingRules(one, other));
  const isFound = records.length + subjects.length > 0;
  return html`${
    !isFound
      ? bySync(after, called)
      : html`${
          changed.length === 0
            ? notice("good", html`<p>The next run would do the same with ${name(called)} as it does now.</p>`)
            : changed.map(([one, other]) => subject(one, other))
        }
        ${rows.map(ruleCard)} ${whole("With the changed rules", after, called)}
        ${whole("With the current rules", before, called)}`
  }`;
}

type Pair<Item> = readonly [before: Item | undefined, after: Item | undefined];

/** What belongs together, by key, in the order of what comes after. */
function pairs<Item>(before: readonly Item[], after: readonly Item[], keyOf: (item: Item) => string): Pair<Item>[] {
  const known = new Map(before.map((item) => [keyOf(item), item]));
  const both = after.map((item): Pair<Item> => [known.get(keyOf(item)), item]);
  const keys = new Set(after.map(keyOf));
  return [...both, ...before.filter((item) => !keys.has(keyOf(item))).map((item): Pair<Item> => [item, undefined])];
}

/** What becomes of somebody, to compare. */
function sayOf(outcome: Outcome | undefined): string {
  return JSON.stringify(outcome === undefined ? undefined : [outcome.action, outcome.change, outcome.groups]);
}

function subject(before: Outcome | undefined, after: Outcome | undefined): Html {
  const { kind, name: called } = after ?? before ?? { kind: "user", name: "" };
  return compared(html`<small>${kind}</small> ${name(called)}`, fate(before), fate(after));
}

/** Something as it is with both rules, beside each other. */
function compared(title: Part, now: Part, changed: Part): Html {
  return html`<div class="card compared">
    <h3>${title}</h3>
    ${facts([
      ["Now", now],
      ["Changed", changed],
    ])}
  </div>`;
}

/** What becomes of somebody with one of the two rules. */
function fate(outcome: Outcome | undefined): Html {
  if (outcome === undefined) return html`<span class="quiet">there is none</span>`;
  const { action, why, change } = outcome;
  return html`<b class="${action}">${actionWord(action)}</b>: ${why}
    ${change !== undefined && action !== "delete" && whatIsDone(change)}`;
}

function actionWord(action: Outcome["action"]): string {
  return action === "nothing" ? "nothing to do" : action;
}

interface RuleRow {
  readonly rule: string;
  readonly before: Part;
  readonly after: Part;
}

/** The rules of a record that say something else than before, and what becomes of it where that differs. */
function differingRules(before: RecordExplanation | undefined, after: RecordExplanation | undefined): RuleRow[] {
  const traces = pairs(before?.rules ?? [], after?.rules ?? [], ({ rule }) => rule);
  const rows = traces.flatMap(([one, other]): RuleRow[] =>
    one !== undefined && other !== undefined && one.expression === other.expression && said(one) === said(other)
      ? []
      : [{ rule: (other ?? one)?.rule ?? "", before: cell(one), after: cell(other) }],
  );
  if (verdictOf(before) !== verdictOf(after))
    rows.push({
      rule: "the record is",
      before: html`<bdi>${verdictOf(before)}</bdi>`,
      after: html`<bdi>${verdictOf(after)}</bdi>`,
    });
  return rows;
}

/** What a rule says. */
function cell(trace: RecordExplanation["rules"][number] | undefined): Html {
  if (trace === undefined) return html`<span class="quiet">no rule</span>`;
  return html`<code>${trace.expression}</code><br />→ <bdi>${said(trace)}</bdi>`;
}

function said({ value, error }: RecordExplanation["rules"][number]): string {
  return error === undefined ? (JSON.stringify(value) ?? "nothing") : `fails: ${error}`;
}

function verdictOf(record: RecordExplanation | undefined): string {
  if (record === undefined) return "not found by this name";
  return record.reason === undefined ? record.verdict : `${record.verdict}: ${record.reason}`;
}

function ruleCard({ rule, before, after }: RuleRow): Html {
  return compared(html`<code>${rule}</code>`, before, after);
}

function whole(title: string, explanation: Explanation, called: string): Html {
  return html`<details class="changes">
    <summary data-row>${title}: the whole explanation</summary>
    <div class="whole">${bySync(explanation, called)}</div>
  </details>`;
}

/* For everybody */

function forAll({ counts, sections, before, after }: PlannedTwice, sync: string): Html {
  return html`${
    isEmpty(counts)
      ? notice("good", html`<p>The changed rules want exactly what the current rules of ${name(sync)} want.</p>`)
      : html`<p>
            <b>${capitalized(totalsOf(counts, { words }))}</b>
            <span class="quiet">if these rules replace those of ${name(sync)}, whatever the target has today.</span>
          </p>
          ${sectionsOf({ counts }, words).map((each) => excerpt(each, sections))}`
  }
  ${verdict(before, after)} ${nextRun(before.counts, after.counts)} ${judgement(after)}`;
}

/** The first changes of an action and kind. */
function excerpt(section: Section, sections: PlannedTwice["sections"]): Html {
  const { kind, action, count } = section;
  const { changes = [] } = sections.find((each) => each.kind === kind && each.action === action) ?? {};
  const rest = count - changes.length;
  return changesTogether(
    section,
    html`${changes.map((change) => changeRow(change))}
    ${rest > 0 && html`<p class="quiet">… and ${formatNumber(rest)} more: <code>rollcall plan --compare</code> lists all</p>`}`,
    rest === 0,
  );
}

/** Whether limits would hold the next run, and whether they do without the change. */
function verdict(before: Outlook, after: Outlook): Html {
  const [now, then] = [before.held, after.held].map((held) =>
    held.length === 0 ? "within its limits" : `beyond ${nameLimits(held)}`,
  );
  const compared = now === then ? "as it is now" : `now it is ${now}`;
  return notice(
    after.held.length > 0 ? "bad" : "good",
    html`<p>With the changed rules, the next run would be ${then}; ${compared}.</p>`,
  );
}

/** What the next run would do to the target, with both rules. */
function nextRun(before: Counts, after: Counts): Html {
  const known = actionsOf(after);
  const cell = (read: (counts: Counts) => number): Html =>
    html`<td class="number">
      ${
        read(before) === read(after)
          ? html`<span class="quiet">${formatNumber(read(after))}</span>`
          : html`<span class="quiet">${formatNumber(read(before))} →</span> <b>${formatNumber(read(after))}</b>`
      }
    </td>`;
  const row = (kind: "users" | "groups"): Html =>
    html`<tr>
      <th scope="row">${kind}</th>
      ${known.map((action) => cell((counts) => counts[kind][action] ?? 0))}
    </tr>`;
  return section(
    "next-run",
    html`The next run <small>now → changed</small>`,
    html`<div class="scroll" tabindex="0" role="region" aria-label="The next run">
        <table class="totals">
          <thead>
            <tr>
              <td></td>
              ${known.map((action) => html`<th scope="col" class="number">${usualWords[action]}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${row("users")} ${row("groups")}
            <tr>
              <th scope="row">memberships</th>
              ${cell((counts) => counts.membershipsAdded)} ${known.slice(2).map(() => html`<td></td>`)}
              ${cell((counts) => counts.membershipsRemoved)}
            </tr>
          </tbody>
        </table>
      </div>
      <p class="quiet"><small>What follows is about the run with the changed rules.</small></p>`,
  );
}
