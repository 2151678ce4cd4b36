import { asCalledAnywhere, command } from "#commands.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import { isExpectation } from "#plan/limits.ts";
import { expectationLines } from "#plan/render/expectations.ts";
import { describeCheck } from "#plan/render/shared.ts";
import { visible } from "#text.ts";
import type { Message, Notice } from "./notice.ts";
import { moment } from "./notice.ts";

/** The most lines of notes, problems and names each. */
const most = 20;

/** The subject of a message: `Rollcall: staff: held by the limit deletes; nothing was applied`. */
export function subjectOf({ notices, more, test }: Message): string {
  const [first] = notices;
  if (test === true) return "Rollcall: a test";
  if (first !== undefined && notices.length + more === 1) return shortened(`Rollcall: ${headline(first)}`);
  const events = [...new Set(notices.map(({ event }) => event))].join(", ");
  const syncs = [...new Set(notices.map(({ sync }) => sync))].join(", ");
  return shortened(`Rollcall: ${notices.length + more} notices (${events}) of ${syncs}`);
}

/** A message as plain text: what happened, the tripped limits, the notes and what to do next. */
export function textOf(message: Message, host: string): string {
  const { notices, more } = message;
  const parts = notices.map((notice) => linesOf(notice).join("\n"));
  if (more > 0) parts.push(`… and ${more} more: \`${command("runs")}\``);
  return asCalledAnywhere(`${parts.join("\n\n---\n\n")}\n\n-- \nRollcall on ${visible(host)}\n`);
}

/** `staff: a plan awaits approval: 3 users created`. */
function headline({ sync, summary }: Notice): string {
  return visible(`${sync}: ${summary}`);
}

function linesOf(notice: Notice): string[] {
  const { at, target, run, causes = [], notes, problems, names, digest, expiresAt, next } = notice;
  // Expectations have a section of their own.
  const limits = notice.limits.filter(({ limit }) => !isExpectation(limit));
  const facts = [
    ["When", moment(at)],
    ["Target", target],
    ["Run", run],
    ["Digest", digest],
    ["Expires", expiresAt === undefined ? undefined : moment(expiresAt)],
  ].flatMap(([name, value]) => (value === undefined ? [] : [`${`${name}:`.padEnd(9)}${visible(value)}`]));
  return [
    headline(notice),
    "",
    ...facts,
    ...section("Limits that are tripped", limits.map(describeCheck)),
    ...section(
      "Expectations that are broken",
      expectationLines(notice.expectations).flatMap(({ text, details }) =>
        [text].concat(details.map((each) => `  ${each}`)),
      ),
    ),
    ...section(
      "Causes",
      causes.filter(({ kind }) => kind !== "first").map((cause) => `${amountOf(cause)}: ${describeCause(cause)}`),
    ),
    ...section("Changes, among others", names),
    ...section("In detail", problems),
    ...section("Notes", notes),
    ...section("What to do next", next),
  ];
}

function section(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const rest = lines.length - most;
  const shown = lines.slice(0, most).map((line) => `  ${visible(line)}`);
  return ["", `${title}:`, ...shown, ...(rest > 0 ? [`  … and ${rest} more`] : [])];
}

/** A message for a chat: a few lines, with commands as code. */
export function chatText({ notices, more }: Message, host: string): string {
  const shown = notices.slice(0, most);
  const rest = notices.length - shown.length + more;
  const parts = shown.map((notice) => {
    const { limits, names, next, run, expiresAt } = notice;
    const about = [
      ...(run === undefined ? [] : [`run ${run}`]),
      ...(expiresAt === undefined ? [] : [`expires ${moment(expiresAt)}`]),
    ];
    return [
      `${headline(notice)}${about.length === 0 ? "" : ` (${about.join(", ")})`}`,
      ...limits.map((check) => `• ${visible(describeCheck(check))}`),
      ...names.map((name) => `• ${visible(name)}`),
    ]
      .map(harmless)
      .concat(next.map((each) => `\`${each}\``))
      .join("\n");
  });
  if (rest > 0) parts.push(`… and ${rest} more: \`${command("runs")}\``);
  return asCalledAnywhere(`${parts.join("\n\n")}\n_Rollcall on ${harmless(visible(host))}_`);
}

/** Text without links and mentions. */
function harmless(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll(/@(?=(?:channel|here|all|everyone)\b)/giu, "@\u200B");
}

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= 150 ? text : `${characters.slice(0, 149).join("")}…`;
}
