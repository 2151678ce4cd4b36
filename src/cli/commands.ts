import type { ExitCode } from "./output.ts";

/*
 * The commands, each loaded when it is called: a process that runs one, and above all one that stays, has no use for
 * what the others need.
 */
export const apply = later(async () => (await import("./apply.ts")).apply);
export const approve = later(async () => (await import("./approve.ts")).approve);
export const audit = later(async () => (await import("./audit.ts")).audit);
export const auditVerify = later(async () => (await import("./audit.ts")).auditVerify);
export const check = later(async () => (await import("./check.ts")).check);
export const compare = later(async () => (await import("./compare.ts")).compare);
export const explain = later(async () => (await import("./explain.ts")).explain);
export const exportCommand = later(async () => (await import("./export.ts")).exportCommand);
export const health = later(async () => (await import("./health.ts")).health);
export const history = later(async () => (await import("./history.ts")).history);
export const init = later(async () => (await import("#cli/init/init.ts")).init);
export const load = later(async () => (await import("#cli/load/load.ts")).load);
export const notifyTest = later(async () => (await import("./notify.ts")).notifyTest);
export const plan = later(async () => (await import("./plan.ts")).plan);
export const reject = later(async () => (await import("./approve.ts")).reject);
export const runs = later(async () => (await import("./runs.ts")).runs);
export const show = later(async () => (await import("./show.ts")).show);
export const sql = later(async () => (await import("./sql.ts")).sql);
export const start = later(async () => (await import("#cli/start/start.ts")).start);
export const undo = later(async () => (await import("./approve.ts")).undo);

type Command<Args extends readonly unknown[]> = (...args: Args) => Promise<ExitCode>;

function later<Args extends readonly unknown[]>(find: () => Promise<Command<Args>>): Command<Args> {
  return async (...args) => (await find())(...args);
}
