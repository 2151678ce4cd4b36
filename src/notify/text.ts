import { asCalledAnywhere, command } from "#commands.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import { isExpectation } from "#plan/limits.ts";
import { expectationLines } from "#plan/render/expectations.ts";
import { describeCheck } from "#plan/render/shared.ts";
import { noteLines } from "#plan/note.ts";
import { visible } from "#text.ts";
import type { Message, Notice } from "./notice.ts";
import { moment } from "./notice.ts";

/** The most lines of notes, problems and names each. */
const most = 20;

/** The subject of a message: `Rollcall: staff: held by the limit on deletions; nothing was applied`. */
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
  const { at, target, run, causes = [], notes, problems, names, digest, expiresAt, next, link } = notice;
  // Expectations have a section of their own.
  const limits = notice.limits.filter(({ limit }) => !isExpectation(limit));
  const facts = [
    ["When", moment(at)],
    ["Target", target],
    ["Run", run],
    ["Digest", digest],
    ["Expires", expiresAt === undefined ? undefined : moment(expiresAt)],
    ["Console", link],
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
    ...section("Notes", noteLines(notes)),
    ...section("What to do next", next),
  ];
}

function section(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const rest = lines.length - most;
  const shown = lines.slice(0, most).map((line) => `  ${visible(line)}`);
  return ["", `${title}:`, ...shown, ...(rest > 0 ? [`  … and ${rest} more`] : [])];
}

/** A line of a chat: what happened, something about it, or a command to go on with. */
interface ChatLine {
  readonly kind: "headline" | "detail" | "command" | "link";
  readonly text: string;
}

/** The lines of the first notices, a list for each, and how many notices are left. */
function chatLines({ notices, more }: Message, longest = most): { parts: ChatLine[][]; rest: number } {
  const shown = notices.slice(0, longest);
  const parts = shown.map((notice): ChatLine[] => {
    const { limits, names, next, run, expiresAt, link } = notice;
    const about = [
      ...(run === undefined ? [] : [`run ${run}`]),
      ...(expiresAt === undefined ? [] : [`expires ${moment(expiresAt)}`]),
    ];
    const details = [...limits.map(describeCheck), ...names];
    return [
      { kind: "headline", text: `${headline(notice)}${about.length === 0 ? "" : ` (${about.join(", ")})`}` },
      ...details.map((text) => ({ kind: "detail", text: visible(text) }) as const),
      ...(link === undefined ? [] : [{ kind: "link", text: link } as const]),
      ...next.map((text) => ({ kind: "command", text }) as const),
    ];
  });
  return { parts, rest: notices.length - shown.length + more };
}

/** A message for a chat: a few lines, with commands as code. */
export function chatText(message: Message, host: string): string {
  const written = ({ kind, text }: ChatLine): string => {
    if (kind === "command") return `\`${text}\``;
    return kind === "detail" ? `• ${harmless(text)}` : harmless(text);
  };
  const { parts, rest } = chatLines(message);
  const texts = parts.map((lines) => lines.map(written).join("\n"));
  if (rest > 0) texts.push(`… and ${rest} more: \`${command("runs")}\``);
  return asCalledAnywhere(`${texts.join("\n\n")}\n_Rollcall on ${harmless(visible(host))}_`);
}

/** In bytes. Teams drops a message of more than 28 KB. */
const largestCard = 24 * 1024;

/**
 * A message for Teams: an Adaptive Card. Its texts are runs, in which nothing is a link, a mention or Markdown.
 * Source: learn.microsoft.com, “Create incoming webhooks with Workflows”; adaptivecards.io, RichTextBlock.
 */
export function teamsMessage(message: Message, host: string): object {
  for (let longest = most; ; longest--) {
    const card = cardOf(chatLines(message, longest), host);
    if (longest === 1 || Buffer.byteLength(JSON.stringify(card)) <= largestCard) return card;
  }
}

/** Text as it is, without Markdown. */
function run(text: string, look: object = {}): object {
  return { type: "RichTextBlock", inlines: [{ type: "TextRun", text: asCalledAnywhere(text), ...look }] };
}

/** The only text that leads somewhere: to the configured address of the console. */
function linked(url: string): object {
  const inlines = [{ type: "TextRun", text: url, selectAction: { type: "Action.OpenUrl", url } }];
  return { type: "RichTextBlock", inlines };
}

function cardOf({ parts, rest }: ReturnType<typeof chatLines>, host: string): object {
  const written = ({ kind, text }: ChatLine, index: number): object => ({
    ...(kind === "link" ? linked(text) : run(kind === "detail" ? `• ${text}` : text, looks[kind])),
    ...(index === 0 ? { spacing: "medium" } : { spacing: "small" }),
  });
  const body = parts.flatMap((lines) => lines.map(written));
  if (rest > 0) body.push(run(`… and ${rest} more:`), run(command("runs"), looks.command));
  body.push(run(`Rollcall on ${visible(host)}`, { size: "small", isSubtle: true }));
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    body,
  };
  const contentType = "application/vnd.microsoft.card.adaptive";
  return { type: "message", attachments: [{ contentType, contentUrl: null, content }] };
}

const looks = { headline: { weight: "bolder" }, detail: {}, command: { fontType: "monospace" } } as const;

/** Text without links and mentions. */
function harmless(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("](", "]\u200B(")
    .replaceAll(/@(?=(?:channel|here|all|everyone)\b)/giu, "@\u200B");
}

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= 150 ? text : `${characters.slice(0, 149).join("")}…`;
}
