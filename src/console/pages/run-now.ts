import { name, series, state, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import type { ConfiguredSync } from "#daemon/connections.ts";
import { confirmation } from "#console/forms.ts";
import type { Protected } from "#console/forms.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import type { Standing } from "#state/record.ts";

export interface RunNowPage
  extends Pick<ConfiguredSync, "sync" | "target" | "sources" | "approval" | "beyondLimits">, Timed, Protected {
  readonly standing: Standing;
}

/** Asks once, and says what will happen. */
export function runNow(page: RunNowPage): Html {
  const { now, sync, target, sources, standing, token } = page;
  const { running, waiting, nextSlotAt } = standing;
  return html`<h1>Run ${name(sync)} now?</h1>
    ${confirmation({
      content: html`<ol>
        ${running !== undefined && html`<li>It waits until <a href="${at("/runs", running)}">the run that is under way</a> has ended.</li>`}
        <li>
          It reads ${series(sources.map((each) => name(each.name)))}, lists ${name(target)} and plans the
          changes${nextSlotAt !== undefined && html`, as its schedule would ${when(nextSlotAt, now)}`}.
        </li>
        <li>${then(page)}</li>
        ${waiting.map(
          (run) =>
            html`<li>
              <a href="${at("/runs", run.id, "plan")}">The plan of run ${run.id}</a>, which is ${state(run)}, is
              replaced unless this run finds the same changes.
            </li>`,
        )}
      </ol>`,
      action: at("/syncs", sync, "run"),
      fields: token,
      button: html`<button type="submit"><span>Run ${name(sync)} now</span></button>`,
      back: { href: "/", label: "Back" },
      note: html`<code>rollcall plan ${sync}</code> shows what it would change, and changes nothing.`,
    })}`;
}

/** What becomes of its plan. */
function then({ approval, beyondLimits, standing: { caution }, target }: RunNowPage): Html {
  if (approval === "required") return html`<b>Nothing is applied:</b> its plan waits for approval.`;
  if (caution !== undefined)
    return html`<b>Nothing is applied:</b> every plan waits for approval now, since ${caution.reason}.`;
  const beyond =
    beyondLimits === "apply-the-rest"
      ? "of a plan beyond a limit, the changes that the limit counts wait"
      : approval === "automatic-within-limits"
        ? "a plan beyond a limit waits for approval"
        : "a plan beyond a limit is held, and nothing of it is applied";
  return html`<b>Changes within the limits are applied to ${name(target)} at once</b>, without approval, and verified;
    ${beyond}.`;
}
