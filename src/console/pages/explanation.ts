import { isUpdate } from "#plan/change.ts";
import type { Asking, Explanations, Unexplained } from "#daemon/people.ts";
import type { Explanation, RecordExplanation } from "#sync/explain/explain.ts";
import type { Outcome } from "#sync/explain/outcome.ts";
import { foreignInWords, memberSource, scopeInWords, waitInWords, whyUnreadable } from "#sync/explain/text.ts";
import type { Line } from "#sync/explain/text.ts";
import { capitalized, describeCheckInWords } from "#plan/render/shared.ts";
import { pluralize, visible, wordsOf } from "#text.ts";
import { badge, chip, diff, empty, list, name, none, notice, prose, series, table, when } from "#console/components.ts";
import type { Timed, Tone } from "#console/components.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import type { IconName } from "#console/icons.ts";
import { byItselfHeaders } from "#console/layout.ts";
import { membershipChanges } from "#console/pages/changes.ts";

/* What `rollcall explain` says. */

/** Without answers: nobody has asked for them for so long that the syncs were stopped. */
export interface ExplanationPage extends Timed, Partial<Explanations> {
  readonly target: string;
  readonly name: string;
}

/** Where somebody comes from, by each sync that has anything to say. */
export function explanation(page: ExplanationPage): Html {
  const { target, name: called, answers = [] } = page;
  const known = answers.filter((each): each is Explanation => "records" in each);
  const problems = answers.filter((each): each is Unexplained => "error" in each);
  const asking = answers.filter((each): each is Asking => "sources" in each);
  const telling = known.filter((each) => says(each));
  const silent = known.filter((each) => !says(each));
  return html`<hgroup>
      <h1>${name(called)} <small>explained for ${name(target)}</small></h1>
    </hgroup>
    <section id="explanation" aria-labelledby="explanation-title">
      <h2 id="explanation-title">Where it comes from, and what the next run does</h2>
      ${telling.map((each) => bySync(each, called))} ${problems.length > 0 && unexplained(problems)}
      ${(asking.length > 0 || answers.length === 0) && waitsFor(page, asking)}
      ${telling.length + problems.length + asking.length === 0 && known.length > 0 && nobody(silent, called, target)}
      ${
        telling.length > 0 &&
        silent.length > 0 &&
        html`<p class="quiet">
          ${pluralize(silent.length, "other sync has", "other syncs have")} nothing to do with it:
          ${series(silent.map(({ sync }) => name(sync)))}.
        </p>`
      }
    </section>`;
}

/** Syncs that have not answered: the section is brought up to date by itself until they have. */
function waitsFor({ now, target, name: called, since }: ExplanationPage, asking: readonly Asking[]): Html {
  const again = withQuery("/people/explain", { target, name: called });
  const link = (label: string): Html =>
    html`<a
      href="${again}"
      hx-get="${again}"
      hx-target="#explanation"
      hx-select="#explanation"
      hx-swap="outerHTML ignoreTitle:true"
      >${label}</a
    >`;
  if (since === undefined)
    return notice("waiting", html`<p>The syncs are no longer asked. ${link("Ask them again")}</p>`);
  return html`<div
    class="notice quiet"
    hx-get="${withQuery("/people/explain", { target, name: called, since })}"
    hx-trigger="every 2s"
    hx-headers="${byItselfHeaders}"
    hx-target="#explanation"
    hx-select="#explanation"
    hx-swap="outerMorph ignoreTitle:true"
  >
    ${icon("running")}
    <div>
      <p>
        <span role="status">Not every sync has answered yet.</span> Asked ${when(since, now)}. ${link("Look again")}
      </p>
      ${list(asking.map((each) => html`${name(each.sync)}: ${underWay(each, target)}`))}
    </div>
  </div>`;
}

/** What a sync does that is being asked. */
function underWay({ sources, stage }: Asking, target: string): Part {
  if (stage === undefined) return "waits for its turn";
  if (stage === "read") return html`reads ${series(sources.map((each) => name(each)))}`;
  return stage === "list" ? html`lists ${name(target)}` : "plans";
}

/** Whether a sync has more to say than that somebody is not its own. */
function says({ records, outcomes, foreign }: Explanation): boolean {
  return (
    records.length + foreign.length > 0 ||
    outcomes.some(({ action, ownedFrom, waits }) => action !== "nothing" || ownedFrom.length + waits.length > 0)
  );
}

function nobody(silent: readonly Explanation[], called: string, target: string): Html {
  const nearest = [...new Set(silent.flatMap((each) => each.nearest))].slice(0, 8);
  const isThere = silent.some(({ outcomes }) => outcomes.length > 0);
  return empty(
    html`<p>
        ${
          isThere
            ? html`No sync to ${name(target)} made ${name(called)}: somebody added it there.`
            : html`Nothing in the sources or in ${name(target)} is called ${name(called)}.`
        }
      </p>
      ${
        nearest.length > 0 &&
        html`<p>
          Similar names:
          ${nearest.map((each) => html`<a href="${withQuery("/people/explain", { target, name: each })}">${name(each)}</a> `)}
        </p>`
      }`,
    "search",
  );
}

/** Syncs that could not say anything: somebody may be theirs. */
function unexplained(all: readonly Unexplained[]): Html {
  return notice(
    "waiting",
    html`<p>${pluralize(all.length, "sync")} could not be asked:</p>
      ${list(all.map(({ sync, error }) => html`${name(sync)}: ${[error.message, ...error.problems].join("; ")}`))}`,
  );
}

/** What one sync has to say. */
export function bySync({ sync, target, records, outcomes, foreign, nearest }: Explanation, called: string): Html {
  if (records.length + outcomes.length + foreign.length === 0)
    return html`<h3>${name(sync)}</h3>
      ${nobody([{ sync, target, records, outcomes, foreign, nearest }], called, target)}`;
  return html`<article class="card explained" aria-label="${sync}">
    ${outcomes.map((each) => outcome(each, sync))} ${foreign.map((each) => lines(foreignInWords(each)))}
    ${records.map(record)}
  </article>`;
}

const actions: Readonly<Record<Outcome["action"], readonly [Tone, IconName, string]>> = {
  nothing: ["good", "ok", "nothing to do"],
  create: ["good", "plus", "create"],
  update: ["waiting", "pencil", "update"],
  suspend: ["bad", "pause", "suspend"],
  reactivate: ["good", "undo", "reactivate"],
  delete: ["bad", "minus", "delete"],
};

/** What the next run does. */
function outcome(each: Outcome, sync: string): Html {
  const { kind, name: called, action, why, actual, change, ownedFrom, breaks = [], byHand, waits } = each;
  const owned = ownedFrom.map(({ source, sourceId }) => `${source} ${sourceId}`).join(" and ");
  return html`<header>
      <h3>${name(sync)} <small>${kind} ${name(called)}</small></h3>
      ${badge(...actions[action])}
    </header>
    <p>
      ${capitalized(visible(why))}.
      <span class="quiet"
        >${actual === undefined ? "Not in the target" : "In the target"};
        ${ownedFrom.length === 0 ? "not owned by this sync" : html`owned by this sync, from ${name(owned)}`}.</span
      >
    </p>
    ${action !== "nothing" && isUpdate(action) && (change?.attributes ?? []).map((each) => html`<p><span class="quiet">${wordsOf(each.attribute)}</span> ${diff(each, true)}</p>`)}
    ${change !== undefined && membershipChanges(change)}
    ${
      byHand.length > 0 &&
      html`<p>Somebody added it in the target by hand, and it stays: ${byHand.map((group) => chip(name(group)))}</p>`
    }
    ${breaks.map((check) =>
      notice(
        "bad",
        html`<p>
          Breaks the expectation <q>${check.name}</q>${check.already > 0 && ", as it does already"}:
          <code>${check.expect}</code>
        </p>`,
      ),
    )}
    ${waits.map((wait) => waiting(wait, action))}`;
}

function waiting(wait: Outcome["waits"][number], now: Outcome["action"]): Html {
  const { text, below = [] } = waitInWords(wait, now, describeCheckInWords, (iso) => iso);
  const words = below.filter((each) => each.isCommand !== true || wait.run === undefined);
  const link =
    wait.run !== undefined &&
    html`<a class="button secondary small" href="${at("/runs", wait.run, "plan")}">Look at the plan</a>`;
  return notice(
    "waiting",
    html`<p>${prose(capitalized(text))}</p>
      ${list(words.map(item))}`,
    false,
    link === false ? undefined : link,
  );
}

function item({ text, isCommand }: Line): Html {
  return isCommand === true ? html`<code>${text}</code>` : html`<bdi>${prose(text)}</bdi>`;
}

function lines({ text, below = [] }: Line): Html {
  return html`<p><bdi>${text}</bdi></p>
    ${list(below.map(item))}`;
}

const verdicts = { included: ["good", "ok"], excluded: ["quiet", "none"], quarantined: ["waiting", "alert"] } as const;

const labels: Readonly<Record<string, string>> = {
  include: "included",
  exclude: "excluded",
};

/** A record of a source: where each value comes from. */
function record({
  source,
  kind,
  id,
  origin,
  scope,
  rules,
  verdict,
  name: as,
  reason,
  memberships,
}: RecordExplanation): Html {
  const [tone, picture] = verdicts[verdict];
  return html`<h4>
      <span>Record of ${name(source)}</span>
      <small>${kind} ${name(id)}, ${name(origin)}</small> ${badge(tone, picture, verdict)}
    </h4>
    ${reason !== undefined && html`<p>${as !== undefined && html`${name(as)}: `}${name(reason)}</p>`}
    ${list(scope.map((each) => html`<bdi>${scopeInWords(each)}</bdi>`))}
    ${
      rules.length > 0 &&
      table(
        `Values of the record ${id}`,
        [
          { label: "Value", kind: "head", cell: ({ rule }) => html`<span title="${rule}">${labelOf(rule)}</span>` },
          {
            label: "Is",
            cell: ({ value, error }) =>
              error === undefined ? shown(value) : html`<span class="bad">fails: ${name(error)}</span>`,
          },
          { label: "By the rule", cell: ({ expression }) => html`<code>${expression}</code>` },
          {
            label: "From",
            cell: ({ attributes = {} }) =>
              Object.entries(attributes).map(([attribute, value]) => {
                const flaw = whyUnreadable(value);
                return html`<div>
                  <span class="quiet">${name(attribute)}</span>
                  ${flaw === undefined ? shown(value) : html`<span class="bad">${name(flaw)}</span>`}
                </div>`;
              }),
          },
        ],
        rules,
      )
    }
    ${
      memberships.length > 0 &&
      table(
        `Memberships of the record ${id}`,
        [
          { label: "In the group", kind: "head", cell: ({ group }) => name(group) },
          {
            label: "Because",
            cell: ({ by, lost }) => html`${memberSource[by]}${lost !== undefined && html`; left out: ${name(lost)}`}`,
          },
          { label: "Found in", cell: ({ origin: found }) => found !== undefined && name(found) },
        ],
        memberships,
      )
    }`;
}

/** `users.displayName` → `Display name`. */
function labelOf(rule: string): string {
  const key = rule.replace(/^(?:users|groups)\./, "");
  return capitalized(labels[key] ?? wordsOf(key));
}

/** A value of a record, or of a rule. */
function shown(value: unknown): Part {
  if (value === null || value === undefined) return none;
  if (typeof value === "string") return value === "" ? html`<span class="quiet">an empty text</span>` : name(value);
  if (Array.isArray(value) && value.every((each) => typeof each === "string"))
    return value.length === 0
      ? html`<span class="quiet">an empty list</span>`
      : html`<span class="chips">${value.map((each) => chip(name(each)))}</span>`;
  return html`<code>${JSON.stringify(value)}</code>`;
}
