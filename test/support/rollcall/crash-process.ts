import { readdirSync } from "node:fs";
import { subscribe } from "node:diagnostics_channel";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import type { Selection } from "#plan/selection.ts";
import type { Overridable } from "#plan/limits.ts";
import { withCoordinatorIn } from "./local-coordinator.ts";
import type { Wrapping } from "./local-coordinator.ts";

/** A process that does one thing with a coordinator, and kills itself, the service or both at a point on the way. */
export interface Killing {
  readonly folder: string;
  readonly action:
    | { readonly do: "begin"; readonly sync: string }
    | {
        readonly do: "approve";
        readonly run: string;
        readonly overrides?: readonly Overridable[];
        readonly selection?: Selection;
      }
    | { readonly do: "reject" | "undo"; readonly run: string };
  /** `WHAT:before`, `WHAT:after`, `file:PATTERN`, or a number: so many milliseconds after the action has begun. */
  readonly point: string;
  /** The process of the service, if it is to be killed, or stopped (SIGSTOP) when the apply begins. */
  readonly service?: { readonly pid: number; readonly and: "kill alone" | "kill both" | "halt it before" };
}

// A killed process would lose what it has compiled.
flushCompileCache();

const { folder, action, point, service } = JSON.parse(process.argv[2] ?? "") as Killing;
const data = join(folder, "data", "daemon");

function at(reached: string): void {
  if (reached === "stage apply:before" && service?.and === "halt it before") process.kill(service.pid, "SIGSTOP");
  if (reached !== point) return;
  if (service !== undefined && service.and !== "halt it before") process.kill(service.pid, "SIGKILL");
  if (service?.and !== "kill alone") process.kill(process.pid, "SIGKILL");
}

async function around<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  at(`${what}:before`);
  const result = await work();
  at(`${what}:after`);
  return result;
}

/** Whether the request to apply is under way. */
let applying = false;

const wrapping: Wrapping = {
  store: (store) => {
    const { journal, audit } = store;
    const [put, append] = [journal.put.bind(journal), audit.append.bind(audit)];
    const putAround: typeof put = (runs, ...rest) => {
      const run = [runs].flat().at(-1);
      const sent = run?.state === "running" && run.sentAt !== undefined && !applying ? " sent" : "";
      return around(`journal ${run?.state}${sent}`, () => put(runs, ...rest));
    };
    const appendAround: typeof append = (entry) => around(`audit ${entry.event}`, () => append(entry));
    Object.assign(journal, { put: putAround });
    Object.assign(audit, { append: appendAround });
    return store;
  },
  target: (target) => ({
    ...target,
    list: (read, signal) => around("list", () => target.list(read, signal)),
    sync: (request, destination, signal) =>
      around(request.applyChanges ? "apply" : "preview", async () => {
        applying = request.applyChanges;
        await target.sync(request, destination, signal);
        applying = false;
      }),
  }),
  after: () => {
    at("export:before");
  },
};

// The client's own steps of the request that applies.
for (const step of ["sendHeaders", "bodyChunkSent", "bodySent", "headers", "trailers"])
  subscribe(`undici:${step === "sendHeaders" ? "client" : "request"}:${step}`, (message) => {
    const { request } = message as { request: { path: string } };
    if (applying && request.path.endsWith("/user/sync")) at(`request ${step}`);
  });

/** Checks at every turn of the event loop whether a file whose name matches has appeared. */
function lookFor(pattern: RegExp): void {
  const names = (path: string): string[] => {
    try {
      return readdirSync(path, { recursive: true }).map(String);
    } catch {
      // It does not exist yet, or a folder in it was renamed meanwhile.
      return [];
    }
  };
  const before = new Set(names(data));
  const look = (): void => {
    if (names(data).some((name) => !before.has(name) && pattern.test(name))) at(point);
    setImmediate(look);
  };
  look();
}

if (point.startsWith("file:") || point.startsWith("start:")) lookFor(new RegExp(point.slice(point.indexOf(":") + 1)));

const ended = await withCoordinatorIn(
  folder,
  async (coordinator) => {
    coordinator.subscribe((event) => {
      if (event.type === "stage" && event.records === undefined) at(`stage ${event.stage}:before`);
      if (event.type === "run") at(`told ${event.run.state}`);
    });
    if (/^\d+$/.test(point)) setTimeout(() => at(point), Number(point));
    const by = { name: "ada", from: "command line" };
    if (action.do === "reject") return coordinator.reject(action.run, { by, reason: "not now" });
    const begun =
      action.do === "begin"
        ? await coordinator.begin({ sync: action.sync, cause: "schedule", by })
        : action.do === "undo"
          ? await coordinator.undo(action.run, { by })
          : await coordinator.approve(action.run, { ...action, by });
    return begun.ended;
  },
  wrapping,
);
process.stdout.write(`${JSON.stringify(ended)}\n`);
process.exit(0);
