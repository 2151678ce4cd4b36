import { eachExpectation } from "#plan/render/expectations.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { RunRecord } from "#state/record.ts";
import { pluralize } from "#text.ts";
import { badge, section, series } from "./components.ts";
import { html } from "./html.ts";
import type { Html } from "./html.ts";

type State = ExpectationCheck["state"];

const verdicts: Readonly<Record<State, Parameters<typeof badge>>> = {
  met: ["good", "ok", "kept"],
  accepted: ["good", "ok", "kept"],
  broken: ["waiting", "alert", "broken"],
  tripped: ["bad", "failed", "broken"],
  overridden: ["waiting", "none", "overridden"],
  unknown: ["quiet", "doubt", "not checked"],
};

/** What must be true of the users and groups that a run leaves: kept or broken, each with its figures. */
export function expectations({
  expectations: checks,
  causes,
}: Pick<RunRecord, "expectations" | "causes">): Html | false {
  const lines = eachExpectation(checks, { causes });
  return (
    lines.length > 0 &&
    section(
      "expectations",
      html`Expectations <small class="quiet">${keptAndBroken(checks)}</small>`,
      html`<ul class="causes">
        ${lines.map(({ check, text, details }) => {
          return html`<li>
            ${badge(...verdicts[check.state])} ${text}
            ${check.over !== undefined && html`<small><code>${check.expect}</code></small>`}
            ${details.map((line) => html`<br /><small>${line}</small>`)}
          </li>`;
        })}
      </ul>`,
    )
  );
}

/** `4 kept, 1 broken`. Undefined: nothing is expected. */
function keptAndBroken(checks: readonly ExpectationCheck[] = []): string | undefined {
  if (checks.length === 0) return undefined;
  const count = (...states: readonly State[]): number => checks.filter(({ state }) => states.includes(state)).length;
  const parts = [
    [count("met", "accepted"), "kept"],
    [count("broken", "tripped"), "broken"],
    [count("overridden"), "overridden"],
    [count("unknown"), "not checked"],
  ] as const;
  return parts.flatMap(([many, word]) => (many === 0 ? [] : [`${many} ${word}`])).join(", ");
}

/** Broken expectations, whether or not they hold the plan. */
export function brokenExpectations(checks: readonly ExpectationCheck[] = []): readonly ExpectationCheck[] {
  return checks.filter(({ state }) => state === "broken" || state === "tripped");
}

/** `2 expectations are broken: "badges", "managers"`. */
export function brokenWords(broken: readonly ExpectationCheck[]): Html {
  return html`${pluralize(broken.length, "expectation is", "expectations are")} broken:
  ${series(broken.map(({ name }) => html`<q>${name}</q>`))}`;
}
