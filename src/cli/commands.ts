import type { ExitCode } from "./output.ts";

/*
 * The commands, each loaded when it is called: a process that runs one, and above all one that stays, has no use for
 * what the others need.
 */
export const apply = later(async () => (await import("#cli/run/apply.ts")).apply);
export const approve = later(async () => (await import("#cli/run/decide.ts")).approve);
export const audit = later(async () => (await import("#cli/audit/audit.ts")).audit);
export const auditVerify = later(async () => (await import("#cli/audit/audit.ts")).auditVerify);
export const check = later(async () => (await import("#cli/check/check.ts")).check);
export const compare = later(async () => (await import("#cli/run/compare.ts")).compare);
export const explain = later(async () => (await import("#cli/run/explain.ts")).explain);
export const exportCommand = later(async () => (await import("#cli/export/export.ts")).exportCommand);
export const health = later(async () => (await import("./health.ts")).health);
export const history = later(async () => (await import("#cli/look/history.ts")).history);
export const init = later(async () => (await import("#cli/init/init.ts")).init);
export const load = later(async () => (await import("#cli/load/load.ts")).load);
export const notifyTest = later(async () => (await import("./notify.ts")).notifyTest);
export const plan = later(async () => (await import("#cli/run/plan.ts")).plan);
export const reject = later(async () => (await import("#cli/run/decide.ts")).reject);
export const runs = later(async () => (await import("#cli/look/runs.ts")).runs);
export const show = later(async () => (await import("#cli/look/show.ts")).show);
export const sql = later(async () => (await import("./sql.ts")).sql);
export const start = later(async () => (await import("#cli/daemon/start.ts")).start);
export const undo = later(async () => (await import("#cli/run/decide.ts")).undo);

type Command<Args extends readonly unknown[]> = (...args: Args) => Promise<ExitCode>;

function later<Args extends readonly unknown[]>(find: () => Promise<Command<Args>>): Command<Args> {
  return async (...args) => (await find())(...args);
}
