import { subscribe } from "node:diagnostics_channel";
import { existsSync, writeFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { Client } from "pg";

/** What a replica does to itself at a named point of its work. */
export interface Trap {
  /**
   * `WHAT:before`, `WHAT:after`; with a transaction also `WHAT:commit`, between its statement and its end. WHAT is a statement to
   * the shared state (`slot`, `journal running`, `audit approved`, `files ledgers`, `claim leader`, `events` …; ` sent` behind
   * it once the sending is recorded) or a step of a request (`list create`, `apply bodySent`, `notice headers` …).
   */
  readonly point: string;
  readonly signal: "SIGKILL" | "SIGSTOP";
  /** A file that the first replica makes that comes to the point. The others go on. */
  readonly token: string;
  /** The token of another trap: before one has fallen into that, this one is not there. */
  readonly after?: string | undefined;
}

// A program that is `rollcall`, and has traps: from the environment, then those that its parent sends. Its clock can be
// wrong by ROLLCALL_TEST_CLOCK milliseconds.

const shift = Number(process.env["ROLLCALL_TEST_CLOCK"] ?? "0");
if (shift !== 0) {
  const Real = Date;
  globalThis.Date = class extends Real {
    constructor(...given: [] | ConstructorParameters<DateConstructor>) {
      if (given.length === 0) super(Real.now() + shift);
      else super(...(given as [number]));
    }

    static override now(): number {
      return Real.now() + shift;
    }
  } as DateConstructor;
}

let traps = JSON.parse(process.env["ROLLCALL_TEST_TRAPS"] ?? "[]") as readonly Trap[];
process.on("message", (message: readonly Trap[]) => {
  traps = message;
});
process.channel?.unref();

function at(reached: string): void {
  for (const trap of traps) {
    const { point, token, signal, after } = trap;
    if (point !== reached || (after !== undefined && !existsSync(after))) continue;
    traps = traps.filter((each) => each !== trap);
    try {
      writeFileSync(token, String(process.pid), { flag: "wx" });
    } catch {
      continue;
    }
    process.kill(process.pid, signal);
  }
}

/** Whether the sending of a list is recorded, and the end of its run is not. */
let sent = false;

/** What a statement to the shared state does. */
function namesOf(text: string, values: readonly unknown[]): string[] {
  const [, verb = "", table = ""] = /^\s*(INSERT INTO|DELETE FROM) rollcall\.(\w+)/.exec(text) ?? [];
  const suffix = sent ? " sent" : "";
  switch (`${verb} ${table}`) {
    case "INSERT INTO slots":
      return ["slot"];
    case "INSERT INTO runs":
      return (values[1] as string[]).map((document) => {
        const { state, sentAt } = JSON.parse(document) as { state: string; sentAt?: string };
        return `journal ${state}${state === "running" && sentAt !== undefined ? " sent" : ""}`;
      });
    case "INSERT INTO audit":
      return [`audit ${(JSON.parse(String(values[1])) as { event: string }).event}`];
    case "INSERT INTO files":
      return [`files ${String(values[0]).split("/")[0]}${suffix}`];
    case "INSERT INTO claims":
      return [`claim ${String(values[0]).split(" ")[0]}`];
    case "DELETE FROM claims":
      return ["release"];
    case "INSERT INTO events":
      return ["events"];
    case "DELETE FROM events":
      return ["taken"];
    case "INSERT INTO nodes":
      return ["join"];
    default:
      return [];
  }
}

/** What the transaction of a connection has done so far. */
const under = new WeakMap<object, string[]>();

function reached(names: readonly string[]): void {
  for (const name of names) {
    if (name === "journal running sent") sent = true;
    else if (/^journal (?!running)/.test(name)) sent = false;
    at(`${name}:after`);
  }
}

type Query = (this: Client, ...given: unknown[]) => unknown;
const prototype = Client.prototype as unknown as { query: Query };
const { query } = prototype;
prototype.query = function traced(this: Client, ...given) {
  const [first, second] = given as [string | { text?: string; values?: unknown[] }, unknown[] | undefined];
  const text = typeof first === "string" ? first : (first.text ?? "");
  const values = (typeof first === "string" ? second : first.values) ?? [];
  const names = namesOf(text, values);
  const isEnd = text === "COMMIT";
  if (text.startsWith("BEGIN")) under.set(this, []);
  if (text === "ROLLBACK") under.delete(this);
  if (isEnd) for (const name of under.get(this) ?? []) at(`${name}:commit`);
  for (const name of names) at(`${name}:before`);
  const result = query.apply(this, given);
  if (names.length === 0 && !isEnd) return result;
  return (result as Promise<{ rowCount: number | null }>).then((answer) => {
    const transaction = under.get(this);
    // A claim that another node has.
    if ((answer.rowCount ?? 0) > 0 && transaction !== undefined) transaction.push(...names);
    if (transaction === undefined) reached(names);
    if (isEnd) {
      under.delete(this);
      reached(transaction ?? []);
    }
    return answer;
  });
};

interface Traced {
  readonly request: { readonly path: string };
}

for (const step of ["create", "sendHeaders", "bodySent", "headers", "trailers"])
  subscribe(`undici:${step === "sendHeaders" ? "client" : "request"}:${step}`, (message) => {
    const { path } = (message as Traced).request;
    if (path.endsWith("/user/sync")) at(`${sent ? "apply" : "preview"} ${step}`);
    else if (path.endsWith("/user/list")) at(`${sent ? "verify" : "list"} ${step}`);
    else if (path === "/notices") at(`notice ${step}`);
  });

const { main } = await import("#main.ts");
// A killed process would lose what it has compiled.
flushCompileCache();
process.exit(await main([process.execPath, "rollcall", ...process.argv.slice(2)]));
